"""One rank's failure is raised on all ranks, so that none waits for a rank that has left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import numpy as np

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import MpiParallelError, RankFailureError, name_origins

_REASON_BYTES = 512
_REASONS_SHOWN = 8
_RANKS_SHOWN = 8


def raise_together(problem: str | None, communicator: Communicator, kind: type[Exception]) -> None:
    """Raise ``kind`` on every member if any has a ``problem``; it names the world ranks and gives their reasons.

    A reason is cut after 512 bytes, and eight are shown, each with the ranks that have it.

    >>> from mpiparallel.communication.threads import alone
    >>> from mpiparallel.errors import ReshardError
    >>> raise_together(None, alone(), ReshardError)
    >>> raise_together("w: no array was given", alone(), ReshardError)
    Traceback (most recent call last):
        ...
    mpiparallel.errors.ReshardError: rank 0: w: no array was given
    """
    if communicator.any_true(problem is not None):
        raise _told(problem, communicator, kind)


@contextmanager
def failing_together(communicator: Communicator, kind: type[Exception]) -> Iterator[None]:
    """Let every member run the body, without collectives; raise ``kind`` on all of them if it fails on any.

    Errors of mpiparallel and of the system, and a lack of memory, are failures; others are errors of the program.

    >>> from mpiparallel.communication.threads import alone
    >>> from mpiparallel.errors import CheckpointError
    >>> with failing_together(alone(), CheckpointError):
    ...     raise OSError("rank_0/net-1_77.h5: the disk is full")
    Traceback (most recent call last):
        ...
    mpiparallel.errors.CheckpointError: rank 0: rank_0/net-1_77.h5: the disk is full
    """
    cause: Exception | None = None
    try:
        yield
    except RankFailureError:
        # There is nobody to tell it to: the members are told by their own calls.
        raise
    except (MpiParallelError, OSError, MemoryError) as error:
        cause = error
    if communicator.any_true(cause is not None):
        problem = None if cause is None else str(cause) or type(cause).__name__
        raise _told(problem, communicator, kind) from cause


def _told(problem: str | None, communicator: Communicator, kind: type[Exception]) -> Exception:
    """Return the error that all members raise: the reason of each that has a problem, and which ones these are."""
    own = np.zeros(_REASON_BYTES, np.uint8)
    text = (problem or "").encode(errors="replace")[:_REASON_BYTES]
    own[: len(text)] = np.frombuffer(text, np.uint8)
    gathered = np.zeros((communicator.size, _REASON_BYTES), np.uint8)
    communicator.all_gather(own, gathered)
    told: dict[str, list[int]] = {}
    for member in np.flatnonzero(gathered.any(axis=1)).tolist():
        reason = gathered[member].tobytes().rstrip(bytes(1)).decode(errors="replace")
        told.setdefault(reason, []).append(communicator.ranks[member])
    lines = [f"{_listed(ranks)}: {reason}" for reason, ranks in islice(told.items(), _REASONS_SHOWN)]
    if len(told) > len(lines):
        more = sum(len(ranks) for ranks in islice(told.values(), _REASONS_SHOWN, None))
        lines.append(f"and {more} ranks more")
    return name_origins(kind("\n".join(lines)), [rank for ranks in told.values() for rank in ranks])


def _listed(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:_RANKS_SHOWN])) + (", ..." if len(ranks) > _RANKS_SHOWN else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
