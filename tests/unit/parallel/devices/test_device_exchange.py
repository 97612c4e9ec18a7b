"""Boxes of several dtypes go to each other member in one message, as often as they are sent."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport.on_host import HostTransport
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.parallel.device_exchange import DeviceExchange
from mpiparallel.reshard.bound_plan import BoundPlan, PeerPieces


class Listening(HostTransport):
    """Tells how many bytes go to each member and come from it."""

    def exchange(self, sends: Any, receives: Any) -> Any:
        self.lengths = [{member: one.nbytes for member, one in side.items()} for side in (sends, receives)]
        return super().exchange(sends, receives)


def pieces(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a column, a row, three bytes, nothing, and another column of the first."""
    matrix, numbers, small = arrays
    return matrix[:, 1:2], numbers[1], small[:3], numbers[:0], matrix[1:, 3:]


def arrays_of(rank: int) -> tuple[Any, ...]:
    matrix = np.arange(12.0).reshape(3, 4) + 100 * rank
    numbers = np.arange(10, dtype=np.int32).reshape(2, 5) + 100 * rank
    return matrix, numbers, np.arange(5, dtype=np.int8) + 20 * rank


def exchange(communicator: Any) -> None:
    own, size = communicator.rank, communicator.size
    others = [member for member in range(size) if member != own]
    sources = arrays_of(own)
    targets = {member: tuple(np.zeros_like(one) for one in sources) for member in range(size)}
    plan = BoundPlan(
        tuple(PeerPieces(member, ("a",) * 5, pieces(sources)) for member in others),
        tuple(PeerPieces(member, ("a",) * 5, pieces(targets[member])) for member in others),
        tuple(zip(pieces(targets[own]), pieces(sources), strict=True)),
    )
    transport = Listening(communicator)
    moving = DeviceExchange(Runtime(communicator=communicator), plan, transport)
    # 40 bytes of float64, 20 of int32 and 3 of int8, each from where any dtype may begin.
    lengths = dict.fromkeys(others, sum(-(-used // 16) * 16 for used in (40, 20, 3)))
    assert transport.lengths == [lengths, lengths]
    for times in (1, 3):
        for source, first in zip(sources, arrays_of(own), strict=True):
            source[...] = first * times
        moving.run()
        for member, found in targets.items():
            wanted = tuple(np.zeros_like(one) for one in sources)
            for target, source in zip(pieces(wanted), pieces(arrays_of(member)), strict=True):
                target[...] = source * times
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, other)


def test_each_member_gets_the_boxes_of_the_others_and_its_own_each_time() -> None:
    run_world(3, exchange)


def test_a_member_alone_copies_its_own_boxes() -> None:
    run_world(1, exchange)
