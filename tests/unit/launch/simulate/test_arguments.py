"""What a simulation is given: columns of a batch, a script, and a machine, each as a word says it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.cli import main
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.simulate.arguments import InputColumn, add_simulation, columns_of, machine_of, script_of


def parsed(*words: str, required: bool = True) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_simulation(parser, required)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("image=256,3,224,224:float32", InputColumn("image", (256, 3, 224, 224), "float32")),
        ("x=0:int8", InputColumn("x", (0,), "int8")),
        ("rate=:float64", InputColumn("rate", (), "float64")),
        ("a b/c=7:bool", InputColumn("a b/c", (7,), "bool")),
        ("n=1:uint64", InputColumn("n", (1,), "uint64")),
    ],
)
def test_a_column_has_a_name_a_shape_and_a_dtype(text: str, column: InputColumn) -> None:
    assert columns_of(parsed("train.py", "--input", text)) == (column,)


@pytest.mark.parametrize(
    "text",
    ["image", "image=3", "=3:float32", "image=3:float", "image=3,:int8", "image=-1:int8", "a:b=3:int8", "x=3:str"],
)
def test_what_is_no_column_is_refused_with_an_example(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("train.py", "--input", text)
    dtypes = "float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool"
    assert (
        f'"{text}" is no column of a batch; give NAME=SHAPE:DTYPE, as in image=256,3,224,224:float32 (dtypes: {dtypes})'
    ) in capsys.readouterr().err


def test_a_column_is_given_once() -> None:
    given = parsed("train.py", "--input", "x=1:int8", "--input", "y=1:int8", "--input", "x=2:int8")
    with pytest.raises(ConfigurationError, match=r"^--input x: it is given twice; give each column once$"):
        columns_of(given)


def test_what_follows_the_word_arguments_is_the_programs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    found = script_of(parsed("train.py", "--arguments", "--epochs", "3", "-m"))
    assert found == Script("train.py", ("--epochs", "3", "-m"))
    assert script_of(parsed("-m", "package.train")) == Script("package.train", (), is_module=True)
    assert parsed(required=False).script is None
    parser = argparse.ArgumentParser()
    add_simulation(parser)
    with pytest.raises(SystemExit):
        parser.parse_args([])


def test_a_machine_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"hosts": 3, "ranks_per_host": 5}')
    found = machine_of(parsed("train.py", "--cluster", str(tmp_path / "cluster.json")))
    assert (found.hosts, found.ranks_per_host) == (3, 5)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train.py"], "simulate: give either --ranks N or --find"),
        (["train.py", "-n", "2", "--find"], "simulate: give either --ranks N or --find"),
        (
            ["train.py", "--find", "--compare", "batch"],
            "--compare: goes with --ranks; --find has the script's strategies",
        ),
        (["train.py", "-n", "2", "--most", "4"], "--most: goes with --find"),
    ],
)
def test_words_that_do_not_go_together_are_refused_before_anything_is_run(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words]) == 2
    assert re.fullmatch(f"mpiparallel: error: {re.escape(told)}\n", capsys.readouterr().err)
