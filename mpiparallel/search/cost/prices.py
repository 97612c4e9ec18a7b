"""What parts of a step cost on a machine: seconds of an operator's part, of a redistribution; bytes of a layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from math import inf, prod
from typing import Final

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dataclass import dataclass
from mpiparallel.dtype import is_narrow
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.graph import Node
from mpiparallel.graph.operator import Operator
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.halo import parts_of, read_layouts
from mpiparallel.parallel.operator_placement import OperatorPlacement
from mpiparallel.parallel.redistribution import Redistribution, redistribute
from mpiparallel.search.cost.collectives import (
    Group,
    all_reduce_time,
    exchange_time,
    gather_time,
    reduce_scatter_time,
)
from mpiparallel.search.cost.operator_key import operator_key
from mpiparallel.search.machine.machine import Machine


@dataclass
class Prices:
    """The prices of a machine, each worked out once.

    A part is that of the first rank, which under the even rule is a largest one.
    """

    machine: Machine
    _moves: dict[tuple[Layout, Layout, int], float] = field(default_factory=dict)
    _operators: dict[Hashable, float] = field(default_factory=dict)
    _groups: dict[tuple[DeviceMatrix, tuple[int, ...]], Group] = field(default_factory=dict)
    _kinds: dict[Hashable, int] = field(default_factory=dict)
    _kind_of: dict[Node, int] = field(default_factory=dict)
    _computed: dict[Hashable, float] = field(default_factory=dict)

    def kind(self, node: Node) -> int:
        """Return a number, equal for nodes that compute the same from tensors of the same shapes."""
        found = self._kind_of.get(node)
        if found is None:
            specs = tuple(value.spec for value in (*node.inputs, *node.outputs))
            key = operator_key(node.operator), specs
            found = self._kind_of[node] = self._kinds.setdefault(key, len(self._kinds))
        return found

    def computing(self, node: Node, placement: OperatorPlacement) -> float:
        """Return the seconds in which a rank computes its part of a node; what shows memory only takes none."""
        if node.operator.is_view:
            return 0.0
        key = self.kind(node), placement.inputs, placement.outputs
        found = self._computed.get(key)
        if found is None:
            found = self._computed[key] = self._computing(node, placement)
        return found

    def _computing(self, node: Node, placement: OperatorPlacement) -> float:
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

        A product takes its operations and then its matrices in. Ranks that share cores take turns.
        """
        key = operator_key(operator), (*inputs,), (*outputs,)
        found = self._operators.get(key)
        if found is None:
            cost = operator.cost(inputs, outputs)
            found = self._operators[key] = self.kernel(operator, cost, inputs, outputs)
        return found

    def kernel(
        self, operator: Operator, cost: Cost, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> float:
        """Return the seconds of an operator that costs this: by what was measured of its kernels, where that was."""
        narrow = bool(inputs) and all(is_narrow(spec.dtype) for spec in inputs[:2])
        known = bool(self.machine.kernels) and not narrow
        measured = self.machine.kernel_times(operator.kernel_names(inputs, outputs)) if known else None
        if measured is None:
            return self._by_rates(cost, operator.kind, narrow)
        return measured.seconds(cost, len(inputs) + len(outputs)) * self.machine.turns

    def _by_rates(self, cost: Cost, kind: str, narrow: bool) -> float:
        """Return the seconds of a kernel; the ``kind`` of products is ``gemm``, ``narrow``: of 16 bits."""
        machine, size = self.machine, cost.bytes_read + cost.bytes_written
        if kind == "gemm":
            computing = (
                cost.operations / machine.product_rate(cost.operations, narrow) + size / machine.operand_bandwidth
            )
        else:
            computing = cost.operations / machine.operation_rate
        return (max(computing, size / machine.memory_bandwidth) + machine.launch) * machine.turns

    def moving(self, source: Layout, target: Layout, itemsize: int) -> float:
        """Return the seconds of the steps by which the planner takes a tensor from one layout to another."""
        key = source, target, itemsize
        found = self._moves.get(key)
        if found is None:
            found = self._moves[key] = sum(self.step(step, itemsize) for step in redistribute(source, target))
        return found

    def step(self, step: Redistribution, itemsize: int) -> float:
        """Return the seconds of one step of a redistribution; nobody computes before one that continues a move."""
        if step.kind == "slice":
            return 0.0
        computed = 0.0 if step.continues else inf
        return self.collective(step.kind, step.source.devices, step.axes, self.bytes_moved(step, itemsize), computed)

    def bytes_moved(self, step: Redistribution, itemsize: int) -> int:
        """Return the bytes that a rank sums up, gathers or receives in a step."""
        if step.kind == "exchange":
            return _received(step) * itemsize
        return bytes_held(step.target if step.kind == "gather" else step.source, itemsize)

    def collective(
        self, kind: str, devices: DeviceMatrix, axes: tuple[int, ...], size: int, computed: float = inf
    ) -> float:
        """Return the seconds of a collective along axes, where a rank holds, gathers or receives ``size`` bytes.

        ``computed`` are the seconds since the collective before: no rank waits longer than others compute.
        """
        own = self.machine.launch * self.machine.turns + min(self.waiting, computed)
        return _TIMES[kind](self.machine, self._group(devices, axes), size) + own

    @property
    def waiting(self) -> float:
        """The seconds that a rank waits in a collective at most."""
        return self.machine.resuming * self.machine.turns

    def line(self, kind: str, devices: DeviceMatrix, axes: tuple[int, ...]) -> tuple[float, float]:
        """Return the seconds of a collective of one of the ``LINEAR`` kinds that no byte and that each byte takes."""
        none = self.collective(kind, devices, axes, 0)
        return none, (self.collective(kind, devices, axes, _BYTES) - none) / _BYTES

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


LINEAR: Final = ("gather", "reduce_scatter", "exchange")
"""The collectives whose seconds are those of no byte and as many times those of one as there are bytes."""

_BYTES: Final = 1 << 30
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
    source, target = step.source.canonical, step.target.canonical
    most = 0
    for rank in {members[0], members[len(members) // 2], members[-1]}:
        own, wanted = source.box(rank), target.box(rank)
        sides = zip(own.start, own.stop, wanted.start, wanted.stop, strict=True)
        kept = prod(max(0, min(end, last) - max(begin, first)) for begin, end, first, last in sides)
        most = max(most, wanted.size - kept)
    return most
