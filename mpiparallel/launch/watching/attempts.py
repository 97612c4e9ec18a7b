"""What follows a failure: nothing, or the job again, or ranks that go on without the dead."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable

from mpiparallel.cluster.exit_codes import REQUEUE
from mpiparallel.cluster.preemption_signal import PreemptionHandler, signal_that_came
from mpiparallel.launch.watching.job_outcome import JobOutcome

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_NAP_SECONDS = 0.05


class Attempts:
    """Starts a job again and again, until it ends well, may not go on, or ``restarts`` are used up.

    ``say`` tells the user why. After one of the signals ``preemption`` no other attempt is made.
    """

    def __init__(self, restarts: int, say: Callable[[str], None], preemption: Iterable[signal.Signals] = ()) -> None:
        self._restarts = restarts
        self._say = say
        self._preemption = tuple(preemption)
        self._used = 0
        self._retried_start = False
        self._last_cause = ""

    def run(self, start: Callable[[int], JobOutcome]) -> JobOutcome:
        """Return how the last attempt ended; ``start`` makes the one that it is given the number of."""
        handlers = tuple(PreemptionHandler(number, None) for number in self._preemption)
        former = {handler.number: signal.signal(handler.number, handler) for handler in handlers}
        try:
            return self._run(start, handlers)
        finally:
            for number, previous in former.items():
                signal.signal(number, previous)

    def _run(self, start: Callable[[int], JobOutcome], handlers: tuple[PreemptionHandler, ...]) -> JobOutcome:
        attempt = 0
        outcome = start(attempt)
        while (reason := self._reason(outcome)) is not None:
            pause = min(_FIRST_PAUSE_SECONDS * 2 ** max(0, self._used - 1), _LONGEST_PAUSE_SECONDS)
            self._say(f"error: {outcome.message}")
            if not signal_that_came(handlers):
                self._say(f"{reason} in {pause:g} s; the logs of this attempt get .attempt{attempt} after their names")
                _wait(pause, handlers)
            if signal_that_came(handlers):
                return JobOutcome(REQUEUE, "preempted between two attempts: start again with the same command")
            attempt += 1
            outcome = start(attempt)
        return outcome

    def _reason(self, outcome: JobOutcome) -> str | None:
        """Return in words why the job is started again, or None if it is not."""
        if not outcome.may_go_on:
            return None
        if not outcome.has_begun and not self._retried_start:
            self._retried_start = True
            return "mpirun did not start the ranks: tried once more"
        if outcome.cause and outcome.cause == self._last_cause:
            if self._used < self._restarts:
                self._say("the same error twice: another restart would not mend it")
            return None
        self._last_cause = outcome.cause
        if self._used >= self._restarts:
            return None
        self._used += 1
        return f"restart {self._used} of {self._restarts}"


def _wait(seconds: float, handlers: tuple[PreemptionHandler, ...]) -> None:
    """Wait so long, or until a signal has come; one that comes just before a wait begins would not end that wait."""
    deadline = time.monotonic() + seconds
    while not signal_that_came(handlers) and (left := deadline - time.monotonic()) > 0.0:
        time.sleep(min(left, _NAP_SECONDS))
