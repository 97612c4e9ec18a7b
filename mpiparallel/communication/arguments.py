"""What callers may pass to a communicator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.errors import CommunicationError

# MPI promises tags up to 32767; the highest one carries all_to_all_v.
LARGEST_TAG = 32766


def refuse(problem: str | None) -> None:
    """Raise ``CommunicationError`` if there is a problem."""
    if problem is not None:
        raise CommunicationError(problem)


def flat(call: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return the one-dimensional view of an array that can be sent."""
    if not isinstance(array, np.ndarray):
        raise CommunicationError(f"{call}: got {type(array).__name__}, not a NumPy array; use numpy.array(...)")
    if array.dtype.hasobject:
        raise CommunicationError(f"{call}: an array of dtype {array.dtype} holds Python objects, which cannot be sent")
    if not array.flags.c_contiguous:
        raise CommunicationError(
            f"{call}: an array of shape {array.shape} is not C-contiguous; pass numpy.ascontiguousarray(...)"
        )
    return array.reshape(-1)


def writable(call: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return the one-dimensional view of an array that can be received into."""
    view = flat(call, array)
    if not view.flags.writeable:
        raise CommunicationError(f"{call}: an array of shape {array.shape} is read-only; pass a copy of it")
    return view


def as_bytes(view: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of a one-dimensional contiguous array, without a copy."""
    return view.view(np.uint8)


def blocks_problem(call: str, whole: NDArray[Any], block: NDArray[Any], size: int) -> str | None:
    """Say what is wrong if ``whole`` is not ``size`` blocks like ``block``."""
    if whole.dtype != block.dtype:
        return f"{call}: source and target must have one dtype, got {whole.dtype} and {block.dtype}"
    if whole.size != size * block.size:
        return f"{call}: {size} members with blocks of {block.size} elements need {size * block.size}, got {whole.size}"
    return None


def pair_problem(call: str, source: NDArray[Any], target: NDArray[Any], size: int) -> str | None:
    """Say what is wrong if two arrays are not alike and made of ``size`` equal blocks."""
    if source.dtype != target.dtype or source.size != target.size:
        return (
            f"{call}: source and target must be alike, got {source.size} elements of {source.dtype} "
            f"and {target.size} of {target.dtype}"
        )
    if source.size % size:
        return f"{call}: {source.size} elements cannot be cut into {size} equal blocks; use all_to_all_v"
    return None


def counts_problem(call: str, name: str, view: NDArray[Any], counts: Sequence[int], size: int) -> str | None:
    """Say what is wrong if ``counts`` does not cut the bytes of ``view`` into one block a member."""
    if view.dtype != np.uint8:
        return f"{call}: {name} has dtype {view.dtype}; pass bytes, a view as numpy.uint8"
    if len(counts) != size:
        return f"{call}: {name}_counts has {len(counts)} entries for {size} members"
    if min(counts, default=0) < 0 or sum(counts) != view.size:
        return f"{call}: {name}_counts {list(counts)} do not sum to the {view.size} bytes of {name}"
    return None


def member_problem(call: str, member: int, size: int) -> str | None:
    """Say what is wrong if a communicator of ``size`` members has no such member."""
    if 0 <= member < size:
        return None
    return f"{call}: there is no member {member}; members are counted 0 to {size - 1}"


def peer_problem(call: str, peer: int, rank: int, size: int, tag: int) -> str | None:
    """Say what is wrong with the other end of a message."""
    if peer == rank:
        return f"{call}: member {rank} names itself; a message to oneself may block for ever"
    if not 0 <= tag <= LARGEST_TAG:
        return f"{call}: tag {tag} is not in 0 to {LARGEST_TAG}"
    return member_problem(call, peer, size)


def exchange_problem(sends: Mapping[int, NDArray[Any]], receives: Mapping[int, NDArray[Any]], size: int) -> str | None:
    """Say what is wrong if these are not rows of bytes for members and from members."""
    for member in (*sends, *receives):
        if problem := member_problem("exchange", member, size):
            return problem
    for view in (*sends.values(), *receives.values()):
        if not isinstance(view, np.ndarray) or view.dtype != np.uint8 or view.ndim != 1 or not view.flags.c_contiguous:
            return f"exchange: got {_described(view)}; pass bytes, array.reshape(-1).view(numpy.uint8)"
    for view in receives.values():
        if not view.flags.writeable:
            return f"exchange: an array of {view.size} bytes is read-only; receive into a copy of it"
    return None


def views_problem(
    sends: Mapping[int, Sequence[NDArray[Any]]], receives: Mapping[int, Sequence[NDArray[Any]]], size: int
) -> str | None:
    """Say what is wrong if these are not views of arrays for members and from members."""
    call = "strided_exchange"
    for member in (*sends, *receives):
        if problem := member_problem(call, member, size):
            return problem
    for view in (view for views in (*sends.values(), *receives.values()) for view in views):
        if not isinstance(view, np.ndarray):
            return f"{call}: got {_described(view)}, not a NumPy array; use numpy.array(...)"
        if view.dtype.hasobject:
            return f"{call}: an array of dtype {view.dtype} holds Python objects, which cannot be sent"
    for view in (view for views in receives.values() for view in views):
        if not view.flags.writeable:
            return f"{call}: an array of shape {view.shape} is read-only; receive into a copy of it"
    return None


def forms(views: Sequence[NDArray[Any]]) -> list[tuple[tuple[int, ...], str]]:
    """Return what both ends of a strided exchange must agree on: the shape and dtype of each view, in their order."""
    return [(view.shape, view.dtype.str) for view in views]


def unlike_views(source: int, target: int) -> str:
    """Say that two members name views of unlike shapes, dtypes or number."""
    return (
        f"strided_exchange: the views that member {source} sends to member {target} are not like those that member "
        f"{target} receives; both must list equal shapes and dtypes in one order"
    )


def freed_problem(call: str, is_freed: bool) -> str | None:
    """Say what is wrong if something was freed before it is used."""
    return f"{call}: it was freed; make a new one" if is_freed else None


def length_problem(call: str, nbytes: int) -> str | None:
    """Say what is wrong if a block of memory cannot have this length."""
    return None if nbytes >= 0 else f"{call}: a block cannot have {nbytes} bytes; pass 0 or more"


def shared_problem(member: int, known: Collection[int]) -> str | None:
    """Say what is wrong if the memory of ``member`` cannot be seen here."""
    if member in known:
        return None
    return f"share: the memory of member {member} is not seen here; seen are members {sorted(known)} of this host"


def _described(thing: object) -> str:
    if isinstance(thing, np.ndarray):
        return f"an array of {thing.ndim} dims, dtype {thing.dtype} and strides {thing.strides}"
    return type(thing).__name__


def group_members(ranks: Sequence[int], available: tuple[int, ...], own: int, call: str = "group") -> tuple[int, ...]:
    """Return the members of a new group, ascending, from the world ranks that a caller gave."""
    members = tuple(sorted(int(rank) for rank in ranks))
    if len(set(members)) != len(members):
        raise CommunicationError(f"{call}: ranks {list(members)} name a rank twice")
    missing = sorted(set(members) - set(available))
    if missing:
        raise CommunicationError(f"{call}: ranks {missing} are not among this communicator's ranks {list(available)}")
    if own not in members:
        raise CommunicationError(f"{call}: rank {own} is not one of {list(members)}; only members may ask for it")
    return members


def world_members(ranks: Sequence[int], available: tuple[int, ...], own: int) -> tuple[int, ...]:
    """Return the members of a new world, in the order that a caller gave."""
    members = tuple(int(rank) for rank in ranks)
    group_members(members, available, own, "world_of")
    return members
