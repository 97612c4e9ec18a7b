"""The ends of a rank, each told in its folder, in its recording, and to whoever listens."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.cluster.flight.recording import Recording
from mpiparallel.launch.job.lost_output import LostOutput
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.rank.exit_reporter import ExitReporter, print_last_words

ODD = Failure(1, 1000.0, "ValueError: odd", "Traceback\nValueError: odd\n\n", 7)
EXIT = Failure(1, 1000.0, "SystemExit: 3", "SystemExit: 3\n", 3)


class Left(BaseException):
    """This process has left, with a code."""


@pytest.fixture(autouse=True)
def _leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(os, "_exit", leave)


@pytest.fixture
def said() -> list[Any]:
    return []


def reporter(folder: Path, said: list[Any], *, alone: bool = False, **given: Any) -> ExitReporter:
    """A reporter of rank 1 of 2 that speaks to ``said``, as its launcher or, where it is alone, as the terminal."""
    own = RankFolder(folder, 1)
    own.path.mkdir()
    own.log.touch()

    def listen(word: str, **fields: Any) -> None:
        said.append((word, sorted(fields)))

    def fail(words: str, code: int) -> None:
        said.append((words, code))

    listener: Any = SimpleNamespace(say=listen, fail=fail)
    ends: dict[str, Any] = {"standalone": listener} if alone else {"client": listener}
    return ExitReporter(own, 2, FlightRecorder(own.flight, 1, 2), **ends, **given)


def state(one: ExitReporter) -> str:
    return Recording.of_memory(one.recorder.memory).state


@pytest.mark.parametrize(
    ("word", "mark", "other"), [("completed", "completed", "preempted"), ("preempted", "preempted", "completed")]
)
def test_a_good_end_leaves_its_mark_and_is_told_with_what_was_lost(
    word: str, mark: str, other: str, tmp_path: Path, said: list[Any]
) -> None:
    one = reporter(tmp_path, said, word=word)
    one.leave()
    one.say()
    assert said == [("script ended", []), (word, ["lost"])]
    assert ((one.folder.path / mark).exists(), (one.folder.path / other).exists()) == (True, False)
    assert float((one.folder.path / mark).read_text()) > 1e9
    assert state(one) == "ended"


def test_a_good_end_is_told_also_where_the_folder_is_gone(tmp_path: Path, said: list[Any]) -> None:
    one = reporter(tmp_path, said)
    shutil.rmtree(one.folder.path)
    one.say()
    assert said == [("completed", ["lost"])]


def test_a_rank_alone_says_nothing_of_a_good_end(tmp_path: Path, said: list[Any]) -> None:
    one = reporter(tmp_path, said, alone=True, lost=LostOutput())
    one.leave()
    one.say()
    assert said == []
    assert one.folder.completed.exists()


def test_who_begins_to_fail_says_so_and_stops_its_watchdog(tmp_path: Path, said: list[Any]) -> None:
    stopped: list[str] = []
    one = reporter(tmp_path, said, watchdog=SimpleNamespace(stop=lambda: stopped.append("stopped")))
    one.begin_to_fail(ODD)
    assert (said, stopped, state(one), one.is_failing) == ([("failing", ["failure"])], ["stopped"], "failing", True)
    one.say()
    assert (said[1:], one.folder.completed.exists(), state(one)) == ([], False, "failing")


@pytest.mark.parametrize(
    ("failure", "alone", "told"),
    [
        (ODD, False, ("failed", ["failure", "lost"])),
        (EXIT, False, ("failed", ["failure", "lost"])),
        (ODD, True, ("error: rank 1 of 2 failed: ValueError: odd\nTraceback\nValueError: odd\n  its log: LOG", 7)),
        (EXIT, True, ("error: rank 1 of 2 failed: it left with exit code 3\n  its log: LOG", 3)),
    ],
)
def test_a_failure_is_in_the_folder_the_recording_and_the_log_and_told_once(
    failure: Failure, alone: bool, told: tuple[Any, Any], tmp_path: Path, said: list[Any], capfd: Any
) -> None:
    one = reporter(tmp_path, said, alone=alone)
    with pytest.raises(Left, match=f"^{failure.exit_code}$"):
        one.fail(failure, "last words\n")
    words, more = said[0]
    assert [(words.replace(str(one.folder.log), "LOG"), more)] == [told]
    assert len(said) == 1
    assert (one.folder.read_failure(), state(one), one.is_failing) == (failure, "failed", True)
    assert one.folder.log.read_text() == "last words\n"
    assert capfd.readouterr().err == "last words\n"


def test_without_last_words_none_are_printed_and_a_folder_that_is_gone_is_no_other_error(
    tmp_path: Path, said: list[Any], capfd: Any
) -> None:
    one = reporter(tmp_path, said)
    shutil.rmtree(one.folder.path)
    with pytest.raises(Left, match=r"^7$"):
        one.fail(ODD)
    assert (said, capfd.readouterr().err) == ([("failed", ["failure", "lost"])], "")


@pytest.mark.parametrize(
    ("before", "words", "is_added"),
    [
        ("", "end\n", True),
        ("end\n", "end\n", False),
        ("end\nother words of threads\n", "end\n", False),
        ("end", "end\n", True),
        # Of very long words the last 64 KiB are looked for, in twice as much.
        ("b" * (64 * 1024), "a" * 10 + "b" * (64 * 1024), False),
        ("end\n" + "x" * (128 * 1024 - 4), "end\n", False),
        ("end\n" + "x" * (128 * 1024 - 3), "end\n", True),
    ],
)
def test_last_words_are_added_to_a_log_whose_end_has_them_not(
    before: str, words: str, is_added: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    (tmp_path / "log").write_text(before)
    print_last_words(words, tmp_path / "log")
    assert (tmp_path / "log").read_text() == before + words * is_added


@pytest.mark.parametrize("alone", [True, False])
def test_what_a_rank_could_not_write_is_said_by_itself_only_where_there_is_no_launcher(
    alone: bool, tmp_path: Path, said: list[Any]
) -> None:
    one = reporter(tmp_path, said, alone=alone, lost=LostOutput(5, "full"))
    one.say()
    words = (
        f"warning: rank 1: 5 bytes (full) of output are lost, as {one.folder.path} took no more; make room there, or "
        "give another --log-dir"
    )
    assert said == [(words, []) if alone else ("completed", ["lost"])]
