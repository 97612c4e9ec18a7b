"""What all ranks must agree on before bytes move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.dtype import dtype_text
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.bound_plan import shape_text
from mpiparallel.reshard.options import ReshardOptions
from mpiparallel.reshard.planning.plan import LayoutPair, plan_digest

_DTYPE_NAME_BYTES = 24


def agree_on_layouts(
    layouts: Mapping[str, LayoutPair],
    options: ReshardOptions,
    communicator: Communicator,
    absent: frozenset[int] = frozenset(),
) -> None:
    """Raise ReshardError on every rank unless all were given equal layouts and options, of ranks that are members.

    ``absent`` ranks of the source need not be.
    """
    given = sha256(plan_digest(layouts) + repr(options).encode()).digest()
    digest = np.frombuffer(given, np.uint64)
    _, equal = _compare(digest, communicator)
    if not equal.all():
        digests = np.empty((communicator.size, digest.size), np.uint64)
        communicator.all_gather(digest, digests)
        unlike = [communicator.ranks[member] for member in np.flatnonzero((digests != digests[0]).any(axis=1))]
        raise ReshardError(
            f"ranks {unlike} were given other layouts or options than rank {communicator.ranks[0]}; nothing was moved: "
            "give every rank the same tensors, source layouts, target layouts and options"
        )
    _check_ranks(layouts, communicator, absent)
    _check_parts(layouts)


def _check_ranks(layouts: Mapping[str, LayoutPair], communicator: Communicator, absent: frozenset[int]) -> None:
    members = set(communicator.ranks)
    named = sorted(layouts.items(), reverse=True)
    matrices = {(layout.devices, side): tensor for tensor, pair in named for side, layout in enumerate(pair)}
    for (devices, side), tensor in matrices.items():
        if not members.issuperset(devices.members if side else set(devices.members) - absent):
            raise ReshardError(
                f"{tensor}: its layout is over ranks {devices.ranks_text}, the communicator over "
                f"{list(communicator.ranks)}; call reshard on a communicator of all ranks before and after"
            )


def _check_parts(layouts: Mapping[str, LayoutPair]) -> None:
    for tensor, (_, target) in sorted(layouts.items()):
        if not target.tiles:
            raise ReshardError(
                f"{tensor}: its target layout {target} has parts that may overlap or leave elements out, from which it "
                "could not be moved on or back; give an even layout"
            )


def misfit(
    arrays: Mapping[str, NDArray[Any]],
    layouts: Mapping[str, LayoutPair],
    rank: int,
    problem: Callable[[Any], str | None],
) -> str | None:
    """Return what is wrong with the first array that does not fit its source layout, None if all do.

    ``problem`` says what is wrong with its kind.
    """
    if not isinstance(arrays, Mapping):
        return (
            f"arrays is a {type(arrays).__name__}; give a mapping of tensor names to arrays, empty where none is held"
        )
    for tensor in sorted({*arrays, *layouts}, key=str):
        array, source = arrays.get(tensor), layouts[tensor][0] if tensor in layouts else None
        expected = source.local_shape(rank) if source and rank in source.devices else None
        odd = None if array is None else problem(array)
        if odd is not None:
            return f"{tensor}: {odd}"
        found = None if array is None else array.shape
        if found != expected:
            wanted, given = shape_text(expected), shape_text(found)
            return f"{tensor}: its source layout {source} gives this rank {wanted}, got {given}"
        if array is not None and not _movable(array.dtype):
            return f"{tensor}: dtype {array.dtype} cannot be moved; use a numeric dtype of NumPy"
    return None


def _movable(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of ``dtype`` are bytes that mean the same on a rank that knows it by its code alone."""
    return dtype.itemsize > 0 and not dtype.hasobject and np.dtype(dtype_text(dtype)) == dtype


def agree_on_dtypes(
    arrays: Mapping[str, NDArray[Any]], tensors: Sequence[str], communicator: Communicator
) -> dict[str, np.dtype[Any]]:
    """Return the dtype of each of ``tensors``, also on ranks that have no array of it; some rank has.

    Raises ReshardError on every rank when two ranks have arrays of unlike dtypes.
    """
    names = [dtype_text(arrays[tensor].dtype).encode() if tensor in arrays else b"" for tensor in tensors]
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
