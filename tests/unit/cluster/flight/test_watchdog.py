from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpiparallel.cluster.flight import format as layout
from mpiparallel.cluster.flight import watchdog as watching
from mpiparallel.cluster.flight.hang_diagnosis import Diagnosis
from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.cluster.flight.watchdog import Watchdog, watchdog_seconds
from mpiparallel.errors import ConfigurationError

PATIENCE = 3600.0
LONG = 0.4
"""Eight looks of a quick watchdog."""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let watchdogs look ten times as often, and suspect a wait after a tenth of the time."""
    for name in ("_LOOK_SECONDS", "_SUSPICIOUS_SECONDS"):
        monkeypatch.setattr(watching, name, getattr(watching, name) / 10.0)


def paths(folder: Path) -> dict[int, Path]:
    return {rank: folder / f"flight{rank}.bin" for rank in range(2)}


def barked(
    folder: Path,
    seconds: float | None,
    meanwhile: Callable[[FlightRecorder], None],
    patience: float,
    is_stale: bool = False,
    **options: bool,
) -> Diagnosis | None:
    """Let rank 0 wait for rank 1 under a watchdog, and return what it says within a time."""
    heard: list[Diagnosis] = []
    rang = threading.Event()

    def ring(diagnosis: Diagnosis) -> None:
        heard.append(diagnosis)
        rang.set()

    other = FlightRecorder(paths(folder)[1], 1, 2)
    if is_stale:
        meanwhile(other)
        time.sleep(0.01)
    waiting = FlightRecorder(paths(folder)[0], 0, 2)
    waiting.enter(waiting.group([0, 1]), waiting.text("barrier"), 0, 0)
    if not is_stale:
        meanwhile(other)
    with (folder / "stack0.log").open("wb") as stack:
        watchdog = Watchdog(waiting, seconds, ring, stack.fileno(), {1: paths(folder)[1]}, **options)
        watchdog.start()
        rang.wait(patience)
        watchdog.stop()
        watchdog._thread.join(PATIENCE)
    return heard[0] if heard else None


@pytest.mark.usefixtures("quick")
def test_a_rank_that_waits_too_long_leaves_its_stacks_and_is_told_for_whom_it_waits(tmp_path: Path) -> None:
    diagnosis = barked(tmp_path, 0.15, lambda other: other.change_state(layout.RUNNING), PATIENCE)
    assert diagnosis is not None
    assert diagnosis.culprits == (1,)
    assert "test_watchdog.py" in (tmp_path / "stack0.log").read_text()


@pytest.mark.usefixtures("quick")
def test_a_rank_whose_peer_has_ended_need_not_wait_for_the_time_to_pass(tmp_path: Path) -> None:
    diagnosis = barked(tmp_path, 3600.0, lambda other: other.change_state(layout.ENDED), PATIENCE)
    assert diagnosis is not None
    assert "rank 1, which has ended" in diagnosis.sentence


@pytest.mark.usefixtures("quick")
def test_where_deaths_are_survived_only_the_time_counts(tmp_path: Path) -> None:
    ended = barked(tmp_path, None, lambda other: other.change_state(layout.FAILED), LONG, deaths_are_survived=True)
    assert ended is None


@pytest.mark.usefixtures("quick")
def test_a_rank_whose_peer_is_about_to_tell_how_it_fails_lets_it_speak(tmp_path: Path) -> None:
    assert barked(tmp_path, 0.15, lambda other: other.change_state(layout.FAILING), LONG) is None


@pytest.mark.usefixtures("quick")
def test_what_another_job_has_left_in_the_folder_proves_nothing(tmp_path: Path) -> None:
    assert barked(tmp_path, 3600.0, lambda other: other.change_state(layout.ENDED), LONG, is_stale=True) is None


@pytest.mark.usefixtures("quick")
def test_a_rank_that_waits_for_one_that_computes_is_left_alone(tmp_path: Path) -> None:
    assert barked(tmp_path, 3600.0, lambda other: other.change_state(layout.RUNNING), LONG) is None


def tells(
    patch: pytest.MonkeyPatch, folder: Path, peers: int, seconds: float, waits: list[float]
) -> list[tuple[int, ...] | None]:
    """Return whom the looks of rank 0 find after waits of so many seconds. Rank 1 has ended; the others are unseen."""
    waiting = FlightRecorder(None, 0, 2)
    FlightRecorder(paths(folder)[1], 1, 2).change_state(layout.ENDED)
    before = time.time()
    waiting.enter(waiting.group([0, 1]), waiting.text("barrier"), 0, 0)
    files = {1: paths(folder)[1], **{rank: folder / "missing" for rank in range(2, peers + 1)}}
    watchdog = Watchdog(waiting, seconds, print, 2, files)
    found = []
    for wait in waits:
        patch.setattr(watching, "time", SimpleNamespace(time=lambda wait=wait: before + wait))
        diagnosis = watchdog._look()
        found.append(None if diagnosis is None else diagnosis.culprits)
    return found


@pytest.mark.parametrize(
    ("peers", "seconds", "waits", "looks"),
    [
        pytest.param(1, 99.0, [5.2, 5.4, 5.6, 5.8], 4, id="the third look after the first confirms it"),
        pytest.param(1, 99.0, [0.1, 0.6, 0.9, 1.5, 2.0, 2.5], 6, id="within a second nothing is suspicious"),
        pytest.param(1, 99.0, [3.0, 3.2, 3.4, 0.5, 3.6, 3.8, 4.0], 7, id="a clock that is set back begins anew"),
        pytest.param(64, 99.0, [3.2, 9.2, 9.4, 9.6], 4, id="64 files are read at each look"),
        pytest.param(65, 99.0, [3.2, 9.4, 9.8, 10.1, 10.4, 10.8], 6, id="65 are read every tenth second"),
        pytest.param(
            65, 99.0, [3.2, 10.1, 10.6, 15.1, 20.1], 5, id="what 65 have shown counts when they are read again"
        ),
        pytest.param(65, 6.0, [3.2, 5.9, 6.1], 3, id="after the whole time they are read at once"),
    ],
)
def test_a_peer_that_has_ended_is_told_once_it_is_sure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, peers: int, seconds: float, waits: list[float], looks: int
) -> None:
    found = tells(monkeypatch, tmp_path, peers, seconds, waits)
    assert found == [None] * (looks - 1) + [(1,)]


def test_a_call_that_was_started_long_ago_is_no_hang_where_the_rank_has_only_begun_to_wait_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waiting, before = FlightRecorder(None, 0, 2), time.time()
    FlightRecorder(paths(tmp_path)[1], 1, 2).change_state(layout.RUNNING)
    group = waiting.group([0, 1])
    started = waiting.enter(group, waiting.text("all_reduce"), 0, 0)
    waiting.pause()
    other = waiting.enter(group, waiting.text("barrier"), 0, 0)
    watchdog = Watchdog(waiting, 6.0, print, 2, {1: paths(tmp_path)[1]})
    assert watchdog._look() is None
    waiting.leave(other)
    waiting.wait(started)
    monkeypatch.setattr(watching, "time", SimpleNamespace(time=lambda: before + 99))
    assert watchdog._look() is None
    diagnosis = watchdog._look()
    assert diagnosis is not None
    assert "waits in all_reduce" in diagnosis.sentence


def test_a_watchdog_that_is_stopped_while_it_looks_leaves_no_stacks_later(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    faults = SimpleNamespace(
        dump_traceback_later=lambda *_, **__: asked.append("later"),
        cancel_dump_traceback_later=lambda: asked.append("never"),
    )
    watchdog = Watchdog(FlightRecorder(None, 0, 1), 6.0, print, 2)
    monkeypatch.setattr(watching, "faulthandler", faults)
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(watching, "place_of_main_thread", lambda: watchdog.stop() or "")
    watchdog.start()
    watchdog._thread.join(PATIENCE)
    assert asked == ["never", "later", "never"]


@pytest.mark.parametrize("words", ["soon", "-1", "nan", "inf"])
def test_a_time_that_is_none_is_refused(words: str) -> None:
    with pytest.raises(ConfigurationError, match="MPIPARALLEL_WATCHDOG"):
        watchdog_seconds({"MPIPARALLEL_WATCHDOG": words})


@pytest.mark.parametrize(
    ("words", "seconds"),
    [("", 600.0), ("off", None), ("OFF", None), ("0", None), ("0.5", 0.5), ("1e3", 1000.0), ("600", 600.0)],
)
def test_a_time_is_taken_in_seconds_and_off_is_for_ever(words: str, seconds: float | None) -> None:
    assert watchdog_seconds({"MPIPARALLEL_WATCHDOG": words}) == seconds


def test_a_wrong_time_is_told_as_it_was_given() -> None:
    with pytest.raises(ConfigurationError) as caught:
        watchdog_seconds({"MPIPARALLEL_WATCHDOG": "0.0"})
    assert str(caught.value) == "MPIPARALLEL_WATCHDOG='0.0' is not a time; give seconds above 0, or off"
