"""What a rank does itself where no launcher watches it: show its log, say words, and end the whole job."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpiparallel.launch.rank import standalone as module
from mpiparallel.launch.rank.standalone import Standalone


class Left(BaseException):
    """This process has left, with a code."""


@pytest.fixture
def at_exit(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is to be done at the end of the process; it leaves by an exception, and nobody sleeps."""

    def leave(code: int) -> None:
        raise Left(code)

    found: list[object] = []
    monkeypatch.setattr(module, "atexit", SimpleNamespace(register=found.append))
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr(os, "_exit", leave)
    return found


@pytest.mark.parametrize(
    ("shows", "prefix", "shown"), [(True, "", "a\nb"), (True, "[1] ", "[1] a\n[1] b\n"), (False, "", "")]
)
def test_what_comes_to_the_log_is_shown_to_its_end_by_who_shows_it(
    shows: bool, prefix: str, shown: str, tmp_path: Path, at_exit: list[object], capfd: pytest.CaptureFixture[str]
) -> None:
    alone = Standalone(shows=shows, prefix=prefix)
    log = tmp_path / "log"
    alone.begin(log)
    log.write_text("a\nb")
    for ending in at_exit:
        ending()  # type: ignore[operator]
    assert (len(at_exit), capfd.readouterr().out) == (int(shows), shown)


def test_words_are_said_printable_on_the_stderr_of_the_start(
    at_exit: list[object], capfd: pytest.CaptureFixture[str]
) -> None:
    alone = Standalone(shows=False)
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        alone.say("one \x1b[2J\ntwo \udce9\n\n")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
    assert capfd.readouterr().err == "mpiparallel: one \\x1b[2J\ntwo \\udce9\n"


@pytest.mark.parametrize("has_mpi", [True, False])
def test_who_fails_shows_the_rest_says_why_aborts_mpi_and_leaves_with_its_code(
    has_mpi: bool,
    tmp_path: Path,
    at_exit: list[object],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    aborted: list[int] = []
    world = SimpleNamespace(Abort=aborted.append)
    mpi = SimpleNamespace(Is_initialized=lambda: True, Is_finalized=lambda: False, COMM_WORLD=world)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi if has_mpi else None)
    alone = Standalone(shows=True)
    alone.begin(tmp_path / "log")
    (tmp_path / "log").write_text("last")
    with pytest.raises(Left, match=r"^7$"):
        alone.fail("error: odd", 7)
    out, err = capfd.readouterr()
    assert (out, err, aborted) == ("last", "mpiparallel: error: odd\n", [7] * has_mpi)


@pytest.mark.parametrize(
    ("is_begun", "is_over", "is_aborted"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_only_an_mpi_that_has_begun_and_is_not_over_is_aborted(
    is_begun: bool, is_over: bool, is_aborted: bool, at_exit: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    aborted: list[int] = []
    mpi = SimpleNamespace(
        Is_initialized=lambda: is_begun, Is_finalized=lambda: is_over, COMM_WORLD=SimpleNamespace(Abort=aborted.append)
    )
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)
    with pytest.raises(Left, match=r"^9$"):
        Standalone(shows=False).fail("error: odd", 9)
    assert aborted == [9] * is_aborted


def test_what_the_script_has_not_flushed_is_shown_before_the_job_ends(
    tmp_path: Path, at_exit: list[object], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    alone = Standalone(shows=True)
    alone.begin(tmp_path / "log")
    # A stream that the script has closed is no reason to end otherwise.
    (tmp_path / "closed").touch()
    with (tmp_path / "log").open("w") as log, (tmp_path / "closed").open() as closed:
        closed.close()
        monkeypatch.setattr(sys, "stdout", log)
        monkeypatch.setattr(sys, "stderr", closed)
        log.write("kept back")
        with pytest.raises(Left, match=r"^3$"):
            alone.fail("error: odd", 3)
    assert capfd.readouterr() == ("kept back", "mpiparallel: error: odd\n")
