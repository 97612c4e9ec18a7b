"""The collectives of a communicator: written down, and held against those of the other members."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Sequence
from hashlib import blake2b
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.cluster.flight.call_sites import place_of
from mpiparallel.cluster.flight.format import NO_STAGE
from mpiparallel.cluster.flight.recorder import FlightRecorder, spans
from mpiparallel.communication.fault_injection.fault_schedule import FaultSchedule
from mpiparallel.communication.mpi.library import MPI, reporting
from mpiparallel.communication.mpi.mpi_world import MpiWorld
from mpiparallel.communication.protocol import Communicator, Completion
from mpiparallel.errors import MISMATCH, CommunicationError, name_origins
from mpiparallel.pipeline.action import Action

VARIABLE = "MPIPARALLEL_FINGERPRINTS"
"""``on``, the default, lets every call be held against those of the other ranks; ``off`` does not.

``strict`` also compares the lines that make the calls, which may differ in programs that are right.
"""
_LEVELS = ("off", "on", "strict")
_SHOWN_BYTES = 256
_DIGEST_BYTES = 7
_MOST_CODES = 4096


def fingerprints() -> str:
    """Return how much the environment lets calls be compared; raise CommunicationError for an unknown word."""
    asked = os.environ.get(VARIABLE, "on").lower()
    if asked not in _LEVELS:
        raise CommunicationError(f"{VARIABLE}={asked!r} in the environment is none of {', '.join(_LEVELS)}")
    return asked


class CollectiveCall:
    """One call, written down when it is entered and when it is left."""

    __slots__ = ("_faults", "_recorder", "number", "outer")

    def __init__(self, recorder: FlightRecorder, number: int, outer: int, faults: FaultSchedule | None = None) -> None:
        self._recorder = recorder
        self._faults = faults
        self.number = number
        self.outer = outer

    def __enter__(self) -> CollectiveCall:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._recorder.leave(self.number, self.outer)
        if self._faults is not None:
            self._faults.left(self.number)

    def going_on(self) -> None:
        """Write down that the process goes on while the call does too."""
        self._recorder.pause(self.outer)

    def resumed(self) -> CollectiveCall:
        """Write down that the process now waits for a call that was started."""
        self.outer = self._recorder.inside
        self._recorder.wait(self.number)
        return self

    def ended_by(self, end: Completion) -> Completion:
        """Return what waits for a call that was started, and writes that down."""
        self.going_on()

        def wait() -> None:
            with self.resumed():
                end()

        return wait


class CollectiveMonitor:
    """The calls of one communicator, whose members are ``numbers`` by the numbers of the job.

    ``run`` carries out a collective of ``comm``, by its name in MPI. With fingerprints "on", an Allreduce of 24 bytes
    compares a call with those of all members before it touches data. If they are "strict", the line that makes the call
    is compared too.
    """

    def __init__(
        self,
        communicator: Communicator,
        comm: MPI.Intracomm,
        run: Callable[..., None],
        numbers: Sequence[int],
        world: MpiWorld,
    ) -> None:
        self._communicator = communicator
        self._comm = comm
        self._run = run
        self._numbers = numbers
        self._recorder = world.recorder
        self._step_check = world.step_check
        self._wait = world.wait
        self._faults = world.faults
        self._compares = world.fingerprints != "off" and len(numbers) > 1
        self._is_strict = world.fingerprints == "strict"
        self._label_text = 0
        self._group = self._recorder.group(numbers)
        self._codes: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._words = np.zeros(3, np.int64)
        self._step_words = np.zeros(5, np.int64)

    def labelled(self, label: str) -> CollectiveMonitor:
        """Return the monitor of the same communicator for calls that need not be compared, under a label."""
        same = copy.copy(self)
        same._compares = False
        same._label_text = self._recorder.text(label)
        return same

    def beginning(self, stage: int, action: Action | None) -> Completion:
        """Return what writes down that this rank begins an action of a stage, or ends a step with None."""
        recorder, faults = self._recorder, self._faults
        words = NO_STAGE, 0, 0
        if action is not None:
            words = stage, recorder.text(action.pattern), action.micro_batch
        mark = "" if action is None else str(action)

        def begin() -> None:
            recorder.begin_action(*words)
            if faults is not None:
                faults.begin(mark)

        return begin

    def entered(self, operation: str, *details: Any, count: int = 0) -> CollectiveCall:
        """Write a collective down that is not compared."""
        self._step_check.end()
        _, text = self._code((operation, count, *details))
        recorder = self._recorder
        if self._faults is not None:
            # Before it is written down: who is stopped here is not in the call.
            self._faults.inject(recorder.number + 1, operation, self._communicator)
        outer = recorder.inside
        number = recorder.enter(self._group, text, self._label_text, count)
        return CollectiveCall(recorder, number, outer, self._faults)

    def compared(self, operation: str, *details: Any, count: int = 0) -> CollectiveCall:
        """Write a collective down, and hold it against those of the other members where this monitor compares.

        Raises CommunicationError on all of them if they differ.
        """
        call = self.entered(operation, *details, count=count)
        if self._compares:
            try:
                site = (place_of(sys._getframe(1)),) if self._is_strict else ()
                self._compare((operation, count, *details, *site), 0)
            except BaseException:
                self._recorder.leave(call.number, call.outer)
                raise
        return call

    def message(self, operation: str, peer: int, count: int) -> CollectiveCall:
        """Write a message to or from member ``peer`` down."""
        self._step_check.end()
        recorder = self._recorder
        outer, text = recorder.inside, recorder.text(operation)
        number = recorder.enter_message(self._group, text, self._label_text, count, self._numbers[peer])
        return CollectiveCall(recorder, number, outer)

    def any_true(self, flag: bool) -> bool:
        """Tell every member whether ``flag`` is true on any of them; compared at no cost."""
        if len(self._numbers) == 1:
            return bool(flag)
        with self.entered("any_true"):
            return bool(self._compare(("any_true",), int(flag)))

    def start_step_check(self, fingerprint: str) -> Completion:
        """Begin to compare a text and to pass the flag on; it ends before the next call in this world.

        So it costs no waiting for ranks that come a little later.
        """
        step_flag = self._step_check.step_flag
        if len(self._numbers) == 1:
            step_flag.heard = max(step_flag.heard, step_flag.own)
            return self._step_check.end
        call = self.entered("begin_step")
        words = ("begin_step", fingerprint)
        sent = self._step_words
        sent[:] = *self._comparison(words, step_flag.own), step_flag.batch, -step_flag.batch
        request = self._comm.Iallreduce(MPI.IN_PLACE, sent, MPI.MAX)
        call.going_on()

        def end() -> None:
            with call.resumed():
                self._wait(request)
                step_flag.heard = max(step_flag.heard, self._agreed(words, sent))
                step_flag.batches_differ = bool(sent[3] != -sent[4])

        self._step_check.pending = reporting(end)
        return self._step_check.end

    def _code(self, words: tuple[Any, ...]) -> tuple[int, int]:
        """Return the number that stands for a call, and the index of its text."""
        known = self._codes.get(words)
        if known is None:
            if len(self._codes) >= _MOST_CODES:
                self._codes.clear()
            digest = blake2b(repr(words).encode(), digest_size=_DIGEST_BYTES).digest()
            operation, _, *details = words if len(words) > 1 else (*words, 0)
            text = " ".join(map(str, (operation, *details)))
            known = self._codes[words] = int.from_bytes(digest, "little"), self._recorder.text(text)
        return known

    def _compare(self, words: tuple[Any, ...], flag: int) -> int:
        """Return the largest flag; raise CommunicationError if any member compares other words."""
        sent = self._comparison(words, flag)
        self._run("Allreduce", MPI.IN_PLACE, sent, MPI.MAX)
        return self._agreed(words, sent)

    def _comparison(self, words: tuple[Any, ...], flag: int) -> NDArray[np.int64]:
        code, _ = self._code(words)
        self._words[:] = code, -code, flag
        return self._words

    def _agreed(self, words: tuple[Any, ...], sent: NDArray[np.int64]) -> int:
        code, _ = self._code(words)
        if sent[0] != code or sent[1] != -code:
            raise self._disagreement(words)
        return int(sent[2])

    def _disagreement(self, words: tuple[Any, ...]) -> CommunicationError:
        """Return the error that all members raise; its origins are those that call what most do not."""
        operation, *details = words
        call = f"{operation}({', '.join(map(str, details))}) at {place_of(sys._getframe(2))}"
        own = np.zeros(_SHOWN_BYTES, np.uint8)
        text = call.encode(errors="replace")[:_SHOWN_BYTES]
        own[: len(text)] = np.frombuffer(text, np.uint8)
        gathered = np.zeros((len(self._numbers), _SHOWN_BYTES), np.uint8)
        self._run("Allgather", own, gathered)
        told: dict[str, list[int]] = {}
        for number, row in zip(self._numbers, gathered, strict=True):
            told.setdefault(row.tobytes().rstrip(b"\0").decode(errors="replace"), []).append(number)
        # The first ranks may well be the odd ones out: those that agree most come first.
        parts = sorted(told.items(), key=lambda one: (-len(one[1]), one[1]))
        who = "; ".join(f"rank{'' if len(ranks) == 1 else 's'} {spans(ranks)}: {what}" for what, ranks in parts)
        error = CommunicationError(f"{MISMATCH} where all must make the same, so nothing was done: {who}")
        is_most = 2 * len(parts[0][1]) > len(self._numbers)
        return name_origins(error, [number for _, ranks in parts[1:] for number in ranks] if is_most else [])
