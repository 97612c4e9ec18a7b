"""How a rank ends: what of its script is a failure, what is told to whom, and what its watchdog and launcher do."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.cluster.environment import Environment
from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.address import ControlAddress
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.rank import worker
from mpiparallel.launch.rank.worker import WorkerSettings, run_rank


class Left(BaseException):
    """This process has left, with a code."""


@pytest.fixture(autouse=True)
def _leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.delenv("MPIPARALLEL_LINE", raising=False)


class Reporter:
    """Keeps what a rank says of itself."""

    def __init__(self, folder: RankFolder | None = None, client: object = None, is_failing: bool = False) -> None:
        self.folder, self.client, self.is_failing = folder, client, is_failing
        self.size, self.recorder, self.word = 3, "recorder", "completed"
        self.said: list[Any] = []

    def leave(self) -> None:
        self.said.append(("left", self.word))

    def say(self) -> None:
        self.said.append("ends well")

    def fail(self, *words: Any) -> None:
        self.said.append(words)


@pytest.fixture
def reporter(monkeypatch: pytest.MonkeyPatch) -> Reporter:
    """What the next rank that is run speaks by."""
    made = Reporter()

    def fail(found: Reporter, error: BaseException, code: int, debug: bool) -> None:
        found.said.append((type(error).__name__, code, debug))
        raise Left(code)

    monkeypatch.setattr(worker, "die_with_parent", lambda: None)
    monkeypatch.setattr(worker, "heed_preemption", lambda: None)
    monkeypatch.setattr(worker, "identity", lambda ranks, order: (Environment(1, ranks, 1, ranks, 0), 1))
    monkeypatch.setattr(worker, "_connect", lambda *words: None)
    monkeypatch.setattr(worker, "_prepare", lambda *words: made)
    monkeypatch.setattr(worker, "fail", fail)
    return made


def settings(end: BaseException | None, **more: Any) -> WorkerSettings:
    """Return those of a rank whose script ends so; None is its last line."""

    def run() -> None:
        if end is not None:
            raise end

    script: Any = SimpleNamespace(run=run)
    return WorkerSettings(3, Path("logs"), script, keeps_children=True, **more)


@pytest.mark.parametrize("end", [None, SystemExit(), SystemExit(0), SystemExit(None)])
def test_a_script_that_ends_well_is_said_to_have_left(end: BaseException | None, reporter: Reporter) -> None:
    run_rank(settings(end))
    assert reporter.said == [("left", "completed")]


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize(
    ("end", "name", "code"),
    [
        (SystemExit(3), "SystemExit", 3),
        (SystemExit(-1), "SystemExit", 255),
        (SystemExit(256), "SystemExit", 1),
        (SystemExit(257), "SystemExit", 1),
        (SystemExit(84), "SystemExit", 84),
        (SystemExit("no data"), "SystemExit", 1),
        (ValueError("odd"), "ValueError", 1),
        # 128 and the number of SIGINT, as of a program that Ctrl-C has ended.
        (KeyboardInterrupt(), "KeyboardInterrupt", 130),
    ],
)
def test_any_other_end_is_a_failure_with_its_code(
    end: BaseException, name: str, code: int, debug: bool, reporter: Reporter
) -> None:
    with pytest.raises(Left, match=f"^{code}$"):
        run_rank(settings(end, debug=debug))
    assert reporter.said == [(name, code, debug)]


@pytest.mark.parametrize("has_launcher", [True, False])
def test_a_preempted_script_ends_well_under_the_launcher_and_else_with_its_own_code(
    has_launcher: bool, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_launcher:
        monkeypatch.setenv("MPIPARALLEL_LINE", "127.0.0.1:4711:t")
        run_rank(settings(SystemExit(85)))
        assert reporter.said == [("left", "preempted")]
        # What the script starts must not call the launcher.
        assert "MPIPARALLEL_LINE" not in os.environ
    else:
        with pytest.raises(SystemExit, match=r"^85$"):
            run_rank(settings(SystemExit(85)))
        assert (reporter.said, reporter.word) == ([], "preempted")


def test_why_a_rank_cannot_begin_is_told_to_the_launcher_and_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[Any] = []
    client: Any = SimpleNamespace(say=lambda word, failure: said.append((word, failure)))
    with pytest.raises(SystemExit, match=r"^2$"):
        worker._refuse(LaunchError("no room"), client)
    ((word, failure),) = said
    told = (word, failure["exception"], failure["traceback"], failure["exit_code"])
    assert told == ("failed", "no room", "mpiparallel: error: no room", 2)
    assert capsys.readouterr().err == "mpiparallel: error: no room\n"


def test_a_rank_alone_ends_the_job_where_it_cannot_begin() -> None:
    def fail(words: str, code: int) -> None:
        raise Left(f"{words} {code}")

    alone: Any = SimpleNamespace(fail=fail)
    with pytest.raises(Left, match=r"^error: no room 2$"):
        worker._refuse(LaunchError("no room"), None, alone)


@pytest.mark.parametrize("has_client", [True, False])
@pytest.mark.parametrize(("policy", "survives"), [("shrink", True), ("restart", False), (None, False)])
def test_a_watchdog_looks_at_the_other_ranks_and_a_hang_is_a_failure_with_code_86(
    has_client: bool, policy: str | None, survives: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    started: list[str] = []

    def watchdog(*words: Any, **named: Any) -> Any:
        made.append((words, named))
        return SimpleNamespace(start=lambda: started.append("started"))

    monkeypatch.setattr(worker, "Watchdog", watchdog)
    monkeypatch.delenv("MPIPARALLEL_ON_FAILURE", raising=False)
    if policy:
        monkeypatch.setenv("MPIPARALLEL_ON_FAILURE", policy)
    told = Reporter(RankFolder(tmp_path, 1), object() if has_client else None)
    worker._watch(told, 30.0, 7)  # type: ignore[arg-type]
    (((recorder, seconds, end_hang, stack, peers), named),) = made
    assert (recorder, seconds, stack, started) == ("recorder", 30.0, 7, ["started"])
    assert peers == {rank: tmp_path / f"device{rank}" / f"flight{rank}.bin" for rank in (0, 2)}
    assert named == {"deaths_are_survived": survives}
    end_hang(SimpleNamespace(sentence="rank 1 waits"))
    ((failure, words),) = told.said
    assert (failure.rank, failure.exception, failure.traceback, failure.exit_code) == (1, "rank 1 waits", "", 86)
    # The launcher says it itself.
    assert words == ("" if has_client else "mpiparallel: the job hangs: rank 1 waits\n")
    told.is_failing = True
    end_hang(SimpleNamespace(sentence="rank 1 waits"))
    assert len(told.said) == 1


def test_only_the_rank_itself_says_at_its_exit_that_it_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    at_exit: list[Any] = []
    monkeypatch.setattr(worker, "atexit", SimpleNamespace(register=at_exit.append))
    told = Reporter()
    stopped: Any = SimpleNamespace(stop=lambda: told.said.append("stopped"))
    worker._say_at_exit(told, stopped)  # type: ignore[arg-type]
    (say,) = at_exit
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    say()
    assert told.said == []
    monkeypatch.setattr(os, "getpid", lambda: own)
    say()
    assert told.said == ["stopped", "ends well"]


def test_a_rank_tells_the_launcher_who_it_is_and_ends_without_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worker, "ControlClient", lambda *words: words)
    given: Any = worker._connect("127.0.0.1:4711:t", 3, 2, 77)
    address, about, leave, go_on = given
    assert address == ControlAddress(("127.0.0.1",), 4711, "t")
    own = {"pid": os.getpid(), "host": os.uname().nodename}
    assert about == {"rank": 3, "process": 2, "starter": 77, **own}
    go_on("no route")
    with pytest.raises(Left, match=r"^1$"):
        leave()
    assert capfd.readouterr().err.splitlines() == [
        "mpiparallel: the launcher cannot be reached (no route); rank 3 goes on",
        "mpiparallel: the launcher of the job is gone, so rank 3 ends",
    ]


@pytest.mark.parametrize("is_alone", [True, False])
def test_what_is_said_of_a_rank_that_has_ended_is_in_its_log_and_on_stderr_where_nobody_shows_that(
    is_alone: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = RankFolder(tmp_path, 1)
    folder.path.mkdir()
    folder.log.write_text("before\n")
    alone: Any = object() if is_alone else None
    worker._remark(settings(None, standalone=alone), folder, "left processes \udce9")
    assert folder.log.read_text() == "before\nleft processes ?\n"
    assert capfd.readouterr().err == "left processes ?\n" * is_alone
