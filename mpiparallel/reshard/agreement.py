"""What all ranks must agree on before bytes move; a refusal by one rank is raised on every rank, so none waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.plan import LayoutPair, plan_digest

_MESSAGE_BYTES = 1024
_DTYPE_NAME_BYTES = 24


def raise_together(problem: str | None, communicator: Communicator) -> None:
    """Raise the ``problem`` of the lowest rank that has one as ReshardError on every rank; return if none has.

    >>> from mpiparallel.communication.threads import alone
    >>> raise_together(None, alone())
    >>> raise_together("w on rank 0: no array was given", alone())
    Traceback (most recent call last):
        ...
    mpiparallel.errors.ReshardError: w on rank 0: no array was given
    """
    first = np.array([communicator.size if problem is None else communicator.rank])
    communicator.all_reduce(first, "min")
    if first[0] == communicator.size:
        return
    text = np.zeros(_MESSAGE_BYTES, np.uint8)
    encoded = np.frombuffer((problem or "").encode()[:_MESSAGE_BYTES], np.uint8)
    text[: encoded.size] = encoded
    communicator.broadcast(text, root=int(first[0]))
    raise ReshardError(text.tobytes().rstrip(b"\0").decode(errors="replace"))


@contextmanager
def failing_together(communicator: Communicator) -> Iterator[None]:
    """Let ranks work alone in a ``with`` block; if one lacks the memory, ReshardError is raised on every rank."""
    problem = None
    try:
        yield
    except MemoryError as error:
        rank = communicator.ranks[communicator.rank]
        problem = f"rank {rank} has not enough memory; nothing was moved: {error}"
    raise_together(problem, communicator)


def agree_on_layouts(layouts: Mapping[str, LayoutPair], communicator: Communicator) -> None:
    """Raise ReshardError on every rank unless all ranks were given equal layouts."""
    digest = np.frombuffer(plan_digest(layouts), np.uint64)
    _, equal = _compare(digest, communicator)
    if equal.all():
        return
    digests = np.empty((communicator.size, digest.size), np.uint64)
    communicator.all_gather(digest, digests)
    unlike = [communicator.ranks[member] for member in np.flatnonzero((digests != digests[0]).any(axis=1))]
    raise ReshardError(
        f"ranks {unlike} were given other layouts than rank {communicator.ranks[0]}; nothing was moved: "
        "give every rank the same tensors, source layouts and target layouts"
    )


def agree_on_dtypes(
    arrays: Mapping[str, NDArray[Any]], tensors: Sequence[str], communicator: Communicator
) -> dict[str, np.dtype[Any]]:
    """Return the dtype of each of ``tensors``, also on ranks that have no array of it; some rank has.

    Raises ReshardError on every rank when two ranks have arrays of unlike dtypes.
    """
    names = [arrays[tensor].dtype.str.encode() if tensor in arrays else b"" for tensor in tensors]
    codes = np.array(names, f"S{_DTYPE_NAME_BYTES}").view(np.uint64).reshape(len(tensors), _DTYPE_NAME_BYTES // 8)
    held = np.array([[tensor in arrays] for tensor in tensors], bool).reshape(len(tensors), 1)
    agreed, equal = _compare(codes, communicator, held)
    for row in np.flatnonzero(~equal.all(axis=1))[:1]:
        raise ReshardError(_unlike_dtypes(tensors[row], codes[row], communicator))
    return {tensor: np.dtype(_name(code)) for tensor, code in zip(tensors, agreed, strict=True)}


def _compare(
    codes: NDArray[np.uint64], communicator: Communicator, held: NDArray[np.bool_] | bool = True
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the ``codes`` of the ranks that hold them, and which of them are equal on all these."""
    # The largest complement is that of the smallest code, so one reduction finds both ends.
    ends = np.where(held, np.stack([codes, ~codes]), np.uint64(0))
    communicator.all_reduce(ends, "max")
    return ends[0], ends[0] == ~ends[1]


def _unlike_dtypes(tensor: str, code: NDArray[np.uint64], communicator: Communicator) -> str:
    everywhere = np.empty((communicator.size, code.size), np.uint64)
    communicator.all_gather(code, everywhere)
    holders: dict[str, list[int]] = {}
    for rank, given in zip(communicator.ranks, everywhere, strict=True):
        if given.any():
            holders.setdefault(_name(given), []).append(rank)
    found = ", ".join(f"{np.dtype(name)} on ranks {ranks}" for name, ranks in holders.items())
    return f"{tensor}: arrays are {found}; nothing was moved: give every rank the same dtype"


def _name(code: NDArray[np.uint64]) -> str:
    return code.tobytes().rstrip(b"\0").decode()
