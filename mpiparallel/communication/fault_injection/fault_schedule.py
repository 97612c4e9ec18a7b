"""When a fault strikes: the collectives of a rank are the clock, and the actions of its stage of a pipeline."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mpiparallel.cluster.fault_plan import FaultPlan, PlannedFault
from mpiparallel.cluster.job_start import ATTEMPT_VARIABLE
from mpiparallel.communication.fault_injection.actions import inject_fault
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ConfigurationError

CHAOS_VARIABLE: Final = "MPIPARALLEL_CHAOS"
_SECONDS_INTO = 1e-3


class FaultSchedule:
    """The faults of one rank, each of which strikes once; ``folder`` is where its checkpoints are.

    ``inject`` is called right before each collective, ``left`` right after it, ``begin`` where the rank begins an
    action of a pipeline's stage. A fault *in* one of these strikes from a thread, a millisecond after that has begun;
    what is shorter is over by then.

    Parameters
    ----------
    faults : sequence of PlannedFault
        Of all ranks.
    rank : int
        Whose faults strike.
    folder : Path
        Where its checkpoints are.

    Examples
    --------
    >>> FaultSchedule([], rank=0).left(1)
    """

    def __init__(self, faults: Sequence[PlannedFault], rank: int, folder: Path = Path()) -> None:
        own = sorted((fault for fault in faults if fault.rank == rank), key=lambda fault: fault.count)
        self._due = [fault for fault in own if not fault.action]
        self._of_actions = [fault for fault in own if fault.action]
        self._steps_with: Counter[str] = Counter()
        self._begun: set[str] = set()
        self._folder = folder
        self._last: Communicator | None = None

    @classmethod
    def of_environment(cls, rank: int, size: int, variables: Mapping[str, str] | None = None) -> FaultSchedule:
        """Return what ``MPIPARALLEL_CHAOS`` plans for world rank ``rank`` of ``size``; nothing where it is not set.

        A job that was restarted is left alone, unless the plan names that attempt. Rank 0 prints what will happen.
        Raises ConfigurationError for a plan that cannot be, on every rank alike.
        """
        known = os.environ if variables is None else variables
        if not known.get(CHAOS_VARIABLE):
            return cls((), rank)
        plan = FaultPlan.parse(known[CHAOS_VARIABLE])
        faults = plan.faults(size)
        if _attempt(known) not in plan.attempts:
            return cls((), rank)
        if rank == 0:
            _say(plan.words(size))
        return cls(faults, rank, Path(plan.folder))

    def __bool__(self) -> bool:
        return bool(self._due or self._of_actions)

    def inject(self, number: int, operation: str, communicator: Communicator) -> None:
        """Let what is due strike, as collective ``number`` of this rank, which is to be ``operation``, begins.

        What is planned for a number that was no collective strikes at the next one.
        """
        self.left(number - 1)
        self._last = communicator
        for fault in self._taken(number, ("at", "in")):
            self._at_or_in(fault, operation)

    def left(self, number: int) -> None:
        """Let what is due strike once collective ``number`` of this rank has ended."""
        for fault in self._taken(number, ("after",)):
            self._do(fault, "")

    def begin(self, action: str) -> None:
        """Let what is due strike as this rank begins an action of its stage, or comes to the end of a step: ``""``.

        An action that is done in several pieces counts once a step.
        """
        ended = [fault for fault in self._of_actions if fault.moment == "after" and self._is_due(fault)]
        for fault in ended:
            self._of_actions.remove(fault)
            self._do(fault, "")
        if not action:
            self._begun.clear()
        elif action not in self._begun:
            self._begun.add(action)
            self._steps_with[action] += 1
            for fault in [one for one in self._of_actions if one.action == action and self._is_due(one)]:
                self._strike_in_action(fault)

    def _is_due(self, fault: PlannedFault) -> bool:
        return self._steps_with[fault.action] >= fault.count

    def _strike_in_action(self, fault: PlannedFault) -> None:
        if fault.moment != "after":
            self._of_actions.remove(fault)
            self._at_or_in(fault, "")

    def _taken(self, number: int, moments: tuple[str, ...]) -> list[PlannedFault]:
        # What strikes is taken away first: a fault may call collectives of its own.
        due = [fault for fault in self._due if fault.count <= number and fault.moment in moments]
        self._due = [fault for fault in self._due if fault not in due]
        return due

    def _at_or_in(self, fault: PlannedFault, operation: str) -> None:
        if fault.moment == "in":
            timer = threading.Timer(_SECONDS_INTO, self._do, (fault, operation))
            timer.daemon = True
            timer.start()
        else:
            self._do(fault, operation)

    def _do(self, fault: PlannedFault, operation: str) -> None:
        _say(f"chaos: {fault}")
        inject_fault(fault, operation, self._last, self._folder)


def _attempt(variables: Mapping[str, str]) -> int:
    text = variables.get(ATTEMPT_VARIABLE) or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ConfigurationError(f'{ATTEMPT_VARIABLE}="{text}" is no number of restarts; unset it')
    return int(text)


def _say(words: str) -> None:
    print(f"mpiparallel: {words}", file=sys.stderr, flush=True)
