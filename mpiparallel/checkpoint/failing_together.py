"""One rank's failure, raised on all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CheckpointError, MpiParallelError

_REASON_BYTES = 512
_REASONS_SHOWN = 8


@contextmanager
def failing_together(communicator: Communicator) -> Iterator[None]:
    """Let every rank run the body, without collectives; raise ``CheckpointError`` on all if it fails on any.

    The error names the ranks and gives their reasons.

    >>> from mpiparallel.communication.threads import alone
    >>> with failing_together(alone()):
    ...     raise CheckpointError("rank_0/net-1_77.h5: the disk is full")
    Traceback (most recent call last):
        ...
    mpiparallel.errors.CheckpointError: rank 0: rank_0/net-1_77.h5: the disk is full
    """
    cause: Exception | None = None
    try:
        yield
    except (MpiParallelError, OSError, MemoryError) as error:
        cause = error
    if communicator.any_true(cause is not None):
        raise CheckpointError(_reasons(cause, communicator)) from cause


def _reasons(cause: Exception | None, communicator: Communicator) -> str:
    own = np.zeros(_REASON_BYTES, np.uint8)
    if cause is not None:
        text = (str(cause) or type(cause).__name__).encode(errors="replace")[:_REASON_BYTES]
        own[: len(text)] = np.frombuffer(text, np.uint8)
    gathered = np.zeros((communicator.size, _REASON_BYTES), np.uint8)
    communicator.all_gather(own, gathered)
    failed = np.flatnonzero(gathered.any(axis=1)).tolist()
    lines = [
        f"rank {communicator.ranks[member]}: {gathered[member].tobytes().rstrip(bytes(1)).decode(errors='replace')}"
        for member in failed[:_REASONS_SHOWN]
    ]
    if len(failed) > len(lines):
        lines.append(f"and {len(failed) - len(lines)} ranks more")
    return "\n".join(lines)
