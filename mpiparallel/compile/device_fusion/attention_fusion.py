"""Fusion of attention: nodes that make the matrix of scores, and those of its gradient, become attention in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.graph.attention.blocked_attention import Attending, BlockedAttention, BlockedAttentionGrad
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.own_operators import Cast

_LOWERED = -1.0
"""The factor of ``1 - mask`` in BlockedAttention with which what is added to the scores is the mask itself, less 1: a
number that is added to all scores of a row changes no weight."""


def fuse_attention(graph: Graph) -> None:
    """Compute ``dropout(softmax(query @ key.T + mask)) @ value`` and its gradient without the matrix of scores.

    For a device that has kernels for it. The dropout is the same to the bit. What is read by anything else stays
    as it is, as does what computes with a mask whose gradient is wanted.
    """
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys((*node.inputs, *node.notes.guards)):
            readers.setdefault(value, []).append(node)
    softmaxes = [node for node in graph.nodes if node.operator.name == "Softmax"]
    replacement = _Replacement(graph)
    for softmax in softmaxes:
        match = _Matching(graph, readers, softmax).match()
        if match is not None:
            replacement.add(match)
    if softmaxes:
        graph.nodes = list(replacement.nodes())


@dataclass(frozen=True)
class _Gradient:
    """The nodes of the gradient; ``of_output`` is that of the attention, ``outputs`` those of query, key and value."""

    nodes: tuple[Node, ...]
    of_output: Value
    outputs: tuple[Value, Value, Value]


@dataclass(frozen=True)
class _Attention:
    """The nodes of attention, the last of which gives the output; its inputs, the dropout, and the gradient."""

    nodes: tuple[Node, ...]
    query: Value
    key: Value
    value: Value
    mask: Value
    dropout: Any
    gradient: _Gradient | None

    @property
    def last(self) -> Node:
        """The product that gives the output."""
        return self.nodes[-1]


class _MismatchError(Exception):
    """The nodes are not those of attention."""


class _Matching:
    """Looks for attention around a softmax."""

    def __init__(self, graph: Graph, readers: Mapping[Value, list[Node]], softmax: Node) -> None:
        self._graph = graph
        self._readers = readers
        self._softmax = softmax

    def match(self) -> _Attention | None:
        """Return the nodes; None where they are others."""
        try:
            found = self._attention()
            self._check_readers(found)
        except _MismatchError:
            return None
        return found

    def _attention(self) -> _Attention:
        scores, added, before = self._scores()
        (weights, dropout, value_product), after = self._weighing()
        nodes = (scores, *before, self._softmax, *after, value_product)
        query, key = scores.inputs
        gradient = self._gradient(scores, weights, dropout, value_product)
        mask = self._mask(added, self._softmax.outputs[0].spec.shape)
        operator = None if dropout is None else dropout.operator
        return _Attention(nodes, query, key, value_product.inputs[1], mask, operator, gradient)

    def _scores(self) -> tuple[Node, Value, list[Node]]:
        """Return the product of query and key, what is added to it, and the nodes from there to the softmax."""
        rank = len(self._softmax.outputs[0].spec.shape)
        _require(rank == 4 and getattr(self._softmax.operator, "axis", 0) in (-1, 3))
        source, casts = _before_casts(self._softmax.inputs[0])
        add = _made_by(source, "Add")
        for scored, added in (add.inputs, add.inputs[::-1]):
            product, others = _before_casts(scored)
            if product.node is not None and _is_product(product.node, False, True):
                _require(product.spec.shape == add.outputs[0].spec.shape)
                return product.node, added, [*others, add, *casts]
        raise _MismatchError

    def _mask(self, added: Value, shape: tuple[int, ...]) -> Value:
        own = added.spec.shape
        _require(len(own) == 4 and own[2:] == shape[2:] and all(n in (1, m) for n, m in zip(own, shape, strict=True)))
        return added

    def _weighing(self) -> tuple[tuple[Value, Node | None, Node], list[Node]]:
        """Return the weights, the dropout, the product with the values, and the nodes from the softmax to there."""
        value, nodes = self._softmax.outputs[0], list[Node]()
        dropout: Node | None = None
        while True:
            readers = [one for one in self._readers.get(value, ()) if one.operator.name in ("Cast", "Dropout")]
            if not readers:
                break
            node = self._only(readers)
            if node.operator.name == "Dropout":
                _require(dropout is None)
                dropout = node
            nodes.append(node)
            value = node.outputs[0]
        products = [one for one in self._readers.get(value, ()) if _is_product(one, False, False)]
        return (value, dropout, self._only(one for one in products if one.inputs[0] is value)), nodes

    def _gradient(self, scores: Node, weights: Value, dropout: Node | None, product: Node) -> _Gradient | None:
        """Return the nodes of the gradient; None where none is computed."""
        products = [one for one in self._readers[weights] if _is_product(one, True, False) and one.inputs[0] is weights]
        if not products:
            return None
        of_value = self._only(products)
        slope = of_value.inputs[1]
        of_weights = self._only(
            one for one in self._readers[slope] if _is_product(one, False, True) and one.inputs[1] is product.inputs[1]
        )
        nodes, value = [of_value, of_weights], of_weights.outputs[0]
        if dropout is not None:
            undropped = self._reader_after_casts(value, nodes)
            _require(undropped.operator.name == "DropoutGrad" and undropped.inputs[1] is dropout.outputs[1])
            value = undropped.outputs[0]
        softmax = self._reader_after_casts(value, nodes)
        _require(softmax.operator.name == "SoftmaxGrad" and softmax.inputs[0] is self._softmax.outputs[0])
        of_scores, casts = self._after_casts(softmax.outputs[0])
        nodes += casts
        query, key = scores.inputs
        readers = self._readers.get(of_scores, [])
        _require(len(readers) == 2)
        of_query = self._only(one for one in readers if _is_product(one, False, False) and one.inputs[1] is key)
        of_key = self._only(one for one in readers if _is_product(one, True, False) and one.inputs[1] is query)
        _require(all(one.inputs[0] is of_scores for one in (of_query, of_key)))
        outputs = tuple(one.outputs[0] for one in (of_query, of_key, of_value))
        return _Gradient((*nodes, of_query, of_key), slope, outputs)  # type: ignore[arg-type]

    def _reader_after_casts(self, value: Value, nodes: list[Node]) -> Node:
        """Return the only reader of a value that is no cast; append it, and the casts before it, to ``nodes``."""
        value, casts = self._after_casts(value)
        reader = self._only(self._readers.get(value, ()))
        nodes += [*casts, reader]
        return reader

    def _after_casts(self, value: Value) -> tuple[Value, list[Node]]:
        casts = []
        while [one.operator.name for one in self._readers.get(value, ())] == ["Cast"]:
            casts += self._readers[value]
            value = casts[-1].outputs[0]
        return value, casts

    @staticmethod
    def _only(nodes: Iterable[Node]) -> Node:
        found = list(nodes)
        _require(len(found) == 1)
        return found[0]

    def _check_readers(self, found: _Attention) -> None:
        """Require that what is not computed any more is read by nothing else, and that all runs under one condition."""
        backward = found.gradient.nodes if found.gradient else ()
        gone = {*found.nodes, *backward}
        kept = {found.last.outputs[0], *(found.gradient.outputs if found.gradient else ())}
        outputs = set(self._graph.outputs)
        for node in gone:
            for value in node.outputs:
                is_inside = gone.issuperset(self._readers.get(value, ())) and value not in outputs
                _require(value in kept or is_inside)
        for nodes in (found.nodes, backward):
            _require(len({(one.notes.guards, one.notes.action, one.notes.micro_batch) for one in nodes}) <= 1)
        dtypes = {value.spec.dtype for value in (found.query, found.key, found.value, found.last.outputs[0])}
        _require(len(dtypes) == 1)


def _require(holds: bool) -> None:
    if not holds:
        raise _MismatchError


def _made_by(value: Value, name: str) -> Node:
    if value.node is None or value.node.operator.name != name:
        raise _MismatchError
    return value.node


def _before_casts(value: Value) -> tuple[Value, list[Node]]:
    """Return what is cast to ``value``, and the casts."""
    casts: list[Node] = []
    while value.node is not None and value.node.operator.name == "Cast":
        casts.insert(0, value.node)
        (value,) = value.node.inputs
    return value, casts


def _is_product(node: Node, *transposed: bool) -> bool:
    """Return whether a node multiplies the last two dims of tensors of equal leading dims, transposed like this."""
    if node.operator.name != "BatchMatMul":
        return False
    operator: Any = node.operator
    first, second = (value.spec.shape for value in node.inputs)
    return (operator.transpose_a, operator.transpose_b) == transposed and first[:-2] == second[:-2]


class _Replacement:
    """Attention is put where its last node is, and its gradient where the first node of that is."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._places = {node: place for place, node in enumerate(graph.nodes)}
        self._gone: set[Node] = set()
        self._made: dict[Node, list[Node]] = {}

    def add(self, match: _Attention) -> None:
        """Make the nodes for one match."""
        mask, forward = _forward(match, match.last.inputs[0].spec.shape)
        self._made[match.last] = [mask, forward]
        self._gone.update(match.nodes)
        if match.gradient is not None:
            first = min(match.gradient.nodes, key=self._places.__getitem__)
            self._made[first] = [_backward(self._graph, match, match.gradient, mask.outputs[0], forward)]
            self._gone.update(match.gradient.nodes)

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes of the graph, with those that have been made."""
        for node in self._graph.nodes:
            yield from self._made.get(node, ())
            if node not in self._gone:
                yield node


def _forward(match: _Attention, shape: tuple[int, ...]) -> tuple[Node, Node]:
    """Return the nodes that cast the mask and attend; the latter gives the very value that the last product gave."""
    query, last = match.query, match.last
    mask = Node(Cast().configured(dtype=query.spec.dtype), f"{last.name}/mask", (match.mask,), (), last.notes)
    mask.outputs = (Value(TensorSpec(match.mask.spec.shape, query.spec.dtype), f"{mask.name}:0", mask),)
    operator = _attending(BlockedAttention, match, shape)
    inputs = (query, match.key, match.value, mask.outputs[0])
    node = Node(operator, f"{last.name}/BlockedAttention", inputs, (), last.notes)
    specs = operator.infer(*(value.spec for value in inputs))
    others = (Value(spec, f"{node.name}:{index}", node, index) for index, spec in enumerate(specs) if index)
    node.outputs = (_moved(last.outputs[0], node, 0), *others)
    return mask, node


def _backward(graph: Graph, match: _Attention, gradient: _Gradient, mask: Value, forward: Node) -> Node:
    """Return the node that gives the very values that the three products of the gradient gave."""
    operator = _attending(BlockedAttentionGrad, match, match.last.inputs[0].spec.shape)
    sums = forward.outputs[1].spec
    nothing = graph.add_constant(np.zeros(sums.shape, sums.dtype))
    inputs = (match.query, match.key, match.value, mask, *forward.outputs, gradient.of_output, nothing)
    notes = gradient.nodes[0].notes
    node = Node(operator, f"{forward.name}Grad", inputs, (), notes)
    node.outputs = tuple(_moved(value, node, index) for index, value in enumerate(gradient.outputs))
    return node


def _moved(value: Value, node: Node, index: int) -> Value:
    """Let a value be the output of another node: who reads it need not know."""
    value.node, value.index = node, index
    return value


def _attending(kind: type[Attending], match: _Attention, shape: tuple[int, ...]) -> Operator:
    """Return the operator: it draws what the dropout drew."""
    dropout = match.dropout
    if dropout is None:
        operator = kind(masked=_LOWERED).configured(part=Part.whole(shape))
        operator.scope = match.last.operator.scope
    else:
        operator = kind(dropout.keep_prob, masked=_LOWERED).configured(part=dropout.part, seeds=dropout.seeds)
        operator.scope = dropout.scope
    return operator
