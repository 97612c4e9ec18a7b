"""Reading within a host: every rank fetches what it receives straight out of the sources of its peers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from mpiparallel.communication import process_memory
from mpiparallel.communication.process_memory import Rows
from mpiparallel.communication.protocol import Communicator
from mpiparallel.reshard.bound_plan import BoundPlan, Stream
from mpiparallel.reshard.checksums import Checksummer
from mpiparallel.reshard.executors.packed import PackedExecutor
from mpiparallel.reshard.executors.places import address, places_of, places_shape
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.pieces import byte_view
from mpiparallel.reshard.verification import Checked

# 1 MiB of rows here and there; what has more of them makes them anew each time.
_MOST_ROWS_KEPT: Final = 1 << 15


class AttachedExecutor:
    """One pass from a strided source in the memory of a peer to a strided target, by the operating system.

    Neither sources nor targets lie anywhere special, and nothing is allocated. What crosses hosts is packed and sent.
    """

    NAME: Final = "attached"

    def __init__(
        self, bound: BoundPlan, communicator: Communicator, shape: TrafficShape, checksummer: Checksummer | None
    ) -> None:
        own = communicator.hosts[communicator.rank]
        near = frozenset(member for member, host in enumerate(communicator.hosts) if host == own)
        self._bound = bound
        self._near = bound.only(near)
        far = frozenset(range(communicator.size)) - near
        self._far = PackedExecutor(bound.only(far), communicator, shape, checksummer)
        self._communicator = communicator
        self._checksummer = checksummer
        self._there: dict[int, list[list[int]]] = {}
        self._kept: dict[int, list[tuple[Rows, Rows]]] = {}

    def connect(self) -> None:
        """Learn where the pieces that this rank fetches lie; all ranks call it together."""
        told = {stream.member: byte_view(places_of(stream.pieces)) for stream in self._near.outgoing}
        heard = {stream.member: np.empty(places_shape(stream.pieces), np.int64) for stream in self._near.incoming}
        self._communicator.exchange(told, {member: byte_view(places) for member, places in heard.items()})
        self._there = {member: places.tolist() for member, places in heard.items()}
        self._far.connect()
        for stream in self._near.incoming:
            self._keep_rows(stream)

    def _keep_rows(self, stream: Stream) -> None:
        """Make the rows of a stream once for all runs, unless they are too many."""
        pairs: list[tuple[Rows, Rows]] = []
        count = 0
        for pair in self._rows(stream):
            pairs.append(pair)
            count += len(pair[0])
            if count > _MOST_ROWS_KEPT:
                return
        here, there = (np.concatenate(side) for side in zip(*pairs, strict=True))
        self._kept[stream.member] = [(here, there)]

    def run(self) -> Checked:
        """Fill the targets of this rank from the sources of its peers; all ranks call it together."""
        # No rank reads before every peer's sources are as they are to be moved.
        self._communicator.barrier()
        self._bound.copy_own()
        here, size = self._communicator.rank, self._communicator.size
        for stream in sorted(self._near.incoming, key=lambda stream: (stream.member - here) % size):
            pairs = self._kept.get(stream.member) or self._rows(stream)
            process_memory.read(self._communicator.processes[stream.member], pairs)
        checked = self._far.run()
        if self._checksummer:
            for stream in self._near.outgoing:
                checked.add_sent(stream, self._checksummer)
            for stream in self._near.incoming:
                checked.add_arrived(stream, self._checksummer)
        # Nor does a rank change or give up its sources before every peer has read them.
        self._communicator.barrier()
        return checked

    def _rows(self, stream: Stream) -> Iterator[tuple[Rows, Rows]]:
        for piece, (start, *strides) in zip(stream.pieces, self._there[stream.member], strict=True):
            there = (start, tuple(strides[: piece.ndim]))
            yield from process_memory.row_pairs(piece.shape, piece.itemsize, (address(piece), piece.strides), there)

    def free(self) -> None:
        """Forget where the sources of peers lie."""
        self._there.clear()
        self._kept.clear()
        self._far.free()
