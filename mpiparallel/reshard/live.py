"""Resharding over the wire: pack, one all-to-all, verify, unpack."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.reshard.agreement import agree_on_dtypes, agree_on_layouts, failing_together, raise_together
from mpiparallel.reshard.plan import LayoutPair, ReshardPlan, plan_reshard

# No dtype needs more, so every piece can be viewed in its own.
_ALIGNMENT = 16


@dataclass(frozen=True)
class ReshardReport:
    """What one reshard did, the same on every rank.

    ``bytes_moved`` were sent from rank to rank and ``bytes_kept`` stayed where they were, both summed over the ranks:
    together they are all that the ranks hold after. ``messages`` counts the pairs of ranks that exchanged something,
    each way. ``seconds`` is the time of the slowest rank.
    """

    bytes_moved: int
    bytes_kept: int
    seconds: float
    messages: int


class Exchange:
    """A plan bound to arrays: made once, run many times.

    ``sources`` holds an array for each tensor of which this rank has a box before, ``targets`` for each of which it has
    one after; those that the plan keeps stay where they are and may be left out. Arrays may be strided; no target may
    share memory with a source. A tensor has one dtype, the same on all ranks. The scratch memory, about
    ``bytes_sent + bytes_received``, lives as long as the exchange. ``ranks`` are the numbers that the plan gives to the
    members, where those are not their world ranks; ``verify`` says whether checksums travel with the blocks.

    Raises ReshardError, on this rank alone, for an array that does not fit its layout and for a communicator without
    this rank or one of its peers.
    """

    def __init__(
        self,
        plan: ReshardPlan,
        layouts: Mapping[str, LayoutPair],
        sources: Mapping[str, NDArray[Any]],
        targets: Mapping[str, NDArray[Any]],
        communicator: Communicator,
        ranks: Sequence[int] | None = None,
        verify: bool = True,
    ) -> None:
        numbers = tuple(communicator.ranks if ranks is None else ranks)
        members = {rank: member for member, rank in enumerate(numbers)}
        _check_members(plan, numbers, numbers[communicator.rank])
        before, after = _Holdings(sources), _Holdings(targets)
        for tensor in {transfer.tensor for transfer in (*plan.sends, *plan.copies)}:
            before.place(tensor, layouts[tensor][0].box(plan.rank), plan.rank)
        for tensor in {transfer.tensor for transfer in (*plan.receives, *plan.copies)}:
            after.place(tensor, layouts[tensor][1].box(plan.rank), plan.rank)
            _check_dtypes(tensor, sources, targets, plan.rank)

        sends = sorted(plan.sends, key=lambda transfer: members[transfer.target])
        receives = sorted(plan.receives, key=lambda transfer: members[transfer.source])
        given = [before.part(transfer.tensor, transfer.box) for transfer in sends]
        taken = [after.part(transfer.tensor, transfer.box) for transfer in receives]
        self._communicator = communicator
        self._verify = verify
        self._outgoing = _Blocks([members[transfer.target] for transfer in sends], given, communicator.size)
        self._incoming = _Blocks([members[transfer.source] for transfer in receives], taken, communicator.size)
        self._packing = list(zip(self._outgoing.views, given, strict=True))
        self._unpacking = list(zip(taken, self._incoming.views, strict=True))
        self._unpacking += [
            (after.part(copy.tensor, copy.box), before.part(copy.tensor, copy.box)) for copy in plan.copies
        ]
        self.bytes_sent = sum(piece.nbytes for piece in given)
        self.bytes_received = sum(piece.nbytes for piece in taken)
        self.messages = sum(count > 0 for count in self._outgoing.counts)

    def run(self) -> None:
        """Fill the targets from the sources; all ranks call it together.

        With ``verify``, every block is checked by its CRC-32 before any target is written. Raises ReshardError on every
        rank when one of them received a damaged block; all targets are then as before.
        """
        for piece, source in self._packing:
            np.copyto(piece, source, casting="no")
        outgoing, incoming = self._outgoing, self._incoming
        self._communicator.all_to_all_v(outgoing.buffer, outgoing.counts, incoming.buffer, incoming.counts)
        if self._verify:
            raise_together(self._damage(), self._communicator)
        for target, piece in self._unpacking:
            np.copyto(target, piece, casting="no")

    def _damage(self) -> str | None:
        """Return what is wrong with the bytes received, by the checksums of those who sent them."""
        sent, found = self._outgoing.checksums(), self._incoming.checksums()
        expected = np.empty_like(found)
        sent_counts, expected_counts = self._outgoing.checksum_counts(), self._incoming.checksum_counts()
        self._communicator.all_to_all_v(sent.view(np.uint8), sent_counts, expected.view(np.uint8), expected_counts)
        if np.array_equal(expected, found):
            return None
        senders = [rank for rank, count in zip(self._communicator.ranks, expected_counts, strict=True) if count]
        damaged = [rank for rank, right in zip(senders, expected == found, strict=True) if not right]
        here = self._communicator.ranks[self._communicator.rank]
        return f"rank {here} received damaged bytes from ranks {damaged}; no target was changed"


def _check_members(plan: ReshardPlan, ranks: Sequence[int], here: int) -> None:
    peers = {plan.rank, *(given.target for given in plan.sends), *(taken.source for taken in plan.receives)}
    if here != plan.rank or not peers.issubset(ranks):
        raise ReshardError(
            f"the plan of rank {plan.rank} exchanges with ranks {sorted(peers)}, the communicator is that of rank "
            f"{here} in {list(ranks)}"
        )


def _check_dtypes(
    tensor: str, sources: Mapping[str, NDArray[Any]], targets: Mapping[str, NDArray[Any]], rank: int
) -> None:
    if tensor in sources and sources[tensor].dtype != targets[tensor].dtype:
        raise ReshardError(
            f"{tensor} on rank {rank}: the target is {targets[tensor].dtype}, the source {sources[tensor].dtype}; "
            "a reshard moves elements, it does not convert them"
        )


class _Holdings:
    """The arrays of one rank and the boxes that they hold."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._boxes: dict[str, Box] = {}

    def place(self, tensor: str, box: Box, rank: int) -> None:
        """Set the box of ``tensor``; raise ReshardError unless its array is of that shape."""
        found = self._arrays[tensor].shape if tensor in self._arrays else None
        if found != box.shape:
            raise ReshardError(f"{tensor} on rank {rank}: expected {_text(box.shape)}, got {_text(found)}")
        self._boxes[tensor] = box

    def part(self, tensor: str, box: Box) -> NDArray[Any]:
        """Return the view of ``box``, given in elements of the global tensor."""
        # The ellipsis makes a view also of a 0-d array.
        index: tuple[Any, ...] = (*box.within(self._boxes[tensor]), ...)
        view: NDArray[Any] = self._arrays[tensor][index]
        return view


class _Blocks:
    """One buffer for what passes between this rank and all members: a block each, in order, made of aligned pieces."""

    def __init__(self, members: Sequence[int], pieces: Sequence[NDArray[Any]], size: int) -> None:
        lengths = [-(-piece.nbytes // _ALIGNMENT) * _ALIGNMENT for piece in pieces]
        starts = [0, *accumulate(lengths)]
        self.buffer = np.zeros(starts[-1], np.uint8)
        self.counts = [0] * size
        for member, length in zip(members, lengths, strict=True):
            self.counts[member] += length
        self.views = [
            self.buffer[start : start + piece.nbytes].view(piece.dtype).reshape(piece.shape)
            for start, piece in zip(starts, pieces, strict=False)
        ]
        ends = pairwise([0, *accumulate(self.counts)])
        self._blocks = [self.buffer[start:stop] for start, stop in ends if start < stop]

    def checksums(self) -> NDArray[np.uint32]:
        """Return the CRC-32 of each block that is not empty."""
        return np.array([crc32(block.data) for block in self._blocks], np.uint32)

    def checksum_counts(self) -> list[int]:
        """Return how many bytes of checksums each member has."""
        return [np.uint32(0).nbytes if count else 0 for count in self.counts]


def reshard(
    arrays: Mapping[str, NDArray[Any]], layouts: Mapping[str, LayoutPair], communicator: Communicator
) -> tuple[dict[str, NDArray[Any]], ReshardReport]:
    """Return what this rank holds of each tensor after it went from its source to its target layout, and a report.

    All ranks of ``communicator`` call it together, with equal ``layouts``; it must hold all ranks of these. ``arrays``
    has the box of this rank of each tensor that it holds by its source layout, and nothing else. The given arrays are
    never written: a tensor whose box on this rank stays is returned as the very array that was given, every other one
    as a new, C-contiguous array. Elements move as bytes, of any dtype but objects and structures.

    Raises ReshardError on every rank, before a byte moves, when ranks disagree on layouts or dtypes, an array does not
    fit its layout or a rank runs out of memory; and when bytes arrive damaged.

    >>> from mpiparallel.communication.threads import run_world
    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> from mpiparallel.layout.layout import Layout
    >>> rows = Layout((2, 2), DeviceMatrix((2,)), ((0,), ()))
    >>> columns = Layout((2, 2), DeviceMatrix((2,)), ((), (0,)))
    >>> def turn(communicator):
    ...     row = np.array([[1, 2]]) if communicator.rank == 0 else np.array([[3, 4]])
    ...     return reshard({"weight": row}, {"weight": (rows, columns)}, communicator)[0]["weight"].tolist()
    >>> run_world(2, turn)
    [[[1], [3]], [[2], [4]]]
    """
    started = time.perf_counter()
    agree_on_layouts(layouts, communicator)
    rank = communicator.ranks[communicator.rank]
    _check_ranks(layouts, communicator)
    plan = plan_reshard(layouts, rank)
    raise_together(_misfit(arrays, layouts, rank), communicator)
    dtypes = agree_on_dtypes(arrays, sorted(layouts), communicator)
    targets = {tensor: arrays[tensor] for tensor in plan.kept}
    with failing_together(communicator):
        for tensor, (_, layout) in layouts.items():
            if rank in layout.devices and tensor not in targets:
                targets[tensor] = np.empty(layout.local_shape(rank), dtypes[tensor])
        exchange = Exchange(plan, layouts, arrays, targets, communicator)
    exchange.run()
    kept = sum(array.nbytes for array in targets.values()) - exchange.bytes_received
    return targets, _report(exchange, kept, time.perf_counter() - started, communicator)


def _check_ranks(layouts: Mapping[str, LayoutPair], communicator: Communicator) -> None:
    members = set(communicator.ranks)
    for tensor, pair in sorted(layouts.items()):
        for layout in pair:
            ranks = range(layout.devices.first_rank, layout.devices.first_rank + layout.devices.size)
            if not members.issuperset(ranks):
                raise ReshardError(
                    f"{tensor}: its layout is over ranks {ranks.start} to {ranks.stop - 1}, the communicator over "
                    f"{list(communicator.ranks)}; call reshard on a communicator of all ranks before and after"
                )


def _misfit(arrays: Mapping[str, NDArray[Any]], layouts: Mapping[str, LayoutPair], rank: int) -> str | None:
    """Return what is wrong with the first array that does not fit its source layout."""
    for tensor in sorted({*arrays, *layouts}):
        array, source = arrays.get(tensor), layouts[tensor][0] if tensor in layouts else None
        expected = source.local_shape(rank) if source and rank in source.devices else None
        found = None if array is None else array.shape
        if found != expected:
            return (
                f"{tensor} on rank {rank}: its source layout {source} gives this rank {_text(expected)}, "
                f"got {_text(found)}"
            )
        if array is not None and not _movable(array.dtype):
            return f"{tensor} on rank {rank}: dtype {array.dtype} cannot be moved; use a numeric dtype of NumPy"
    return None


def _movable(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of ``dtype`` are bytes that mean the same on a rank that knows it by its code alone."""
    return dtype.itemsize > 0 and not dtype.hasobject and np.dtype(dtype.str) == dtype


def _text(shape: tuple[int, ...] | None) -> str:
    return "no array" if shape is None else f"an array of shape {shape}"


def _report(exchange: Exchange, bytes_kept: int, seconds: float, communicator: Communicator) -> ReshardReport:
    sums = np.array([exchange.bytes_sent, bytes_kept, exchange.messages], np.int64)
    communicator.all_reduce(sums)
    slowest = np.array(seconds)
    communicator.all_reduce(slowest, "max")
    moved, kept, messages = sums.tolist()
    return ReshardReport(moved, kept, float(slowest), messages)
