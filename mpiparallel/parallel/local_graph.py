"""The local graph of one rank: local shapes, with the collectives that its layouts ask for."""

from __future__ import annotations

from mpiparallel.graph.graph import Graph, Node, Segment, Value
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.collective_schedule import schedule_collectives
from mpiparallel.parallel.elementwise_fusion import fuse_elementwise
from mpiparallel.parallel.reading import parts_of, read_layouts
from mpiparallel.parallel.redistribution import Redistribution, redistribute
from mpiparallel.parallel.redistribution_operators import redistributing_operator
from mpiparallel.parallel.sharded_graph import ShardedGraph

GRADIENT_OF = "gradient of "
"""What the names of exchanged gradients begin with; the name of the parameter follows."""


def local_graph(sharded: ShardedGraph, rank: int, overlaps: bool = False, fuses: bool = True) -> Graph:
    """Return the graph that ``rank`` runs, without what nothing needs.

    Every rank's has the same collectives in order. With ``overlaps`` they start before their results are
    needed. With ``fuses`` neighbouring element-wise operators become one.
    """
    graph = _Localizer(sharded, rank, overlaps).run()
    if fuses:
        fuse_elementwise(graph)
    return graph


class _Localizer:
    def __init__(self, sharded: ShardedGraph, rank: int, overlaps: bool) -> None:
        self._sharded = sharded
        self._rank = rank
        self._overlaps = overlaps
        self._graph = Graph()
        self._local: dict[Value, Value] = {}
        self._converted: dict[tuple[Value, Layout, tuple[Value, ...], Segment | None], Value] = {}
        self._guards: tuple[Value, ...] = ()
        self._again: Segment | None = None
        self._steps: dict[Node, Redistribution] = {}

    def run(self) -> Graph:
        for value in self._sharded.graph.inputs:
            self._local[value] = self._graph.add_input(value.name, self._spec(value))
        for node in self._sharded.graph.nodes:
            self._add(node)
        self._guards, self._again = (), None
        for value in self._sharded.graph.outputs:
            self._graph.outputs.append(self._in_layout(value, self._sharded.output_layout(value)))
        self._graph.remove_dead_nodes()
        schedule_collectives(self._graph, self._steps, self._rank, self._overlaps)
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
        again = self._again if value.parameter is not None else None
        # What was converted under a guard is there only where the same guards hold.
        for count in range(len(self._guards) + 1):
            known = self._converted.get((value, wanted.canonical, self._guards[:count], again))
            if known is not None:
                return known
        local = self._moved(value, self._value(value), own, wanted)
        self._converted[value, wanted.canonical, self._guards, again] = local
        return local

    def _moved(self, value: Value, local: Value, source: Layout, target: Layout) -> Value:
        """Return the local value of what ``local`` is in the layout ``source``, in ``target``."""
        parameter = self._sharded.graph.gradients.get(value)
        name = value.name if parameter is None else f"{GRADIENT_OF}{parameter.name}"
        for step in redistribute(source, target):
            operator = redistributing_operator([step], self._rank).configured(scope=f"{name}/{step.kind}")
            specs = operator.infer(local.spec)
            node = self._graph.add_node(operator, operator.scope, [local], specs, guards=self._guards)
            self._steps[node], local = step, node.outputs[0]
        return local

    def _add(self, node: Node) -> None:
        self._guards = tuple(self._value(flag) for flag in node.guards)
        segment = node.segment if node.origin is None else node.origin.segment
        self._again = segment if segment is not None and segment.recomputed and segment.regathers else None
        placement = self._sharded.placements[node]
        read = read_layouts(node.operator, placement)
        inputs = [
            self._value(value) if index in node.operator.unread else self._in_layout(value, read[index])
            for index, value in enumerate(node.inputs)
        ]
        parts_in, parts_out = parts_of(read, self._rank), parts_of(placement.outputs, self._rank)
        operator = node.operator.local(parts_in, parts_out)
        specs = [TensorSpec(part.shape, value.spec.dtype) for part, value in zip(parts_out, node.outputs, strict=True)]
        local = self._graph.add_node(operator, node.name, inputs, specs, guards=self._guards)
        for value, made, layout in zip(node.outputs, local.outputs, placement.outputs, strict=True):
            own = self._sharded.layouts[value]
            self._local[value] = made if own is layout else self._moved(value, made, layout, own)
        overwritten = {node.inputs[index] for index in operator.updates}
        if overwritten:
            self._converted = {key: one for key, one in self._converted.items() if key[0] not in overwritten}
