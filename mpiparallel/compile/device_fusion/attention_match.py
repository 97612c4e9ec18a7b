"""The nodes of attention that makes the matrix of scores, and of its gradient: how they are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mpiparallel.compile.device_fusion.known_masks import adds_nothing, first_of_causal, known_array, made_of_constants
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Value


@dataclass(frozen=True)
class AttentionGradient:
    """The nodes of the gradient; ``of_output`` is that of the attention, ``outputs`` those of query, key and value."""

    nodes: tuple[Node, ...]
    of_output: Value
    outputs: tuple[Value, Value, Value]


@dataclass(frozen=True)
class Attention:
    """The nodes of attention, the last of which gives the output; its inputs, the dropout, and the gradient.

    ``scale`` is the factor of the scores. ``mask`` is None where none is read; where ``first_query`` is the place of
    the first query, attention is causal. What follows from ``constants`` was found out here.
    """

    nodes: tuple[Node, ...]
    query: Value
    key: Value
    value: Value
    scale: float
    mask: Value | None
    first_query: int | None
    constants: tuple[Node, ...]
    dropout: Any
    gradient: AttentionGradient | None

    @property
    def last(self) -> Node:
        """The product that gives the output."""
        return self.nodes[-1]


class _MismatchError(Exception):
    """The nodes are not those of attention."""


class AttentionMatching:
    """Looks for attention around a softmax."""

    def __init__(self, graph: Graph, readers: Mapping[Value, list[Node]], softmax: Node) -> None:
        self._graph = graph
        self._readers = readers
        self._softmax = softmax

    def match(self) -> Attention | None:
        """Return the nodes; None where they are others."""
        try:
            found = self._attention()
            self._check_readers(found)
        except _MismatchError:
            return None
        return found

    def _attention(self) -> Attention:
        scores, scale, added, before = self._scores()
        (weights, dropout, value_product), after = self._weighing()
        nodes = (scores, *before, self._softmax, *after, value_product)
        query, key = scores.inputs
        gradient = self._gradient(scores, scale, weights, dropout, value_product)
        operator = None if dropout is None else dropout.operator
        mask, first_query = self._mask(added, self._softmax.outputs[0].spec.shape, operator)
        constants = () if added is None else tuple(made_of_constants(added) or ())
        inputs = query, key, value_product.inputs[1]
        return Attention(nodes, *inputs, scale, mask, first_query, constants, operator, gradient)

    def _scores(self) -> tuple[Node, float, Value | None, list[Node]]:
        """Return the product of query and key, its factor, what is added, and the nodes from there to the softmax."""
        rank = len(self._softmax.outputs[0].spec.shape)
        _require(rank == 4 and getattr(self._softmax.operator, "axis", 0) in (-1, 3))
        source, casts = _before_casts(self._softmax.inputs[0])
        found = _scaled_product(source)
        if found is not None:
            product, factor, others = found
            return product, factor, None, [*others, *casts]
        add = _made_by(source, "Add")
        for scored, added in (add.inputs, add.inputs[::-1]):
            found = _scaled_product(scored)
            if found is not None:
                product, factor, others = found
                _require(product.outputs[0].spec.shape == add.outputs[0].spec.shape)
                return product, factor, added, [*others, add, *casts]
        raise _MismatchError

    def _mask(self, added: Value | None, shape: tuple[int, ...], dropout: Any) -> tuple[Value | None, int | None]:
        """Return the mask that must be read, and the place of the first query where attention is causal instead."""
        if added is None:
            return None, None
        own = added.spec.shape
        own = (*(1,) * (4 - len(own)), *own)
        _require(len(own) == 4 and own[2:] == shape[2:] and all(n in (1, m) for n, m in zip(own, shape, strict=True)))
        known = known_array(added)
        if known is not None:
            if adds_nothing(known):
                return None, None
            first = first_of_causal(known)
            if first is not None and (dropout is None or dropout.part.box.start[2] == first):
                return None, first
            if len(added.spec.shape) < 4:
                return self._graph.add_constant(known.reshape(own)), None
        _require(len(added.spec.shape) == 4)
        return added, None

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

    def _gradient(
        self, scores: Node, scale: float, weights: Value, dropout: Node | None, product: Node
    ) -> AttentionGradient | None:
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
        of_scores = self._of_product(softmax.outputs[0], scale, nodes)
        query, key = scores.inputs
        readers = self._readers.get(of_scores, [])
        _require(len(readers) == 2)
        of_query = self._only(one for one in readers if _is_product(one, False, False) and one.inputs[1] is key)
        of_key = self._only(one for one in readers if _is_product(one, True, False) and one.inputs[1] is query)
        _require(all(one.inputs[0] is of_scores for one in (of_query, of_key)))
        outputs = tuple(one.outputs[0] for one in (of_query, of_key, of_value))
        return AttentionGradient((*nodes, of_query, of_key), slope, outputs)  # type: ignore[arg-type]

    def _of_product(self, value: Value, scale: float, nodes: list[Node]) -> Value:
        """Return the gradient of the product from that of the scores; append what is between them to ``nodes``."""
        value, casts = self._after_casts(value)
        nodes += casts
        if scale == 1.0 and len(self._readers.get(value, ())) != 1:
            return value
        scaling = self._only(self._readers.get(value, ()))
        found = _factor_of(scaling)
        _require(found is not None and found[0] is value and found[1] == scale)
        value, casts = self._after_casts(scaling.outputs[0])
        nodes += [scaling, *casts]
        return value

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

    def _check_readers(self, found: Attention) -> None:
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


def _scaled_product(value: Value) -> tuple[Node, float, list[Node]] | None:
    """Return the product of query and key that a value is, its factor, and the nodes between; None for others."""
    value, nodes = _before_casts(value)
    found = None if value.node is None else _factor_of(value.node)
    factor = 1.0
    if found is not None and value.node is not None:
        nodes.insert(0, value.node)
        scaled, factor = found
        value, casts = _before_casts(scaled)
        nodes = [*casts, *nodes]
    is_found = value.node is not None and _is_product(value.node, False, True)
    return (value.node, factor, nodes) if is_found and value.node is not None else None


def _factor_of(node: Node) -> tuple[Value, float] | None:
    """Return what a node multiplies by one known number, and the number; None where it does something else."""
    pairs = {"Mul": (node.inputs, node.inputs[::-1]), "Div": (node.inputs,), "RealDiv": (node.inputs,)}
    for value, other in pairs.get(node.operator.name, ()):
        number = known_array(other) if other.spec.shape == () else None
        if number is not None and number != 0:
            return value, float(number) if node.operator.name == "Mul" else 1.0 / float(number)
    return None
