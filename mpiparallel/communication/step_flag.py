"""A number that ranks pass on with what they compare at the beginning of each step, so that it costs nothing."""

from __future__ import annotations


class StepFlag:
    """What this rank has to say to all, ``own``, and the largest that any rank has said, ``heard``.

    Both are numbers from 0. All ranks that have begun the same step have heard the same.

    >>> from mpiparallel.communication.threads import alone
    >>> world = alone()
    >>> world.step_flag.own = 1
    >>> world.start_step_check("a step")()
    >>> world.step_flag.heard
    1
    """

    def __init__(self) -> None:
        self.own = 0
        self.heard = 0
