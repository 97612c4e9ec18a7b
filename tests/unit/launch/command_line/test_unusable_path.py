"""Paths that no file can have are refused by the name of their argument, in every subcommand."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpiparallel.launch import cli
from mpiparallel.launch.cli import main
from mpiparallel.launch.command_line.argument_types import file_path, path_text

PLACES = ("FILE", "FILE.h5", "DIR", "TARGET_DIR", "CHECKPOINT", "SRC", "DST", "A", "B", "LOG_DIR", "RANK_TABLE_FILE")
TYPES = (file_path, path_text)
TOO_LONG = {"path": "x/" * 2500, "name": "x" * 256}


def leaves(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Yield each subcommand that has none below it, with the words that lead there."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield words, parser
    for action in below:
        for name, inner in action.choices.items():
            yield from leaves(inner, *words, name)


def path_arguments() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the words before each path that a subcommand takes, and how its message names it."""
    for words, parser in leaves(cli.command_line()):
        taken = [action for action in parser._actions if action.type in TYPES]
        for action in taken:
            if action.option_strings:
                yield (*words, action.option_strings[-1]), action.option_strings[-1]
        positional = next((action for action in taken if not action.option_strings), None)
        if positional is not None:
            yield words, str(positional.metavar or positional.dest)


ARGUMENTS = dict((" ".join(words), (words, name)) for words, name in path_arguments())


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    yield
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_every_path_on_a_command_line_is_checked_as_one() -> None:
    unchecked = [
        (*words, action.dest)
        for words, parser in leaves(cli.command_line())
        for action in parser._actions
        if (action.metavar in PLACES or isinstance(action.default, Path)) and action.type not in TYPES
    ]
    assert unchecked == []
    assert len(ARGUMENTS) > 35


@pytest.mark.parametrize("kind", TOO_LONG)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_a_path_that_is_too_long_is_refused_by_its_argument(
    argument: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words, name = ARGUMENTS[argument]
    following = [TOO_LONG[kind]] * (1 if words[-1].startswith("-") else 3)
    with pytest.raises(SystemExit) as ended:
        main([*words, *following])
    last = capsys.readouterr().err.splitlines()[-1]
    assert ended.value.code == 2
    assert "is too long: a path may have 4095 bytes, a name in it 255" in last
    assert f"{name}: " in last
    assert len(last) < 250


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_empty_path_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, name = ARGUMENTS[argument]
    with pytest.raises(SystemExit):
        main([*words, *[""] * (1 if words[-1].startswith("-") else 3)])
    assert f"{name}: the path is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["run", "-n", "2", "a\0b.py"], ["ckpt", "ls", "a\0b"], ["slurm", "make", "-o", "\0"]]
)
def test_a_nul_is_refused_wherever_it_stands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "has a NUL, which no argument and no path can have" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["run", "-n", "2", "x" * 5000], 'script "xxx'),
        (["run", "-n", "2", "loop/train.py"], 'script "loop/train.py"'),
        (["ckpt", "show", "loop"], "loop: "),
        (["ckpt", "verify", "loop/saved"], "loop/saved: "),
        (["postmortem", "loop"], "loop"),
        (["ranktable", "show", "loop"], "loop: cannot be read"),
        (["demo", "--dir", "loop/demo"], "loop/demo: "),
    ],
)
def test_what_the_system_refuses_is_told_in_one_line(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("loop").symlink_to("loop")
    try:
        assert main(words) == 2
    finally:
        Path("loop").unlink()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("mpiparallel: error: ")
    assert reason in lines[0]
