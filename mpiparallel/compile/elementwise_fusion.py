"""Fusion of element-wise operators: nodes of one local graph that pass over the same elements become one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.cost import ELEMENTWISE
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.kernel import expression_kernel, is_computable
from mpiparallel.graph.expression.term import Term, domain, inner_reductions, operand, widened
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Operator

_SMALLEST = 1 << 10
"""Elements below which a pass over memory costs next to nothing."""
_MOST_OPERANDS = 24
"""Operands of a fused kernel; a loop over more would run out of registers for their addresses."""


class FusedElementwise(Operator):
    """Several element-wise operators, computed in one pass; what only they read needs no memory.

    >>> FusedElementwise(["Mul", "Add", "Add"], (), ()).name
    'Mul+2 Add'
    """

    def __init__(self, names: Sequence[str], roots: Sequence[Term], reuses: tuple[int, ...]) -> None:
        counts = Counter(names)
        self._title = "+".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())
        self._roots = tuple(roots)
        self.reuses = reuses  # type: ignore[misc]

    @property
    def name(self) -> str:
        """The names of the operators, in order."""
        return self._title

    def kernel_names(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> tuple[str, ...]:
        return (self.name, ELEMENTWISE)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return expression_kernel(runtime, self._roots, inputs, outputs)


@dataclass(eq=False)
class _FusionGroup:
    """Nodes that run as one, where the last of them is."""

    nodes: list[Node]
    shape: tuple[int, ...]


def fuse_elementwise(graph: Graph, smallest: int | None = None) -> None:
    """Merge nodes that compute over one shape and can run at one point of the order.

    Only those of at least ``smallest`` elements, 1,024 by default. All other nodes keep their order, so all ranks'
    collectives do.
    """
    groups = _Grouping(graph, _SMALLEST if smallest is None else smallest).run()
    last = {group.nodes[-1]: group for group in groups}
    gone = {node for group in groups for node in group.nodes}
    needed = _read_elsewhere(graph, groups)
    alike: dict[Value, Value] = {}
    graph.nodes = [
        _fused(last[node], needed, alike) if node in last else node
        for node in graph.nodes
        if node in last or node not in gone
    ]
    for node in graph.nodes:
        node.inputs = tuple(alike.get(value, value) for value in node.inputs)
    graph.outputs = [alike.get(value, value) for value in graph.outputs]


def _read_elsewhere(graph: Graph, groups: Sequence[_FusionGroup]) -> set[Value]:
    """Return the values that something outside of the group that computes them reads."""
    group_of = {node: group for group in groups for node in group.nodes}
    needed = set(graph.outputs)
    for node in graph.nodes:
        own = group_of.get(node)
        for value in (*node.inputs, *node.notes.guards):
            if value.node is None or own is None or group_of.get(value.node) is not own:
                needed.add(value)
    return needed


class _Grouping:
    def __init__(self, graph: Graph, smallest: int) -> None:
        self._graph = graph
        self._smallest = smallest
        self._position = {node: position for position, node in enumerate(graph.nodes)}
        self._group_of: dict[Node, _FusionGroup] = {}
        self._updated: dict[Value, int] = {}
        self._readers: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for value in dict.fromkeys((*node.inputs, *node.notes.guards)):
                self._readers.setdefault(value, []).append(node)

    def run(self) -> list[_FusionGroup]:
        """Return the groups of more than one node."""
        for position, node in enumerate(self._graph.nodes):
            shape = self._domain(node)
            if shape is not None:
                self._join(node, shape)
            self._updated.update((node.inputs[index], position) for index in node.operator.updates)
        return [group for group in dict.fromkeys(self._group_of.values()) if len(group.nodes) > 1]

    def _domain(self, node: Node) -> tuple[int, ...] | None:
        """Return the shape over which a node computes; None for one that is not fused."""
        if node.operator.updates or node.operator.is_view or not node.outputs:
            return None
        terms = _node_terms(node, [operand(place, *_kind(value)) for place, value in enumerate(node.inputs)])
        if terms is None or not is_computable(terms):
            return None
        shape = domain(terms)
        return shape if prod(shape) >= self._smallest else None

    def _join(self, node: Node, shape: tuple[int, ...]) -> None:
        """Put a node in a group with those that compute its inputs, as many of them as can be."""
        joined = _FusionGroup([node], shape)
        for value in node.inputs:
            group = self._group_of.get(value.node) if value.node is not None else None
            if group is None or group.shape != shape or group.nodes[0].notes.guards != node.notes.guards:
                continue
            nodes = sorted({*joined.nodes, *group.nodes}, key=self._position.__getitem__)
            if len({one.notes.micro_batch for one in nodes} - {None}) > 1:
                # A sum over micro-batches at the end would keep the gradients of all of them until then.
                continue
            if self._can_wait(nodes, node) and _is_one_kernel(nodes):
                joined = _FusionGroup(nodes, shape)
        for one in joined.nodes:
            self._group_of[one] = joined

    def _can_wait(self, nodes: Sequence[Node], last: Node) -> bool:
        """Return whether all nodes can run where the last is: nobody reads them before, and what they read stays."""
        members, point = set(nodes), self._position[last]
        for node in nodes:
            if any(self._updated.get(value, -1) > self._position[node] for value in (*node.inputs, *node.notes.guards)):
                return False
            readers = (reader for value in node.outputs for reader in self._readers.get(value, ()))
            if any(self._position[reader] < point and reader not in members for reader in readers):
                return False
        return True


def _is_one_kernel(nodes: Sequence[Node]) -> bool:
    operands, terms = _terms(nodes)
    roots = [terms[value] for node in nodes for value in node.outputs]
    # Sums over other dims need all elements before anything can be made of them: nothing would stay in cache.
    last_dims = all(term.number[-1] == -1 and len(term.number) == -term.number[0] for term in inner_reductions(roots))
    return len(operands) <= _MOST_OPERANDS and last_dims and is_computable(roots)


def _kind(value: Value) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return value.spec.shape, value.spec.dtype


def _node_terms(node: Node, inputs: Sequence[Term]) -> list[Term] | None:
    """Return the outputs of a node as terms of its inputs, in their dtypes."""
    terms = node.operator.expression(*map(widened, inputs))
    if terms is None:
        return None
    return [term.astype(value.spec.dtype) for term, value in zip(terms, node.outputs, strict=True)]


def _terms(nodes: Sequence[Node]) -> tuple[list[Value], dict[Value, Term]]:
    """Return what the nodes read of others, and the term of each of their outputs."""
    operands: list[Value] = []
    terms: dict[Value, Term] = {}
    for node in nodes:
        for value in node.inputs:
            if value not in terms:
                terms[value] = operand(len(operands), *_kind(value))
                operands.append(value)
        terms.update(zip(node.outputs, _node_terms(node, [terms[value] for value in node.inputs]) or (), strict=True))
    return operands, terms


def _fused(group: _FusionGroup, needed: set[Value], alike: dict[Value, Value]) -> Node:
    """Return the node that stands for a group and has those of its outputs that others read, whole ones first.

    Where two outputs are the same, such as a cast to the dtype that there is, ``alike`` is told which stands for which.
    """
    operands, terms = _terms(group.nodes)
    first: dict[Term, Value] = {}
    for value in (value for node in group.nodes for value in node.outputs if value in needed):
        if first.setdefault(terms[value], value) is not value:
            alike[value] = first[terms[value]]
    outputs = list(first.values())
    outputs.sort(key=lambda value: terms[value].shape != group.shape)
    roots = [terms[value] for value in outputs]
    reuses = tuple(place for place, value in enumerate(operands) if value.spec.shape == group.shape)
    operator = FusedElementwise([node.operator.name for node in group.nodes], roots, reuses)
    last = group.nodes[-1]
    operator.scope = last.operator.scope
    node = Node(operator, last.name, tuple(operands), tuple(outputs), last.notes, tuple(group.nodes))
    for index, value in enumerate(outputs):
        value.node, value.index = node, index
    return node
