"""How a rank says that it ends: what it writes, what it tells the launcher, and by which code it leaves."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.errors import LaunchError, ReshardError, name_origins
from mpiparallel.launch.job.lost_output import LostOutput
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.rank import failing, identity, standalone, subreaper, worker
from mpiparallel.launch.rank.exit_reporter import ExitReporter
from mpiparallel.launch.rank.traceback_report import report


class Left(BaseException):
    """This process has left, with a code."""


@pytest.fixture(autouse=True)
def _leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(os, "_exit", leave)


class Said:
    """Takes the place of what a rank says something to."""

    def __init__(self) -> None:
        self.words: list[Any] = []

    def say(self, word: str, **fields: Any) -> None:
        self.words.append((word, fields))

    def fail(self, words: str, code: int) -> None:
        self.words.append((words, code))


def reporter(folder: Path, **given: Any) -> ExitReporter:
    own = RankFolder(folder, 1)
    own.path.mkdir()
    own.log.touch()
    return ExitReporter(own, 2, FlightRecorder(own.flight, 1, 2), **given)


def test_a_rank_that_has_begun_to_fail_does_not_say_that_it_has_completed(tmp_path: Path) -> None:
    client = Said()
    one = reporter(tmp_path, client=client)
    one.begin_to_fail(Failure(1, 1.0, "ValueError", "", 1))
    one.say()
    assert [word for word, _ in client.words] == ["failing"]
    assert not one.folder.completed.exists()


@pytest.mark.parametrize(
    ("has_client", "lost", "said"),
    [
        (True, 9, [("completed", {"lost": {"size": 9, "reason": "full"}})]),
        (False, 0, []),
        (
            False,
            9,
            [
                "warning: rank 1: 9 bytes (full) of output are lost, as FOLDER took no more; make room there, or give "
                "another --log-dir"
            ],
        ),
    ],
)
def test_what_a_rank_could_not_print_is_told_to_the_launcher_or_said_where_there_is_none(
    has_client: bool, lost: int, said: list[Any], tmp_path: Path
) -> None:
    client, alone = Said(), Said()
    given: dict[str, Any] = {"client": client if has_client else None, "standalone": alone}
    one = reporter(tmp_path, lost=LostOutput(lost, "full"), **given)
    one.say()
    told = client.words if has_client else [words.replace(str(one.folder.path), "FOLDER") for words, _ in alone.words]
    assert told == said
    assert one.folder.completed.exists()


def told(failure: BaseException, folder: Path) -> Failure:
    """Let a rank fail, and return what it says first."""
    client = Said()
    with pytest.raises(Left, match=r"^7$"):
        failing.fail(reporter(folder, client=client), failure, 7, debug=False)
    (word, fields), *_ = client.words
    assert word == "failing"
    return Failure(**fields["failure"])


@pytest.mark.parametrize(("origins", "origin"), [((), None), ((0, 1), 1), ((3, 2), 2)])
def test_an_error_that_several_ranks_cause_is_of_the_rank_itself_where_it_is_one_of_them_else_of_the_first(
    origins: tuple[int, ...], origin: int | None, tmp_path: Path
) -> None:
    assert told(name_origins(ReshardError("x"), origins), tmp_path).origin == origin


def test_a_rank_leaves_with_its_code_whatever_goes_wrong_with_the_words(tmp_path: Path) -> None:
    class Broken:
        folder = RankFolder(tmp_path, 1)

        def begin_to_fail(self, failure: Failure) -> None:
            raise MemoryError

    broken: Any = Broken()
    with pytest.raises(Left, match=r"^9$"):
        failing.fail(broken, ValueError("odd"), 9, debug=False)


def test_an_error_that_cannot_be_put_in_words_is_told_by_its_class() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

        @property
        def __notes__(self) -> list[str]:  # type: ignore[override]
            raise KeyError("notes")

    found = report(OddError(), debug=False)
    words = "OddError (to put it in words fails: KeyError)"
    assert (found.line, found.traceback, found.shortened) == (words, f"{words}\n", f"{words}\n")


@pytest.mark.parametrize(("order", "rank"), [(None, 1), (RankOrder((2, 0, 1)), 0)])
def test_a_rank_is_who_the_order_says_and_mpi_calls_it_by_its_own_number(
    order: RankOrder | None, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Environment, "read", lambda: Environment(1, 3, 1, 3, 0))
    found, process = identity.identity(3, order)
    assert (found.rank, found.local_rank, process) == (rank, 1, 1)


@pytest.mark.parametrize(("mpi", "codes"), [(None, []), ((False, False), []), ((True, True), []), ((True, False), [5])])
def test_a_job_is_aborted_only_between_the_start_and_the_end_of_mpi(
    mpi: tuple[bool, bool] | None, codes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    aborted: list[int] = []
    world = SimpleNamespace(Abort=aborted.append)
    module = mpi and SimpleNamespace(Is_initialized=lambda: mpi[0], Is_finalized=lambda: mpi[1], COMM_WORLD=world)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)
    standalone._abort(5)
    assert aborted == codes


def test_a_rank_for_which_there_is_no_guard_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    former = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    monkeypatch.setattr(os, "fork", refuse)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    words = (
        f"^{os.uname().nodename}: no process to guard rank 3 \\(Resource temporarily unavailable\\); allow more "
        r"\(ulimit -u\), or give --keep-children$"
    )
    try:
        with pytest.raises(LaunchError, match=words):
            subreaper.stand_guard(RankFolder(tmp_path, 3), pytest.fail)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def test_elsewhere_than_on_linux_no_guard_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subreaper, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process was made"))
    subreaper.stand_guard(RankFolder(tmp_path, 3), pytest.fail)


@pytest.mark.parametrize("has_standalone", [False, True])
def test_what_is_remarked_of_a_rank_that_has_ended_is_in_its_log_and_on_stderr_where_nobody_reads_that(
    has_standalone: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    one = reporter(tmp_path)
    one.folder.log.write_text("before\n")
    alone: Any = Said() if has_standalone else None
    settings = worker.WorkerSettings(2, tmp_path, Script("script.py", ()), standalone=alone)
    worker._remark(settings, one.folder, "left: sleep")
    assert one.folder.log.read_text() == "before\nleft: sleep\n"
    assert capfd.readouterr().err == ("left: sleep\n" if has_standalone else "")


def test_a_rank_that_cannot_begin_says_why_to_whoever_is_there(capfd: pytest.CaptureFixture[str]) -> None:
    client, alone = Said(), Said()
    given: tuple[Any, Any] = (client, alone)
    with pytest.raises(SystemExit) as ended:
        worker._refuse(LaunchError("no room"), *given)
    ((word, fields),) = client.words
    failure = fields["failure"]
    assert (word, failure["exception"], failure["traceback"], failure["exit_code"]) == (
        "failed",
        "no room",
        "mpiparallel: error: no room",
        2,
    )
    assert alone.words == [("error: no room", 2)]
    assert (ended.value.code, capfd.readouterr().err) == (2, "mpiparallel: error: no room\n")


@pytest.mark.parametrize("has_client", [False, True])
@pytest.mark.parametrize("survival", ["abort", "shrink"])
def test_a_hang_that_the_watchdog_finds_ends_the_rank_with_code_86(
    has_client: bool, survival: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made: list[Any] = []

    class Dog:
        def __init__(self, recorder: Any, seconds: Any, end: Callable[[Any], None], *more: Any, **named: Any) -> None:
            self.end, self.given = end, (seconds, *more, named)
            made.append(self)

        def start(self) -> None:
            self.has_started = True

    monkeypatch.setattr(worker, "Watchdog", Dog)
    monkeypatch.setenv("MPIPARALLEL_ON_FAILURE", survival)
    client = Said()
    given: dict[str, Any] = {"client": client if has_client else None}
    one = reporter(tmp_path, **given)
    worker._watch(one, 30.0, 5)
    peers = {0: RankFolder(tmp_path, 0).flight}
    assert made[0].given == (30.0, 5, peers, {"deaths_are_survived": survival == "shrink"})
    assert made[0].has_started
    with pytest.raises(Left, match=r"^86$"):
        made[0].end(SimpleNamespace(sentence="rank 1 waits"))
    failure = one.folder.read_failure()
    assert failure is not None
    assert (failure.rank, failure.exception, failure.exit_code) == (1, "rank 1 waits", 86)
    words = "" if has_client else "mpiparallel: the job hangs: rank 1 waits\n"
    assert one.folder.log.read_text() == words
    assert [word for word, _ in client.words] == ["failed"] * has_client
    # A second one finds it failing already.
    made[0].end(SimpleNamespace(sentence="rank 1 waits"))


def test_a_rank_says_that_its_launcher_is_gone_or_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worker, "ControlClient", lambda *given: given)
    given: Any = worker._connect("127.0.0.1:4711:t", 3, 2, 1)
    where, about, leave, go_on = given
    assert str(where) == "127.0.0.1:4711:t"
    assert about == {"rank": 3, "process": 2, "pid": os.getpid(), "starter": 1, "host": os.uname().nodename}
    with pytest.raises(Left, match=r"^1$"):
        leave()
    go_on("no route")
    assert capfd.readouterr().err.splitlines() == [
        "mpiparallel: the launcher of the job is gone, so rank 3 ends",
        "mpiparallel: the launcher cannot be reached (no route); rank 3 goes on",
    ]
