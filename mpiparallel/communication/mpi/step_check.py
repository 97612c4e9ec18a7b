"""The comparison with which all ranks of a world begin a step, and which may still be going on."""

from __future__ import annotations

from mpiparallel.communication.protocol import Completion, StepFlag


class StepCheck:
    """What has been started and must be ended before anything else is communicated, and the flag that it passes on.

    All communicators of a world share it.
    """

    def __init__(self) -> None:
        self.step_flag = StepFlag()
        self.pending: Completion | None = None

    def end(self) -> None:
        """Wait for the comparison, if one is going on; raises CommunicationError where ranks differ."""
        pending = self.pending
        if pending is not None:
            self.pending = None
            pending()
