"""The local graph of one rank: local shapes, with the collectives that its layouts ask for."""

from __future__ import annotations

from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.tensor_spec import Part, TensorSpec
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.fusion import fuse_collectives
from mpiparallel.parallel.redistribution import Redistribution, redistribute
from mpiparallel.parallel.sharded_graph import ShardedGraph


def local_graph(sharded: ShardedGraph, rank: int) -> Graph:
    """Return the graph that ``rank`` runs, without what nothing needs.

    Every rank's has the same collectives in order.
    """
    return _Localizer(sharded, rank).run()


class _Localizer:
    def __init__(self, sharded: ShardedGraph, rank: int) -> None:
        self._sharded = sharded
        self._rank = rank
        self._graph = Graph()
        self._local: dict[Value, Value] = {}
        self._converted: dict[tuple[Value, Layout], Value] = {}
        self._steps: dict[Node, Redistribution] = {}

    def run(self) -> Graph:
        for value in self._sharded.graph.inputs:
            self._local[value] = self._graph.add_input(value.name, self._spec(value))
        for node in self._sharded.graph.nodes:
            self._add(node)
        for value in self._sharded.graph.outputs:
            self._graph.outputs.append(self._in_layout(value, self._sharded.output_layout(value)))
        self._graph.remove_dead_nodes()
        fuse_collectives(self._graph, self._steps, self._rank)
        return self._graph

    def _spec(self, value: Value) -> TensorSpec:
        return TensorSpec(self._sharded.layouts[value].local_shape(self._rank), value.spec.dtype)

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
        key = (value, wanted.canonical)
        if key not in self._converted:
            local = self._value(value)
            for step in redistribute(own, wanted):
                operator = step.operator(self._rank).configured(scope=f"{value.name}/{step.kind}")
                specs = operator.infer(local.spec)
                node = self._graph.add_node(operator, operator.scope, [local], specs)
                self._steps[node], local = step, node.outputs[0]
            self._converted[key] = local
        return self._converted[key]

    def _add(self, node: Node) -> None:
        placement = self._sharded.placements[node]
        inputs = [self._in_layout(value, layout) for value, layout in zip(node.inputs, placement.inputs, strict=True)]
        parts_in = [Part(layout.global_shape, layout.box(self._rank)) for layout in placement.inputs]
        parts_out = [Part(layout.global_shape, layout.box(self._rank)) for layout in placement.outputs]
        operator = node.operator.local(parts_in, parts_out)
        specs = [TensorSpec(part.shape, value.spec.dtype) for part, value in zip(parts_out, node.outputs, strict=True)]
        local = self._graph.add_node(operator, node.name, inputs, specs)
        self._local.update(zip(node.outputs, local.outputs, strict=True))
