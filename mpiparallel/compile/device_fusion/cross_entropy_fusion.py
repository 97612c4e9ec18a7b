"""Fusion of a cross entropy with its gradient: both come from one read of the logits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mpiparallel.dtype import is_narrow
from mpiparallel.graph.execution.joined_cross_entropy import CrossEntropyNodes, JoinedCrossEntropy
from mpiparallel.graph.graph import Graph, Node, Value

_CROSS_ENTROPY: Final = "SparseSoftmaxCrossEntropyWithLogits"
_SINGLE: Final = np.dtype(np.float32)


def fuse_cross_entropy(graph: Graph) -> None:
    """Join each mean cross entropy to its gradient, to the factor of that, and to the casts of 16 bits around both.

    For a device that has a kernel for it. The joined node runs where the loss did. That is legal, though the gradient
    came later: it reads what the loss reads. Its factor is what the loss is multiplied by afterwards, such as a scale:
    made of parameters and constants, never of the loss itself. So what makes it can run before the loss. Where it
    cannot, the product with the factor stays as it is. Nodes that run under other conditions are not joined. For
    example, a stage of a pipeline has the loss in one of its actions, and the gradient in another.
    """
    fusion = _Fusion(graph)
    for node in graph.nodes:
        if node.operator.name == _CROSS_ENTROPY and not _is_gradient(node):
            fusion.join(node)
    graph.nodes = list(fusion.nodes())


class _Fusion:
    """What is put in place of the losses of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._places = {node: place for place, node in enumerate(graph.nodes)}
        self._lasting = {*graph.outputs, *(value for node in graph.nodes for value in node.notes.guards)}
        self._readers: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for value in dict.fromkeys(node.inputs):
                self._readers.setdefault(value, []).append(node)
        self._gone: set[Node] = set()
        self._made: dict[Node, list[Node]] = {}

    def join(self, loss: Node) -> None:
        """Join a loss to what can be."""
        twin = self._twin(loss)
        if twin is None:
            return
        found = self._with_casts(
            *self._with_factor(CrossEntropyNodes((loss, twin), loss, loss.inputs[0], twin.outputs[0]))
        )
        joined, before = found
        self._gone.update((*joined.nodes, *before))
        self._made[loss] = [*before, _joined_node(joined)]

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes of the graph, with those that have been made."""
        for node in self._graph.nodes:
            yield from self._made.get(node, ())
            if node not in self._gone:
                yield node

    def _twin(self, loss: Node) -> Node | None:
        """Return the gradient of the same logits and labels, which nothing overwrites before it."""
        for reader in self._readers[loss.inputs[0]]:
            is_twin = reader.operator.name == _CROSS_ENTROPY and _is_gradient(reader) and reader.inputs == loss.inputs
            if is_twin and self._can_join(loss, reader):
                return reader
        return None

    def _can_join(self, loss: Node, node: Node) -> bool:
        """Return whether a node runs where the loss does, after it, and reads there what it reads now."""
        return (
            node not in self._gone
            and _conditions(node) == _conditions(loss)
            and self._places[loss] < self._places[node]
            and not self._overwrites(loss, node, node)
        )

    def _overwrites(self, first: Node, last: Node, reader: Node) -> bool:
        """Return whether anything between two nodes overwrites what a reader reads."""
        read = set(map(_base, reader.inputs))
        between = self._graph.nodes[self._places[first] : self._places[last]]
        return any(_base(one.inputs[index]) in read for one in between for index in one.operator.updates)

    def _with_factor(self, joined: CrossEntropyNodes) -> tuple[CrossEntropyNodes, list[Node]]:
        """Return the nodes with the product of the gradient and a number, and what makes this number."""
        product = self._only_reader(joined, "Mul")
        if product is None:
            return joined, []
        factor = next((value for value in product.inputs if value is not joined.gradient), None)
        if factor is None or factor.spec.shape or factor.spec.dtype != joined.gradient.spec.dtype:
            return joined, []
        makers = self._makers(joined.loss, factor)
        if makers is None or self._overwrites(joined.loss, product, product):
            return joined, []
        nodes = (*joined.nodes, product)
        return replace(joined, nodes=nodes, gradient=product.outputs[0], factor=factor), makers

    def _makers(self, loss: Node, value: Value) -> list[Node] | None:
        """Return the nodes after the loss that make a number, in order; None where they cannot run before it."""
        found: set[Node] = set()
        wanted = [value]
        while wanted:
            node = wanted.pop().node
            if node is None or node in found or self._places.get(node, -1) < self._places[loss]:
                continue
            if node is loss or not _makes_numbers(node) or not self._can_join(loss, node):
                return None
            found.add(node)
            wanted += node.inputs
        return sorted(found, key=self._places.__getitem__)

    def _with_casts(self, joined: CrossEntropyNodes, before: list[Node]) -> tuple[CrossEntropyNodes, list[Node]]:
        """Return the nodes with a cast of logits of 16 bits, and that of the gradient to 16 bits."""
        cast = self._only_reader(joined, "Cast")
        if cast is not None and _is_widening(cast.outputs[0], joined.gradient):
            joined = replace(joined, nodes=(*joined.nodes, cast), gradient=cast.outputs[0])
        made = joined.logits.node
        is_inner = joined.logits not in self._lasting and set(self._readers[joined.logits]) <= set(joined.nodes)
        if made is not None and made.operator.name == "Cast" and is_inner and self._is_wanted_here(made, joined):
            joined = replace(joined, nodes=(made, *joined.nodes), logits=made.inputs[0])
        return joined, before

    def _is_wanted_here(self, cast: Node, joined: CrossEntropyNodes) -> bool:
        """Return whether a cast widens logits of 16 bits, and can run where the loss does."""
        alike = _conditions(cast) == _conditions(joined.loss) and not self._overwrites(cast, joined.loss, cast)
        return alike and cast not in self._gone and _is_widening(cast.inputs[0], joined.logits)

    def _only_reader(self, joined: CrossEntropyNodes, name: str) -> Node | None:
        """Return what alone reads the gradient, if it has this name and can be joined."""
        readers = self._readers.get(joined.gradient, [])
        if len(readers) != 1 or joined.gradient in self._lasting or readers[0].operator.name != name:
            return None
        return readers[0] if self._can_join(joined.loss, readers[0]) else None


def _is_gradient(node: Node) -> bool:
    operator: Any = node.operator
    return bool(operator.is_grad)


def _conditions(node: Node) -> object:
    """Return what nodes must have in common to run together."""
    return node.notes.guards, node.notes.action, node.notes.micro_batch


def _base(value: Value) -> Value:
    """Return the value whose memory this one shows."""
    while value.node is not None and value.node.operator.is_view:
        value = value.node.inputs[0]
    return value


def _makes_numbers(node: Node) -> bool:
    """Return whether a node only computes 0-d values."""
    operator = node.operator
    is_pure = not operator.updates and not operator.is_random and operator.kind != "communication"
    return is_pure and all(not value.spec.shape for value in (*node.inputs, *node.outputs))


def _is_widening(narrow: Value, wide: Value) -> bool:
    return is_narrow(narrow.spec.dtype) and wide.spec.dtype == _SINGLE


def _joined_node(joined: CrossEntropyNodes) -> Node:
    """Return the node that gives the very values that the loss and the last of the others gave."""
    operator = JoinedCrossEntropy(joined)
    operator.scope = joined.loss.operator.scope
    node = Node(operator, joined.loss.name, joined.inputs, joined.outputs, joined.loss.notes, joined.nodes)
    for index, value in enumerate(node.outputs):
        value.node, value.index = node, index
    return node
