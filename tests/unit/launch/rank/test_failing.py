"""What a rank says when its script fails: first by what is known at once, then in words, whatever the script raised."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.errors import ReshardError, name_origins
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.rank import failing


class Left(BaseException):
    """This process has left, with a code."""


class Reporter:
    """Keeps what it is told; to fail by it is to leave."""

    def __init__(self, folder: Path) -> None:
        self.folder = RankFolder(folder, 1)
        self.begun: list[Failure] = []
        self.ended: list[tuple[Failure, str]] = []

    def begin_to_fail(self, failure: Failure) -> None:
        self.begun.append(failure)

    def fail(self, failure: Failure, last_words: str) -> None:
        self.ended.append((failure, last_words))


def failed(
    error: BaseException, folder: Path, monkeypatch: pytest.MonkeyPatch, code: int = 7
) -> tuple[Failure, Failure, str]:
    """Return what is told first and last of an error, and the last words that are printed."""

    def leave(given: int) -> None:
        raise Left(given)

    monkeypatch.setattr(os, "_exit", leave)
    reporter: Any = Reporter(folder)
    with pytest.raises(Left, match=f"^{code}$"):
        failing.fail(reporter, error, code, debug=False)
    ((last, words),) = reporter.ended
    return reporter.begun[0], last, words


def test_an_error_is_told_by_its_class_first_and_with_its_traceback_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last, words = failed(ValueError("odd"), tmp_path, monkeypatch)
    assert (first.rank, first.exception, first.traceback, first.exit_code) == (1, "ValueError", "", 7)
    assert (last.exception, last.traceback, last.time) == ("ValueError: odd", "ValueError: odd\n", first.time)
    assert words == "ValueError: odd\n"


@pytest.mark.parametrize(
    ("given", "line", "words"),
    [
        (3, "SystemExit: 3", ""),
        ("no data", "SystemExit: no data", "no data\n"),
        (["odd"], "SystemExit: ['odd']", "['odd']\n"),
    ],
)
def test_of_an_exit_what_it_was_given_is_printed_unless_it_is_a_number(
    given: object, line: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, last, printed = failed(SystemExit(given), tmp_path, monkeypatch)
    assert (last.exception, printed) == (line, words)


@pytest.mark.parametrize(("origins", "origin"), [((), None), ((0, 1, 2), 1), ((3, 2), 2), ((0,), 0)])
def test_the_rank_whose_problem_it_is_is_told_at_once(
    origins: tuple[int, ...], origin: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last, _ = failed(name_origins(ReshardError("x"), origins), tmp_path, monkeypatch)
    assert (first.origin, last.origin, last.action) == (origin, origin, "")
