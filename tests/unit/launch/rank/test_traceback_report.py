"""What is told of the error of a script: one line, and a traceback of the lines that are the user's own."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.rank.traceback_report import TracebackReport, parser_exit, report


def raised(work: Callable[[], object]) -> BaseException:
    try:
        work()
    except BaseException as error:
        return error
    pytest.fail("nothing was raised")


def told(error: BaseException, debug: bool = False) -> TracebackReport:
    return report(error, debug)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "ValueError: one"),
        (ValueError(""), "ValueError"),
        (ValueError("\n\n  two"), "ValueError: two"),
        (ValueError("one:\ntwo"), "ValueError: one: two"),
        (ValueError("x" * 2000), f"ValueError: {'x' * 988}"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyError("key"), "KeyError: 'key'"),
        (LaunchError("no room"), "mpiparallel.errors.LaunchError: no room"),
    ],
)
def test_an_error_is_one_line_of_at_most_a_thousand_characters(error: BaseException, line: str) -> None:
    assert told(error).line == line


def test_of_an_error_of_syntax_the_message_is_told_not_the_place() -> None:
    assert told(raised(lambda: compile("(", "odd.py", "exec"))).line == "SyntaxError: '(' was never closed"


@pytest.mark.parametrize(("size", "more"), [(4000, None), (4001, "1"), (9000, "5,000")])
def test_a_long_piece_of_a_traceback_is_cut_and_says_how_much_is_left_out(size: int, more: str | None) -> None:
    found = told(ValueError("x" * (size - len("ValueError: \n"))))
    assert len(found.traceback) == size
    if more is None:
        assert found.shortened == found.traceback
    else:
        assert found.shortened == f"{found.traceback[:4000]} ... and {more} characters more\n"


def test_a_traceback_of_many_causes_keeps_its_last_16_kib() -> None:
    error: BaseException = ValueError("first")
    for number in range(40):
        following = ValueError(f"{number} " + "x" * 1000)
        following.__cause__ = error
        error = following
    found = told(error)
    assert len(found.shortened) == 16 * 1024
    assert found.traceback.endswith(found.shortened)
    assert found.shortened.rstrip().endswith("x")


def refuse() -> None:
    Script("absent.py").check()


def refuse_in_turn() -> None:
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise LaunchError("outer") from error


def test_what_is_refused_shows_the_users_lines_alone_unless_it_is_looked_into() -> None:
    error = raised(refuse)
    brief, whole = told(error), told(error, debug=True)
    assert re.findall(r"line \d+, in (\w+)", brief.traceback) == ["raised", "refuse"]
    assert re.findall(r"line \d+, in (\w+)", whole.traceback) == ["raised", "refuse", "check"]
    assert brief.line == whole.line
    brief, whole = told(raised(refuse_in_turn)), told(raised(refuse_in_turn), debug=True)
    assert ("inner" in brief.traceback, "inner" in whole.traceback) == (False, True)


def test_what_python_runs_for_the_package_is_not_the_users_but_what_the_user_calls_is() -> None:
    def in_library() -> None:
        json.loads("1", parse_int=lambda text: refuse())

    names = re.findall(r"line \d+, in (\S+)", told(raised(in_library)).traceback)
    # Files of Python's library that the user's code has called are shown, up to those of the package.
    assert (names[0], names[-1]) == ("raised", "refuse")
    assert "loads" in names


def test_frames_of_what_runs_the_script_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["x"])
    monkeypatch.setattr("sys.path", ["x", *sys.path])
    (tmp_path / "odd.py").write_text("def fail():\n    1 / 0\nfail()\n")
    error = raised(Script(str(tmp_path / "odd.py")).run)
    assert error.__traceback__ is not None
    # As the worker calls it: the frame of this file is not there.
    error.__traceback__ = error.__traceback__.tb_next
    assert re.findall(r'File "(.*)", line (\d+)', told(error).traceback) == [
        (str(tmp_path / "odd.py"), "3"),
        (str(tmp_path / "odd.py"), "2"),
    ]


def test_only_an_exit_by_argparse_is_told_in_its_words() -> None:
    parser = argparse.ArgumentParser(prog="train.py", exit_on_error=True)
    parser.add_argument("--steps", type=int)
    words = "SystemExit: train.py: argument --steps: invalid int value: 'x'"
    error = raised(lambda: parser.parse_args(["--steps", "x"]))
    assert (parser_exit(error), told(error).line) == (words, words)
    many = raised(lambda: parser.error("two\n   lines"))
    assert parser_exit(many) == "SystemExit: train.py: two lines"
    assert parser_exit(raised(lambda: parser.parse_args(["--help"]))) is None
    assert parser_exit(SystemExit(2)) is None
    assert parser_exit(ValueError("x")) is None
