"""Data and hybrid parallel: each rank runs the network on a batch of its own, and gradients are summed over the ranks.

A value that depends on a rank's batch is laid out as one term of a sum over all ranks. So is every gradient of a
parameter. Nothing is converted inside the network. Where the gradient of a shared parameter leaves the differentiated
part, the whole is wanted of it: the AllReduce follows from the layouts.
"""

from __future__ import annotations

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.policy import Policy, operands_of
from mpiparallel.graph.graph import Node, Value
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.operator_placement import OperatorPlacement
from mpiparallel.parallel.optimizer_shard import place_on_shards, storage_layout


class DataParallelPolicy(Policy):
    """Places the network of data and hybrid parallel mode; inputs and outputs are each rank's own.

    Parameters are whole on every rank, but ``layerwise_parallel`` ones are each rank's own: their gradients are not
    summed. What training overwrites without a gradient, such as moving averages, is each rank's own too where it
    depends on the batch. Under the parallel optimizer shared parameters are stored in shards, where they are updated.
    With ``full_batch`` the inputs are no batches but the same on every rank.
    """

    def begin(self) -> None:
        sharded = self._sharded
        if not self._configuration.full_batch:
            sharded.layouts.update((value, self._own(value.spec)) for value in sharded.graph.inputs)
            for value in self._overwritten_by_batches():
                self._store(value, self._own(value.spec))
        for value in sharded.graph.gradients:
            sharded.layouts[value] = self._own(value.spec)
            if value.parameter is not None:
                self._store(value, self._own(value.spec))

    def place(self, node: Node) -> OperatorPlacement:
        if node.operator.updates:
            self._store_states(node)
        inputs = tuple(self._wanted(node, index) for index in range(len(node.inputs)))
        cut = any(any(layout.cutting_axes) for layout in inputs)
        if cut and not node.operator.updates:
            return self._place_on_shards(node, inputs)
        own = any(layout.partial for layout in inputs)
        gradients = self._sharded.graph.gradients
        outputs = tuple(
            self._own(value.spec) if own or value in gradients else Layout.replicated(value.spec.shape, self._devices)
            for value in node.outputs
        )
        return OperatorPlacement(inputs, outputs)

    def end(self) -> None:
        sharded = self._sharded
        sharded.output_layouts.update((value, self._whole_if_gradient(value)) for value in sharded.graph.outputs)

    def _own(self, spec: TensorSpec) -> Layout:
        """Return the layout of which each rank has its own term."""
        axes = tuple(range(len(self._devices.shape)))
        return Layout(spec.shape, self._devices, ((),) * len(spec.shape), partial=axes)

    def _layout(self, value: Value) -> Layout:
        """Return the layout that a value is in; parameters and constants are met here first."""
        if value not in self._sharded.layouts:
            whole, parameter = Layout.replicated(value.spec.shape, self._devices), value.parameter
            if parameter is None:
                self._sharded.layouts[value] = whole
            elif parameter.layerwise_parallel or self._is_own(value):
                self._store(value, self._own(value.spec))
            else:
                self._store(value, storage_layout(whole, parameter, self._configuration), whole)
        return self._sharded.layouts[value]

    def _store(self, value: Value, layout: Layout, used: Layout | None = None) -> None:
        self._sharded.layouts[value] = self._sharded.stored[value.name] = layout
        self._sharded.used[value.name] = used or layout

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

    def _store_states(self, node: Node) -> None:
        """Store what an update overwrites beside its first parameter, such as moments, as that is stored."""
        first = node.inputs[node.operator.updates[0]]
        layout = self._layout(first)
        for index in node.operator.updates:
            state = node.inputs[index]
            if state in self._sharded.layouts:
                continue
            if layout.partial:
                self._store(state, self._own(state.spec))
            elif state.spec.shape == first.spec.shape:
                self._store(state, layout)

    def _place_on_shards(self, node: Node, inputs: tuple[Layout, ...]) -> OperatorPlacement:
        """Return the placement of what is done to gradients before the update: where the shards are."""
        self._after_gradient.update(node.outputs)
        return place_on_shards(operands_of(node), inputs)

    def _wanted(self, node: Node, index: int) -> Layout:
        """Return the layout in which a node takes an input.

        That is the one it is in, with two exceptions. Outside of updates parameters are whole. Gradients of shared
        parameters are summed: whole, or the shards that are updated.
        """
        value = node.inputs[index]
        if node.operator.keeps_partial or node.notes.origin is not None or node.notes.like is not None:
            return self._used(value) if index not in node.operator.updates else self._layout(value)
        if node.operator.updates:
            return self._wanted_by_update(node, index)
        parameter = self._sharded.graph.gradients.get(value)
        if parameter is not None and self._layout(parameter).optimizer_axes:
            return self._layout(parameter)
        if value in self._after_gradient:
            return self._layout(value).reduced()
        if value.parameter is not None and parameter is None and node.notes.follows and not node.operator.follows:
            return self._layout(value)
        return (
            self._used(value) if value.parameter is not None and parameter is None else self._whole_if_gradient(value)
        )

    def _wanted_by_update(self, node: Node, index: int) -> Layout:
        value, first = node.inputs[index], node.inputs[node.operator.updates[0]]
        layout = self._layout(first)
        if index in node.operator.updates:
            return self._layout(value)
        if layout.optimizer_axes and value.spec.shape == first.spec.shape:
            return layout
        is_gradient = value in self._sharded.graph.gradients
        return self._used(value) if value.parameter is not None and not is_gradient else self._whole_if_gradient(value)

    def _used(self, value: Value) -> Layout:
        """Return the layout in which operators use a value."""
        layout = self._layout(value)
        return self._sharded.used[value.name] if value.parameter is not None else layout

    def _whole_if_gradient(self, value: Value) -> Layout:
        """Return the layout that a value is in; of the gradient of a shared parameter, the sum over all ranks."""
        parameter = self._sharded.graph.gradients.get(value)
        if value in self._after_gradient or (parameter is not None and not self._layout(parameter).partial):
            return self._layout(value).reduced()
        return self._layout(value)

    def _is_own(self, value: Value) -> bool:
        """Return whether training has made a parameter each rank's own; a network that only reads it takes it so."""
        held = self._held.get(value.name)
        return held is not None and bool(held.partial)
