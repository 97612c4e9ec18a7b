"""Semi-auto parallel: each operator is placed by its strategy, or by rules where it has none."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from mpiparallel.compile.policy import Policy, operands_of
from mpiparallel.errors import StrategyError
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.fed_pieces import input_layout
from mpiparallel.parallel.operator_placement import (
    OperatorPlacement,
    place_by_batch,
    place_by_inputs,
    place_by_strategy,
)
from mpiparallel.parallel.optimizer_shard import place_on_shards, storage_layout
from mpiparallel.parallel.output_placement import place_outputs
from mpiparallel.parallel.shared_parameters import ParameterUser, agree_on_parameters
from mpiparallel.parallel.weights import place_with_weights, values_of_weights


class StrategyPolicy(Policy):
    """Places operators by their strategies, on the one batch of all ranks.

    An operator with a strategy is placed by it. One without is batch parallel, or follows its inputs if it only moves
    elements or comes after a gradient. The operators of a gradient take the layouts of the operator that they
    differentiate, and an update those of its parameter. Where strategies cut a parameter into equal parts but over
    other axes, its users take it in one of these layouts. Raises StrategyError when a strategy does not fit or no one
    layout of a parameter suits all who use it.
    """

    _agreed: Mapping[Node, OperatorPlacement]
    """Where operators with a strategy are, each parameter of theirs in one layout."""

    @cached_property
    def _weights(self) -> frozenset[Value]:
        return values_of_weights(self._sharded.graph, self._strategies.inputs)

    def begin(self) -> None:
        sharded, self._agreed = self._sharded, {}
        for place, value in enumerate(sharded.graph.inputs):
            sharded.layouts[value] = input_layout(place, value.spec.shape, self._devices, self._configuration)
        if self._devices.size > 1:
            self._place_parameters()

    def place(self, node: Node) -> OperatorPlacement:
        if not node.operator.updates:
            for value in node.inputs:
                self._own(value)
        return self._place(node)

    def end(self) -> None:
        for value in self._sharded.graph.outputs:
            self._own(value)

    def _place_parameters(self) -> None:
        """Give each parameter the layout of the operators with a strategy that use it; a cast of it stands for it.

        Where there is none, the first operator without a strategy decides; the others take it where it is.
        """
        stands_for: dict[Value, Value] = {value: value for value in self._sharded.graph.parameters.values()}
        users: dict[Node, ParameterUser] = {}
        batch_parallel = []
        for node in self._sharded.graph.nodes:
            if not node.is_forward:
                continue
            if self._follows(node):
                if len(node.inputs) == 1 and node.inputs[0] in stands_for and node.operator.name == "Cast":
                    stands_for[node.outputs[0]] = stands_for[node.inputs[0]]
                continue
            strategy = self._strategies.inputs.get(node)
            if strategy is None:
                batch_parallel.append(node)
                continue
            operands = operands_of(node)
            used = {index: stands_for[value].name for index, value in enumerate(node.inputs) if value in stands_for}
            placement = place_by_strategy(operands, strategy, self._devices)
            users[node] = ParameterUser(operands, strategy, placement, used)
        placements, layouts = agree_on_parameters(list(users.values()))
        self._agreed = dict(zip(users, placements, strict=True))
        for name, layout in layouts.items():
            self._store(self._sharded.graph.parameters[name], layout)
        for node in batch_parallel:
            # A difference with all that is laid out would be as long as that.
            new = {value for value in node.inputs if value in stands_for and value not in self._sharded.layouts}
            if new and not self._weights.issuperset(node.outputs):
                placement = place_by_batch(operands_of(node), self._devices)
                for value, layout in zip(node.inputs, placement.inputs, strict=True):
                    if value in new and stands_for[value] not in self._sharded.layouts:
                        self._store(stands_for[value], layout)

    def _store(self, value: Value, layout: Layout) -> None:
        parameter = value.parameter
        self._sharded.used[value.name] = layout
        held = self._held.get(value.name)
        if held is not None and held.devices.size == self._devices.size:
            stored = held
        else:
            stored = layout if parameter is None else storage_layout(layout, parameter, self._configuration)
        self._sharded.stored[value.name] = self._sharded.layouts[value] = stored

    def _own(self, value: Value) -> Layout:
        """Return the layout that a value is in; a parameter or constant nobody has placed is whole on every rank."""
        if value not in self._sharded.layouts:
            whole = Layout.replicated(value.spec.shape, self._devices)
            if value.parameter is not None:
                self._store(value, whole)
            else:
                self._sharded.layouts[value] = whole
        return self._sharded.layouts[value]

    def _follows(self, node: Node) -> bool:
        return self._strategies.inputs.get(node) is None and (node.notes.follows or node.operator.follows)

    def _place(self, node: Node) -> OperatorPlacement:
        if self._devices.size == 1:
            return self._place_whole(node)
        if node.operator.keeps_layouts:
            return self._place_kept(node)
        if node.operator.keeps_partial:
            return self._place_terms(node)
        if node.operator.updates:
            return self._place_update(node)
        if node.notes.like is not None:
            return self._place_sum(node, node.notes.like)
        # Of what all micro-batches make together, such as their mean loss, the gradient comes before it.
        if node.notes.origin in self._sharded.placements:
            return self._passed_through(node, node.notes.origin) or self._place_gradient(node, node.notes.origin)
        if self._follows(node):
            return self._place_following(node)
        return self._agreed.get(node) or self._placed_alone(node)

    def left_in(self, node: Node, placement: OperatorPlacement) -> tuple[Layout, ...]:
        wanted = self._strategies.outputs.get(node)
        if wanted is None or self._devices.size == 1:
            return placement.outputs
        return place_outputs(node.name, placement.outputs, wanted)

    def _passed_through(self, node: Node, origin: Node) -> OperatorPlacement | None:
        """Return the placement that keeps the terms of a parameter's gradient, where a linear operator allows it."""
        layout = self._own(node.inputs[0])
        of_parameter = len(node.inputs) == 1 and len(origin.inputs) == 1 and origin.inputs[0].parameter is not None
        if not node.operator.linear or not of_parameter or not layout.partial or layout.reduction != "sum":
            return None
        return OperatorPlacement((layout,), (layout,))

    def _place_gradient(self, node: Node, origin: Node) -> OperatorPlacement:
        """Return the placement of a part of a gradient: where ``origin`` had its inputs.

        Dims that only its outputs have are cut as the next node takes them, so nothing is whole that is used in parts.
        """
        operands = operands_of(node)
        given = [self._as_origin(origin, value) for value in node.inputs]
        new = operands.equation.own_to_outputs
        return place_by_inputs(operands, given, wanted=[self._as_taken(value) for value in node.outputs] if new else ())

    @cached_property
    def takers(self) -> Mapping[Value, Node]:
        """The first node that takes each value made in a gradient."""
        return takers_of_gradients(self._sharded.graph)

    def _as_taken(self, value: Value) -> Layout | None:
        """Return the layout in which a part of a gradient, not yet placed, will be taken; None where nothing tells."""
        parameter, taker = self._sharded.graph.gradients.get(value), self.takers.get(value)
        if parameter is not None:
            return self._own(parameter)
        if taker is None or taker.operator.keeps_layouts:
            return None
        if taker.notes.like is not None:
            return self._own(taker.notes.like)
        origin = taker.notes.origin
        if origin not in self._sharded.placements:
            return None
        if value in self._sharded.graph.cotangents.get(origin, ()):
            return self._as_origin(origin, value)
        placed = [one.node is None or one in self._sharded.layouts for one in taker.inputs]
        pairs = zip(taker.inputs, placed, strict=True)
        given = [self._as_origin(origin, one) if is_placed else None for one, is_placed in pairs]
        wanted = [self._as_taken(one) for one in taker.outputs]
        if not any([*given, *wanted]):
            return None
        return place_by_inputs(operands_of(taker), given, wanted=wanted).inputs[taker.inputs.index(value)]

    def _place_following(self, node: Node) -> OperatorPlacement:
        """Return the placement where the inputs are: after a gradient, where their parameters are stored.

        So a gradient is summed to the part that a rank updates, whatever is done to it before.
        """
        landed = [self._landed(value) for value in node.inputs]
        kept = all(value.parameter is not None or value.constant is not None for value in node.inputs)
        if not any(landed) and not (kept and node.notes.follows and not node.operator.follows):
            return place_by_inputs(operands_of(node), [self._as_used(value) for value in node.inputs])
        given = [layout or self._own(value) for layout, value in zip(landed, node.inputs, strict=True)]
        self._after_gradient.update(node.outputs)
        return place_on_shards(operands_of(node), given)

    def _landed(self, value: Value) -> Layout | None:
        """Return the layout in which a finished gradient, or what was made of one, is worked on; None for others."""
        parameter = self._sharded.graph.gradients.get(value)
        if parameter is not None:
            return self._own(parameter)
        return self._own(value) if value in self._after_gradient else None

    def _place_sum(self, node: Node, like: Value) -> OperatorPlacement:
        """Return where gradients of one value are added: as they are where all are partial alike, to reduce once."""
        terms = [self._own(value) for value in node.inputs]
        layout = terms[0]
        if not layout.partial or layout.reduction != "sum" or any(term.canonical != layout.canonical for term in terms):
            layout = self._own(like).reduced()
        return OperatorPlacement((layout,) * len(node.inputs), (layout,))

    def _place_whole(self, node: Node) -> OperatorPlacement:
        """Return the placement on one device, where no rule is needed: collectives placed by hand have none."""
        inputs = tuple(self._own(value) for value in node.inputs)
        return OperatorPlacement(
            inputs, tuple(Layout.replicated(value.spec.shape, self._devices) for value in node.outputs)
        )

    def _place_kept(self, node: Node) -> OperatorPlacement:
        """Return the placement where the inputs are, sums completed."""
        inputs = tuple(self._as_used(value).reduced() for value in node.inputs)
        return OperatorPlacement(inputs, inputs[: len(node.outputs)])

    def _placed_alone(self, node: Node) -> OperatorPlacement:
        operands = operands_of(node)
        of_weights = [value.constant is not None or value in self._weights for value in node.inputs]
        if not any(of_weights):
            return place_by_batch(operands, self._devices)
        weights = [index for index, found in enumerate(of_weights) if found]
        return place_with_weights(operands, [self._as_used(value) for value in node.inputs], weights, self._devices)

    def _as_used(self, value: Value) -> Layout:
        """Return the layout of a value; of a parameter, the one in which operators use it."""
        own = self._own(value)
        return self._sharded.used.get(value.name, own) if value.parameter is not None else own

    def _as_origin(self, origin: Node, value: Value) -> Layout:
        """Return the layout in which the node ``origin`` had a value, or the gradient of one of its outputs."""
        placement = self._sharded.placements[origin]
        if value in origin.inputs:
            return placement.inputs[origin.inputs.index(value)]
        if value in origin.outputs:
            return placement.outputs[origin.outputs.index(value)]
        cotangents = self._sharded.graph.cotangents.get(origin, ())
        if value in cotangents:
            return placement.outputs[cotangents.index(value)]
        if value.constant is not None:
            devices = (placement.inputs or placement.outputs)[0].devices
            return Layout.replicated(value.spec.shape, devices)
        return self._as_used(value)

    def _place_terms(self, node: Node) -> OperatorPlacement:
        """Return the placement of a sum over steps: a parameter that is laid out, terms and all, as what is added."""
        total, layout = node.inputs[0], self._own(node.inputs[1])
        held = self._held.get(total.name)
        if held is not None and held.devices.size == layout.devices.size and held.canonical != layout.canonical:
            raise StrategyError(
                f"{total.name}: a gradient laid out as {layout} cannot be added to one laid out as {held}; give all "
                "batches one shape, for example with drop_remainder=True"
            )
        if total not in self._sharded.layouts:
            self._sharded.used[total.name] = self._sharded.stored[total.name] = layout
            self._sharded.layouts[total] = layout
        return OperatorPlacement((layout, layout), ())

    def _place_update(self, node: Node) -> OperatorPlacement:
        first = node.inputs[node.operator.updates[0]]
        strategy = self._strategies.inputs.get(node)
        if first not in self._sharded.layouts and strategy is not None:
            self._store(first, place_by_strategy(operands_of(node), strategy, self._devices).inputs[0])
        elif first not in self._sharded.layouts and node.operator.laid_out_as is not None:
            self._store(first, self._own(node.inputs[node.operator.laid_out_as]).reduced())
        layout = self._own(first)
        for index in node.operator.updates:
            value = node.inputs[index]
            if value not in self._sharded.layouts:
                self._sharded.used[value.name] = self._sharded.used.get(first.name, layout)
                self._sharded.stored[value.name] = self._sharded.layouts[value] = layout
        for value in node.inputs:
            self._own(value)
        shapes = [value.spec.shape for value in node.inputs]
        taken = {shape: Layout.replicated(shape, layout.devices) for shape in set(shapes)} | {first.spec.shape: layout}
        return OperatorPlacement(tuple(taken[shape] for shape in shapes), ())


def takers_of_gradients(graph: Graph) -> dict[Value, Node]:
    """Return the first node that takes each value made in a gradient; what leaves the graph has none: it is whole."""
    takers = {value: node for node in reversed(graph.nodes) if not node.is_forward for value in node.inputs}
    for value in graph.outputs:
        takers.pop(value, None)
    return takers
