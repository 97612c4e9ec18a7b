"""The watchdog of a rank: a thread that notices when its rank waits for one that will not come."""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from mpiparallel.cluster.flight.call_sites import place_of_main_thread
from mpiparallel.cluster.flight.hang_diagnosis import Diagnosis, diagnose
from mpiparallel.cluster.flight.process_state import process_state
from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.cluster.flight.recording import Recording
from mpiparallel.errors import ConfigurationError, LaunchError

SECONDS_VARIABLE = "MPIPARALLEL_WATCHDOG"
"""The environment variable that says after how many seconds in one collective a rank hangs; ``off`` for never."""
SECONDS = 600.0

_LOOK_SECONDS = 0.5
_SUSPICIOUS_SECONDS = 1.0
_CONFIRMING_LOOKS = 3
# With more ranks than this their files are read less often.
_MANY = 64
_GIL_GRACE_SECONDS = 2.0
_LONGEST_FAILING_SECONDS = 60.0


def watchdog_seconds(variables: Mapping[str, str]) -> float | None:
    """Return after how many seconds in one collective a rank hangs, None for never; ConfigurationError for nonsense.

    >>> watchdog_seconds({}), watchdog_seconds({"MPIPARALLEL_WATCHDOG": "off"})
    (600.0, None)
    """
    words = variables.get(SECONDS_VARIABLE, "")
    if not words:
        return SECONDS
    if words.lower() in ("off", "0"):
        return None
    with suppress(ValueError):
        seconds = float(words)
        if 0 < seconds < float("inf"):
            return seconds
    raise ConfigurationError(f"{SECONDS_VARIABLE}={words!r} is not a time; give seconds above 0, or off")


class Watchdog:
    """Looks at the recorder of its rank twice a second, and calls ``on_hang`` once, from its thread.

    A rank hangs when it is in one collective for longer than ``seconds``. It also hangs when a rank that it waits for
    there has ended or died. The file ``stack`` then has the stacks of all its threads. They are dumped even while the
    interpreter lets no thread run. ``peers`` are the files of the other ranks' recorders.
    """

    def __init__(
        self,
        recorder: FlightRecorder,
        seconds: float | None,
        on_hang: Callable[[Diagnosis], None],
        stack: int,
        peers: Mapping[int, Path] | None = None,
        deaths_are_survived: bool = False,
    ) -> None:
        self._recorder = recorder
        self._seconds = seconds
        self._on_hang = on_hang
        self._stack = stack
        self._peers = dict(peers or {})
        self._deaths_are_survived = deaths_are_survived
        self._suspicions = 0
        self._inside = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="mpiparallel watchdog", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        process = os.getpid()
        while not self._over.wait(_LOOK_SECONDS) and os.getpid() == process:
            self._recorder.beat(place_of_main_thread())
            if self._seconds is not None:
                faulthandler.dump_traceback_later(self._seconds + _GIL_GRACE_SECONDS, file=self._stack)
            diagnosis = self._look()
            if diagnosis is not None:
                faulthandler.dump_traceback(self._stack, all_threads=True)
                self._on_hang(diagnosis)
                return
        # Who stops it may do so just before stacks are asked for.
        faulthandler.cancel_dump_traceback_later()

    def _look(self) -> Diagnosis | None:
        """Return what holds this rank, if it is held for good; a rank that is not held costs a few microseconds."""
        inside, self._inside = self._inside, self._recorder.written_inside
        suspicions, self._suspicions = self._suspicions, 0
        if not inside or inside != self._inside:
            return None
        own = Recording.of_memory(self._recorder.memory)
        call = own.inside
        waited = 0.0 if call is None else time.time() - call.entered
        if call is None or waited < _SUSPICIOUS_SECONDS:
            return None
        hangs = self._seconds is not None and waited > self._seconds
        if not hangs and len(self._peers) > _MANY and int(waited) % 10:
            self._suspicions = suspicions
            return None
        recordings = [own, *self._recordings_of_peers(own.started)]
        if any(map(_is_failing, recordings)):
            # It ends the job in its own words, which may be slow.
            return None
        diagnosis = diagnose(recordings, process_state)
        if diagnosis is None or hangs:
            return diagnosis
        if not diagnosis.is_proven or self._deaths_are_survived:
            return None
        self._suspicions = suspicions + 1
        return diagnosis if self._suspicions >= _CONFIRMING_LOOKS else None

    def _recordings_of_peers(self, since: float) -> list[Recording]:
        """Return what peers have recorded; what was last written before ``since`` is of an earlier job."""
        found = []
        for path in self._peers.values():
            try:
                recording = Recording.load(path)
            except LaunchError:
                # Another host may not show its files; then the rank counts as one that left no recording.
                continue
            if recording.beat >= since:
                found.append(recording)
        return found


def _is_failing(recording: Recording) -> bool:
    """Return whether the rank has begun to fail, not too long ago."""
    return recording.state == "failing" and time.time() < recording.beat + _LONGEST_FAILING_SECONDS
