"""Data and hybrid parallel: each rank runs the network on a batch of its own, and gradients are summed over the ranks.

A value that depends on a rank's batch is laid out as one term of a sum over all ranks, and so is every gradient of a
parameter. Nothing is converted inside the network. Where the gradient of a shared parameter leaves the differentiated
part, the whole is wanted of it: the AllReduce follows from the layouts.
"""

from __future__ import annotations

from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.placement import Placement
from mpiparallel.parallel.sharded_graph import ShardedGraph


def shard_own_batches(graph: Graph, devices: DeviceMatrix, whole_inputs: bool = False) -> ShardedGraph:
    """Return the graph with layouts for data and hybrid parallel mode; inputs and outputs are each rank's own.

    Parameters are whole on every rank, but ``layerwise_parallel`` ones are each rank's own: their gradients are not
    summed. What training overwrites without a gradient, such as moving averages, is each rank's own too where it
    depends on the batch. ``whole_inputs`` says that the inputs are no batches but the same on every rank.
    """
    return _OwnBatches(graph, devices).run(whole_inputs)


class _OwnBatches:
    def __init__(self, graph: Graph, devices: DeviceMatrix) -> None:
        self._devices = devices
        self._sharded = ShardedGraph(graph, devices)

    def run(self, whole_inputs: bool) -> ShardedGraph:
        sharded = self._sharded
        if not whole_inputs:
            sharded.layouts.update((value, self._own(value.spec)) for value in sharded.graph.inputs)
            for value in self._overwritten_by_batches():
                self._store(value, self._own(value.spec))
        for value in sharded.graph.gradients:
            sharded.layouts[value] = self._own(value.spec)
            if value.parameter is not None:
                self._store(value, self._own(value.spec))
        for node in sharded.graph.nodes:
            placement = self._place(node)
            sharded.placements[node] = placement
            sharded.layouts.update(zip(node.outputs, placement.outputs, strict=True))
        sharded.handed_out = {value: self._whole_if_gradient(value) for value in sharded.graph.outputs}
        return sharded

    def _own(self, spec: TensorSpec) -> Layout:
        """Return the layout of which each rank has its own term."""
        axes = tuple(range(len(self._devices.shape)))
        return Layout(spec.shape, self._devices, ((),) * len(spec.shape), partial=axes)

    def _layout(self, value: Value) -> Layout:
        """Return the layout that a value is in; parameters and constants are met here first."""
        if value not in self._sharded.layouts:
            own = value.parameter is not None and (value.parameter.layerwise_parallel or _is_own(value.parameter))
            layout = self._own(value.spec) if own else Layout.replicated(value.spec.shape, self._devices)
            if value.parameter is not None:
                self._store(value, layout)
            self._sharded.layouts[value] = layout
        return self._sharded.layouts[value]

    def _store(self, value: Value, layout: Layout) -> None:
        self._sharded.layouts[value] = self._sharded.used[value.name] = self._sharded.stored[value.name] = layout

    def _overwritten_by_batches(self) -> list[Value]:
        """Return the parameters that are overwritten by what depends on a batch but is no gradient."""
        depends = set(self._sharded.graph.inputs)
        gradients = self._sharded.graph.gradients
        found = []
        for node in self._sharded.graph.nodes:
            if not any(value in depends for value in node.inputs):
                continue
            depends.update(output for output in node.outputs if output not in gradients)
            if node.operator.updates:
                found += [node.inputs[index] for index in node.operator.updates]
        return [value for value in found if not (value.parameter is not None and value.parameter.requires_grad)]

    def _place(self, node: Node) -> Placement:
        for index in node.operator.updates:
            state, first = node.inputs[index], node.inputs[node.operator.updates[0]]
            if state not in self._sharded.layouts and self._layout(first).partial:
                self._store(state, self._own(state.spec))
        inputs = tuple(
            self._layout(value) if index in node.operator.updates else self._wanted(node, value)
            for index, value in enumerate(node.inputs)
        )
        own = any(layout.partial for layout in inputs)
        gradients = self._sharded.graph.gradients
        outputs = tuple(
            self._own(value.spec) if own or value in gradients else Layout.replicated(value.spec.shape, self._devices)
            for value in node.outputs
        )
        return Placement(inputs, outputs)

    def _wanted(self, node: Node, value: Value) -> Layout:
        """Return the layout in which a node takes a value: that it is in, but gradients of shared parameters whole."""
        within = node.origin is not None or node.like is not None or node.operator.keeps_terms
        return self._layout(value) if within else self._whole_if_gradient(value)

    def _whole_if_gradient(self, value: Value) -> Layout:
        """Return the layout that a value is in; of the gradient of a shared parameter, the sum over all ranks."""
        parameter = self._sharded.graph.gradients.get(value)
        if parameter is None or self._layout(parameter).partial:
            return self._layout(value)
        return self._layout(value).reduced()


def _is_own(parameter: Parameter) -> bool:
    """Return whether training has made a parameter each rank's own; then a network that only reads it takes it so."""
    return parameter.layout is not None and bool(parameter.layout.partial)
