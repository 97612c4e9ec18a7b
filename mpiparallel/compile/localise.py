"""The local graph of one rank: local shapes, with the collectives that its layouts ask for."""

from __future__ import annotations

from collections.abc import Mapping

from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.compile.conversions import Conversions
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.halo import read_layouts
from mpiparallel.parallel.redistribution import Redistribution, redistribute
from mpiparallel.parallel.redistribution_operators import redistributing_operator
from mpiparallel.pipeline.action import REDUCE, Action

GRADIENT_OF = "gradient of "
"""What the names of exchanged gradients begin with; the name of the parameter follows."""


@dataclass(frozen=True)
class LocalGraph:
    """What one rank runs on its parts, in the order of the whole graph; ``steps`` says which nodes redistribute."""

    graph: Graph
    steps: Mapping[Node, Redistribution]


def localise(sharded: ShardedGraph, rank: int) -> LocalGraph:
    """Return the graph of local shapes of ``rank``, with the collectives that its layouts ask for."""
    return _Localizer(sharded, rank).run()


class _Localizer:
    def __init__(self, sharded: ShardedGraph, rank: int) -> None:
        self._sharded = sharded
        self._rank = rank
        self._graph = Graph()
        self._local: dict[Value, Value] = {}
        self._conversions = Conversions[Value]()
        self._guards: tuple[Value, ...] = ()
        self._action: Action | None = None
        self._steps: dict[Node, Redistribution] = {}
        self._parts: dict[Layout, Part] = {}

    def run(self) -> LocalGraph:
        for value in self._sharded.graph.inputs:
            self._local[value] = self._graph.add_input(value.name, self._spec(value))
        for node in self._sharded.graph.nodes:
            self._add(node)
        self._guards = ()
        self._conversions.at(None)
        for value in self._sharded.graph.outputs:
            self._graph.outputs.append(self._in_layout(value, self._sharded.output_layout(value)))
        self._graph.remove_dead_nodes()
        return LocalGraph(self._graph, self._steps)

    def _spec(self, value: Value) -> TensorSpec:
        return TensorSpec(self._sharded.layouts[value].local_shape(self._rank), value.spec.dtype)

    def _part(self, layout: Layout) -> Part:
        """Return which part a rank has of a tensor; nodes of few layouts share it."""
        part = self._parts.get(layout)
        if part is None:
            part = self._parts[layout] = Part(layout.global_shape, layout.box(self._rank))
        return part

    def _value(self, value: Value) -> Value:
        """Return the local value that stands for one of the whole graph, in the layout that it is in."""
        found = self._local.get(value)
        if found is None and value.parameter is not None:
            found = self._graph.add_parameter(value.parameter, self._spec(value))
        elif found is None and value.constant is not None:
            found = self._graph.add_constant(value.constant)
        if found is None:
            raise KeyError(f"{value} is used before it is computed")
        self._local[value] = found
        return found

    def _in_layout(self, value: Value, wanted: Layout) -> Value:
        own = self._sharded.layouts[value]
        if wanted is own and value.constant is None:
            return self._value(value)
        known = self._conversions.known(value, wanted)
        if known is not None:
            return known
        if value.constant is not None and not wanted.partial:
            local = self._graph.add_constant(value.constant[wanted.box(self._rank).within(Box.whole(value.spec.shape))])
        else:
            local = self._moved(value, self._value(value), own, wanted)
        self._conversions.keep(value, wanted, local)
        return local

    def _moved(self, value: Value, local: Value, source: Layout, target: Layout) -> Value:
        """Return the local value of what ``local`` is in the layout ``source``, in ``target``."""
        parameter = self._sharded.graph.gradients.get(value)
        name = value.name if parameter is None else f"{GRADIENT_OF}{parameter.name}"
        for step in redistribute(source, target):
            operator = redistributing_operator([step], self._rank).configured(scope=f"{name}/{step.kind}")
            specs = operator.infer(local.spec)
            action = self._action if parameter is None or self._action is None else REDUCE
            notes = Notes(guards=self._guards, action=action)
            node = self._graph.add_node(operator, operator.scope, [local], specs, notes)
            self._steps[node], local = step, node.outputs[0]
        return local

    def _add(self, node: Node) -> None:
        notes = node.notes
        self._guards = tuple(self._value(flag) for flag in notes.guards)
        self._conversions.at(node)
        self._action = self._sharded.graph.actions.get(node)
        placement = self._sharded.placements[node]
        read = read_layouts(node.operator, placement)
        inputs = [
            self._value(value) if index in node.operator.unread else self._in_layout(value, read[index])
            for index, value in enumerate(node.inputs)
        ]
        parts_in, parts_out = ([self._part(layout) for layout in layouts] for layouts in (read, placement.outputs))
        operator = node.operator.local(parts_in, parts_out)
        specs = [TensorSpec(part.shape, value.spec.dtype) for part, value in zip(parts_out, node.outputs, strict=True)]
        kept = Notes(guards=self._guards, micro_batch=notes.micro_batch, action=self._action)
        local = self._graph.add_node(operator, node.name, inputs, specs, kept)
        for value, made, layout in zip(node.outputs, local.outputs, placement.outputs, strict=True):
            own = self._sharded.layouts[value]
            self._local[value] = made if own is layout else self._moved(value, made, layout, own)
        for index in operator.updates:
            self._conversions.forget(node.inputs[index])
