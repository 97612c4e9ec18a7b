"""What a step costs: what the first rank of a laid-out graph runs, node after node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.graph import Node, Value
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.halo import parts_of, read_layouts
from mpiparallel.parallel.redistribution import redistribute
from mpiparallel.search.cost.memory import live_nodes
from mpiparallel.search.cost.prices import Prices


@dataclass(frozen=True)
class StepCost:
    """The seconds of a step: of computing, and of communication by its kind."""

    computing: float
    moving: dict[str, float]

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.computing + sum(self.moving.values())


def step_cost(sharded: ShardedGraph, prices: Prices) -> StepCost:
    """Return what a step of a laid-out graph costs, by what its first rank runs.

    It is the sum of ``timed_nodes``; a test holds it to that. The local graph is not made. Nodes that compute the same
    by one placement are priced once, and so are equal moves.
    """
    return _Step(sharded, prices).run()


class _Step:
    def __init__(self, sharded: ShardedGraph, prices: Prices) -> None:
        self._sharded, self._prices, self._rank = sharded, prices, sharded.devices.first_rank
        self._computing = 0.0
        self._moving: dict[str, float] = defaultdict(float)
        self._reads: dict[Hashable, tuple[tuple[Layout, ...], float]] = {}
        self._moves: dict[tuple[Layout, Layout, int], list[tuple[str, float]]] = {}
        self._known: dict[Value, set[tuple[Layout, tuple[Value, ...], Segment | None]]] = {}

    def run(self) -> StepCost:
        graph = self._sharded.graph
        nodes = live_nodes(graph)
        needed = {*graph.outputs, *(value for node in nodes for value in node.inputs)}
        for node in nodes:
            self._add(node, needed)
        for value in graph.outputs:
            self._take(value, self._sharded.output_layout(value), (), None)
        return StepCost(self._computing, dict(self._moving))

    def _add(self, node: Node, needed: set[Value]) -> None:
        """Count the moves of what a node reads, the node, and the moves of what it makes and something needs."""
        notes, layouts = node.notes, self._sharded.layouts
        segment = notes.segment if notes.origin is None else notes.origin.notes.segment
        again = segment if segment is not None and segment.recomputed and segment.regathers else None
        read, seconds = self._priced(node)
        unread = node.operator.unread
        for index, (value, wanted) in enumerate(zip(node.inputs, read, strict=True)):
            if (wanted is not layouts.get(value) or value.constant is not None) and index not in unread:
                self._take(value, wanted, notes.guards, again)
        self._computing += seconds
        for value, layout in zip(node.outputs, self._sharded.placements[node].outputs, strict=True):
            if layouts[value] is not layout and value in needed:
                self._move(value, layout, layouts[value])
        for index in node.operator.updates:
            self._known.pop(node.inputs[index], None)

    def _take(self, value: Value, wanted: Layout, guards: tuple[Value, ...], again: Segment | None) -> None:
        """Count the move of a value to where it is wanted, unless it is there under some of the same guards."""
        own = self._sharded.layouts[value]
        if wanted is own and value.constant is None:
            return
        again = again if value.parameter is not None else None
        known = self._known.setdefault(value, set())
        place = wanted.canonical
        if any((place, guards[:count], again) in known for count in range(len(guards) + 1)):
            return
        known.add((place, guards, again))
        if value.constant is None or wanted.partial:
            self._move(value, own, wanted)

    def _move(self, value: Value, source: Layout, target: Layout) -> None:
        key = source, target, value.spec.dtype.itemsize
        steps = self._moves.get(key)
        if steps is None:
            steps = self._moves[key] = [
                (step.kind, self._prices.step(step, key[2])) for step in redistribute(source, target)
            ]
        for kind, seconds in steps:
            self._moving[kind] += seconds

    def _priced(self, node: Node) -> tuple[tuple[Layout, ...], float]:
        """Return the layouts in which a node reads its inputs, and its seconds."""
        placement = self._sharded.placements[node]
        unread = [self._shape(node.inputs[index]) for index in node.operator.unread]
        key = self._prices.kind(node), placement.inputs, placement.outputs, *unread
        found = self._reads.get(key)
        if found is None:
            read = read_layouts(node.operator, placement)
            found = self._reads[key] = read, self._seconds(node, read, placement.outputs)
        return found

    def _seconds(self, node: Node, read: Sequence[Layout], made: Sequence[Layout]) -> float:
        parts_in, parts_out = parts_of(read, self._rank), parts_of(made, self._rank)
        operator = node.operator.local(parts_in, parts_out)
        if operator.is_view:
            return 0.0
        shapes = [part.shape for part in parts_in]
        for index in node.operator.unread:
            shapes[index] = self._shape(node.inputs[index])
        inputs = [TensorSpec(shape, value.spec.dtype) for shape, value in zip(shapes, node.inputs, strict=True)]
        outputs = [
            TensorSpec(part.shape, value.spec.dtype) for part, value in zip(parts_out, node.outputs, strict=True)
        ]
        return self._prices.operator(operator, inputs, outputs)

    def _shape(self, value: Value) -> tuple[int, ...]:
        """Return the shape of what a rank has of a value in the value's own layout."""
        return value.spec.shape if value.constant is not None else self._sharded.layouts[value].local_shape(self._rank)
