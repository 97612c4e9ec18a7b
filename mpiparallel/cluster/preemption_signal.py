"""The signal by which a cluster says that it wants its machines back, heeded from the start of a rank on.

A handler runs between two instructions of the interpreter; it only remembers, and a training looks at the end of each
step. What it remembers is kept in the process's table of handlers, so there is one for all that ask.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Final

from mpiparallel.errors import ConfigurationError

VARIABLE: Final = "MPIPARALLEL_PREEMPTION_SIGNAL"
USUAL: Final = "USR1"
"""The one that both Open MPI and MPICH hand on to all ranks, and that ends neither launcher."""
OFF: Final = "off"
_FIT: Final = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "XCPU")
FIT_SIGNALS: Final = frozenset(signal.Signals[f"SIG{name}"] for name in _FIT)
"""All that a cluster may send for it."""


class PreemptionHandler:
    """Remembers that its signal, ``number``, has come, and calls what handled it before."""

    def __init__(self, number: int, previous: Callable[[int, FrameType | None], Any] | int | None) -> None:
        self.number = number
        self.has_come = False
        # Python's own handler of SIGINT would raise KeyboardInterrupt.
        self._previous = None if previous is signal.default_int_handler else previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        if callable(self._previous):
            self._previous(number, frame)


def preemption_signals(variables: Mapping[str, str] | None = None) -> tuple[signal.Signals, ...]:
    """Return the signals that ``MPIPARALLEL_PREEMPTION_SIGNAL`` names, with commas between; SIGUSR1 where it is unset.

    Raises ConfigurationError for what is no signal that a cluster sends.

    >>> [each.name for each in preemption_signals({"MPIPARALLEL_PREEMPTION_SIGNAL": "USR2,sigterm"})]
    ['SIGUSR2', 'SIGTERM']
    >>> preemption_signals({"MPIPARALLEL_PREEMPTION_SIGNAL": "off"})
    ()
    >>> preemption_signals({"MPIPARALLEL_PREEMPTION_SIGNAL": "KILL"})
    Traceback (most recent call last):
    ...
    mpiparallel.errors.ConfigurationError: MPIPARALLEL_PREEMPTION_SIGNAL: 'KILL' is not one of HUP, INT, QUIT, TERM, \
USR1, USR2, XCPU or "off"; give those that the cluster sends, with commas between
    """
    named = (os.environ if variables is None else variables).get(VARIABLE) or USUAL
    if named.strip().lower() == OFF:
        return ()
    found: dict[signal.Signals, None] = {}
    for word in named.split(","):
        name = word.strip().upper().removeprefix("SIG")
        if name not in _FIT:
            raise ConfigurationError(
                f'{VARIABLE}: {word.strip()!r} is not one of {", ".join(_FIT)} or "{OFF}"; give those that the cluster '
                "sends, with commas between"
            )
        found[signal.Signals[f"SIG{name}"]] = None
    return tuple(found)


def heed_preemption() -> None:
    """Remember the signals of preemption from now on, in place of what they do to a process; again, it does nothing.

    A handler of the program's own is called too. Outside the main thread nothing can be set. While the interpreter ends
    the signals are ignored: what was to be saved is.
    """
    signals = preemption_signals()
    if threading.current_thread() is not threading.main_thread():
        return
    for number in signals:
        previous = signal.getsignal(number)
        if not isinstance(previous, PreemptionHandler):
            signal.signal(number, PreemptionHandler(number, previous))
            atexit.register(signal.signal, number, signal.SIG_IGN)


def preemption_handlers() -> tuple[PreemptionHandler, ...]:
    """Return those that remember, in this process, the signals of preemption; none where none are heeded."""
    found = map(signal.getsignal, preemption_signals())
    return tuple(handler for handler in found if isinstance(handler, PreemptionHandler))


def signal_that_came(handlers: tuple[PreemptionHandler, ...] | None = None) -> int:
    """Return the number of the signal of preemption that this process was sent; 0 where there was none."""
    for handler in preemption_handlers() if handlers is None else handlers:
        if handler.has_come:
            return handler.number
    return 0
