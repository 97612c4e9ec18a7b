"""The moments of a training."""

from __future__ import annotations

from enum import Enum


class Moment(str, Enum):
    """A moment of a training; the value is the name of the method of ``Callback`` that is called then.

    Those up to ``DONE`` are in the order in which a training comes to them after a step, or at its beginning. The
    others come from outside. No callback is told of ``DONE``: all has been told then.
    """

    BEGIN = "begin"
    EVERY_STEP = "every_step"
    STEP_END = "step_end"
    EPOCH_END = "epoch_end"
    EPOCH_BEGIN = "epoch_begin"
    STEP_BEGIN = "step_begin"
    PREEMPTED = "preempted"
    END = "end"
    DONE = "done"
    BROKEN_OFF = "broken_off"
    RESHARDING = "resharding"
    RESHARDED = "resharded"
    RANKS_LOST = "ranks_lost"
    RETIRED = "retired"

    @property
    def order(self) -> int:
        """Its place among all: of two of one step, the training comes to the lower one first."""
        return list(Moment).index(self)
