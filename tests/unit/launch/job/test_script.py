"""The program of a job: how it is named, looked for, and run as Python would run it."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.script import Script


def parsed(*words: str) -> Script:
    parser = argparse.ArgumentParser()
    Script.add_arguments(parser)
    return Script.parsed(parser.parse_args(words))


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (("train.py", "-n", "3"), Script("train.py", ("-n", "3"))),
        (("-m", "package.train", "-m", "x"), Script("package.train", ("-m", "x"), is_module=True)),
        (("--", "train.py", "--"), Script("train.py", ("--",))),
    ],
)
def test_what_follows_the_script_is_its_own(words: tuple[str, ...], script: Script) -> None:
    assert parsed(*words) == script
    assert parsed(*script.argv) == script


@pytest.mark.parametrize("words", [(), ("-m",), ("--",)])
def test_a_line_without_a_script_is_refused_with_the_mend(words: tuple[str, ...]) -> None:
    with pytest.raises(
        LaunchError, match=r"^no script to run; give a script.py, or -m and a module, after the options$"
    ):
        parsed(*words)


def test_a_file_that_is_not_there_is_refused_with_the_folder_and_a_module_is_left_to_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = re.escape(f'script "train.py" is not a file in {tmp_path}; check its path')
    with pytest.raises(LaunchError, match=f"^{said}$"):
        Script("train.py").check()
    Script("train.py", is_module=True).check()
    Path("train.py").touch()
    Script("train.py").check()


PROGRAM = """
import pathlib, sys
pathlib.Path(sys.argv[1]).write_text("\\n".join([
    __name__, *sys.argv[1:], sys.path[0], str(vars(sys.modules["__main__"]) is globals())
]))
"""


@pytest.mark.parametrize("is_module", [False, True])
def test_a_script_runs_as_main_with_its_arguments_and_its_folder_first_in_the_path(
    is_module: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "odd_program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["launcher"])
    monkeypatch.setattr(sys, "path", ["first", *sys.path])
    given = sys.argv
    name = "inner.odd_program" if is_module else "inner/odd_program.py"
    try:
        Script(name, ("told", "--epochs"), is_module).run()
    finally:
        # The package of this folder must not be found by that of another one.
        sys.modules.pop("inner", None)
    # A module's folder is where Python was started, a file's is its own.
    expected = ["__main__", "told", "--epochs", str(tmp_path if is_module else folder), "True"]
    assert Path("told").read_text().splitlines() == expected
    # Whoever holds the list sees what the script has been given.
    assert given[1:] == ["told", "--epochs"]
