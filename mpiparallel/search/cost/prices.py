"""What parts of a step cost on a machine: seconds of an operator's part, of a redistribution; bytes of a layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.graph import Node
from mpiparallel.graph.operator import Operator
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.halo import parts_of, read_layouts
from mpiparallel.parallel.placement import OperatorPlacement
from mpiparallel.parallel.redistribution import Redistribution, redistribute
from mpiparallel.search.cost.collectives import (
    Group,
    all_reduce_time,
    exchange_time,
    gather_time,
    reduce_scatter_time,
)
from mpiparallel.search.machine.machine import Machine


@dataclass
class Prices:
    """The prices of a machine, each worked out once.

    A part is that of the first rank, which under the even rule is a largest one.
    """

    machine: Machine
    _moves: dict[tuple[Layout, Layout, int], float] = field(default_factory=dict)
    _groups: dict[tuple[DeviceMatrix, tuple[int, ...]], Group] = field(default_factory=dict)

    def computing(self, node: Node, placement: OperatorPlacement) -> float:
        """Return the seconds in which a rank computes its part of a node; what shows memory only takes none."""
        if node.operator.is_view:
            return 0.0
        rank = placement_rank(placement)
        parts_in = parts_of(read_layouts(node.operator, placement), rank)
        parts_out = parts_of(placement.outputs, rank)
        inputs, outputs = (
            [TensorSpec(part.shape, value.spec.dtype) for part, value in zip(parts, values, strict=True)]
            for parts, values in ((parts_in, node.inputs), (parts_out, node.outputs))
        )
        return self.operator(node.operator.local(parts_in, parts_out), inputs, outputs)

    def operator(self, operator: Operator, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> float:
        """Return the seconds of an operator on tensors of these shapes: of its operations or its memory, the longer.

        Ranks that share cores take turns.
        """
        return self.kernel(operator.cost(inputs, outputs), operator.kind)

    def kernel(self, cost: Cost, kind: str = "kernel") -> float:
        """Return the seconds of a kernel of this cost, a product where its ``kind`` is ``gemm``."""
        machine = self.machine
        rate = machine.product_rate(cost.operations) if kind == "gemm" else machine.operation_rate
        bytes_moved = (cost.bytes_read + cost.bytes_written) / machine.memory_bandwidth
        return (max(cost.operations / rate, bytes_moved) + machine.launch) * machine.turns

    def moving(self, source: Layout, target: Layout, itemsize: int) -> float:
        """Return the seconds of the steps by which the planner takes a tensor from one layout to another."""
        key = source, target, itemsize
        found = self._moves.get(key)
        if found is None:
            found = self._moves[key] = sum(self.step(step, itemsize) for step in redistribute(source, target))
        return found

    def step(self, step: Redistribution, itemsize: int) -> float:
        """Return the seconds of one step of a redistribution."""
        if step.kind == "slice":
            return 0.0
        return self.collective(step.kind, step.source.devices, step.axes, self.bytes_moved(step, itemsize))

    def bytes_moved(self, step: Redistribution, itemsize: int) -> int:
        """Return the bytes that a rank sums up, gathers or receives in a step."""
        if step.kind == "exchange":
            return _received(step) * itemsize
        return bytes_held(step.target if step.kind == "gather" else step.source, itemsize)

    def collective(self, kind: str, devices: DeviceMatrix, axes: tuple[int, ...], size: int) -> float:
        """Return the seconds of a collective along axes, where a rank holds, gathers or receives ``size`` bytes."""
        own = self.machine.launch * self.machine.turns
        return _TIMES[kind](self.machine, self._group(devices, axes), size) + own

    def _group(self, devices: DeviceMatrix, axes: tuple[int, ...]) -> Group:
        key = devices, axes
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = self._made_group(devices, axes)
        return found

    def _made_group(self, devices: DeviceMatrix, axes: tuple[int, ...]) -> Group:
        members = devices.group(devices.first_rank, axes)
        per_host = self.machine.ranks_per_host
        hosts = len({rank // per_host for rank in members})
        on_host = -(-len(members) // hosts)
        busy = min(per_host, devices.size)
        return Group(hosts, on_host, max(1, busy // on_host))


_TIMES: Final[dict[str, Callable[[Machine, Group, float], float]]] = {
    "reduce": all_reduce_time,
    "reduce_scatter": reduce_scatter_time,
    "gather": gather_time,
    "exchange": exchange_time,
}


def placement_rank(placement: OperatorPlacement) -> int:
    """Return the first rank of a placement."""
    return (placement.outputs or placement.inputs)[0].devices.first_rank


def bytes_held(layout: Layout, itemsize: int) -> int:
    """Return the bytes that a rank holds at most of a tensor."""
    return layout.largest_size * itemsize


def _received(step: Redistribution) -> int:
    """Return how many elements a rank gets from others, of the first, the middle and the last rank the most."""
    members = step.target.devices.members
    most = 0
    for rank in {members[0], members[len(members) // 2], members[-1]}:
        own, wanted = step.source.box(rank), step.target.box(rank)
        sides = zip(own.start, own.stop, wanted.start, wanted.stop, strict=True)
        kept = prod(max(0, min(end, last) - max(begin, first)) for begin, end, first, last in sides)
        most = max(most, wanted.size - kept)
    return most
