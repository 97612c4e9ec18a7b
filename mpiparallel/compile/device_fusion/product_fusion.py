"""Fusion of products: what is added to one, GELU of it, and the sums that a bias's gradient is, come with the product.

For a device whose library of products does that before it stores them, so that nothing is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import ml_dtypes
import numpy as np

from mpiparallel.graph.execution.joined_product import JoinedProduct, JoinedValues
from mpiparallel.graph.expression.composed_functions import COMPOSED_FUNCTIONS
from mpiparallel.graph.expression.term import Term, operand, uncast, widened
from mpiparallel.graph.graph import Graph, Node, Value

_PRODUCTS: Final = ("MatMul", "BatchMatMul")
_ADDING: Final = ("AssignAdd", "AddTerms")
_SINGLE: Final = np.dtype(np.float32)
_DTYPES: Final = (_SINGLE, np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_EIGHT: Final = 8
"""Columns of which the library keeps multiples of what GELU is given."""
_GELU: Final = next(row for row in COMPOSED_FUNCTIONS if row.name == "GeLU")


def fuse_products(graph: Graph) -> None:
    """Join to each product what can be computed with it, where the last of these nodes is.

    GELU only in its tanh form, and numbers of 32 or 16 bits. All other nodes keep their order.
    """
    joined = _Joins(graph)
    for node in graph.nodes:
        if node.operator.name in _PRODUCTS:
            joined.grow(node)
    graph.nodes = list(joined.nodes())


class _Joins:
    """The products of a graph with what is joined to each."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._places = {node: place for place, node in enumerate(graph.nodes)}
        self._lasting = set(graph.outputs)
        self._readers: dict[Value, list[Node]] = {}
        self._updates: list[tuple[Node, Value]] = []
        for node in graph.nodes:
            self._lasting.update(node.notes.guards)
            self._updates += [(node, node.inputs[index]) for index in node.operator.updates]
            for value in dict.fromkeys(node.inputs):
                self._readers.setdefault(value, []).append(node)
        self._gone: set[Node] = set()
        self._made: dict[Node, Node] = {}

    def grow(self, product: Node) -> None:
        """Join to a product what can be."""
        output = product.outputs[0]
        if output.spec.dtype not in _DTYPES or not output.spec.size or product in self._gone:
            return
        if any(value.spec.dtype != output.spec.dtype for value in product.inputs):
            return
        chain, values = [product], JoinedValues(output)
        while (step := self._next(chain, values)) is not None:
            chain.append(step[0])
            values = step[1]
        place = product if self._is_early(chain) else chain[-1]
        if not values.gelu and values.added is None and values.bias is None:
            found = self._sums(chain, values, self._places[place])
            if found is not None:
                chain.append(found[0])
                values = found[1]
        if len(chain) > 1:
            self._join(chain, values, place)

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes of the graph, with those that have been made."""
        for node in self._graph.nodes:
            if node in self._made:
                yield self._made[node]
            elif node not in self._gone:
                yield node

    def _next(self, chain: Sequence[Node], values: JoinedValues) -> tuple[Node, JoinedValues] | None:
        """Return the node that is joined next, and what it is to the product."""
        if values.gelu or values.slopes_at is not None or values.output.node is None:
            return None
        for reader in self._readers.get(values.output, ()):
            slopes = _with_slopes(reader, values) if len(chain) == 1 else None
            found = slopes or _with_gelu(chain, reader, values) or _with_sum(reader, values) or _widened(reader, values)
            if found is None or not self._can_join(chain, reader):
                continue
            is_kept = values.output in self._lasting or self._readers[values.output] != [reader]
            if not is_kept:
                return reader, replace(found, before=None)
            if found.before is not None:
                return reader, found
        return None

    def _can_join(self, chain: Sequence[Node], last: Node) -> bool:
        """Return whether all nodes can run together, where the first is or else the last."""
        if last in self._gone or any(_conditions(node) != _conditions(chain[0]) for node in (*chain, last)):
            return False
        return self._is_early([*chain, last]) or self._can_wait(chain, last)

    def _is_early(self, chain: Sequence[Node]) -> bool:
        """Return whether all nodes can run where the first is: what they read is there, and not overwritten later."""
        first, inner = self._places[chain[0]], _given_by(chain)
        read = [value for node in chain for value in node.inputs if value not in inner]
        if any(value.node is not None and self._places[value.node] > first for value in read):
            return False
        written = {node.inputs[index] for node in chain for index in node.operator.updates}
        between = (reader for value in written for reader in self._readers[value] if reader not in chain)
        last = self._places[chain[-1]]
        return not self._overwrites(chain, first, last) and not any(first < self._places[one] < last for one in between)

    def _can_wait(self, chain: Sequence[Node], last: Node) -> bool:
        """Return whether all nodes can run where the last is: nobody reads them before, nothing is overwritten."""
        first, point = self._places[chain[0]], self._places[last]
        readers = (reader for value in _given_by(chain) for reader in self._readers.get(value, ()))
        is_awaited = any(self._places[reader] < point and reader not in chain for reader in readers)
        return not is_awaited and not self._overwrites(chain, first, point)

    def _overwrites(self, chain: Sequence[Node], first: int, last: int) -> bool:
        """Return whether a node between two places overwrites what the chain reads."""
        read = {_base(value) for node in chain for value in node.inputs}
        return any(
            first < self._places[node] < last and _base(value) in read
            for node, value in self._updates
            if node not in chain
        )

    def _sums(self, chain: Sequence[Node], values: JoinedValues, point: int) -> tuple[Node, JoinedValues] | None:
        """Return the node that sums the rows of the output or of a factor, which comes with the product."""
        for value, name in _summed(chain[0], values):
            for reader in self._readers.get(value, ()):
                if reader in self._gone or not _sums_rows(reader) or _conditions(reader) != _conditions(chain[0]):
                    continue
                place, sums = self._places[reader], reader.outputs[0]
                is_early = place < point
                readers = self._readers.get(sums, ())
                if is_early and (sums in self._lasting or any(self._places[one] < point for one in readers)):
                    continue
                if not self._overwrites([reader], min(place, point), max(place, point)):
                    return reader, replace(values, sums=sums, sums_of=name)
        return None

    def _join(self, chain: Sequence[Node], values: JoinedValues, place: Node) -> None:
        inner = _given_by(chain)
        inputs = tuple(dict.fromkeys(value for node in chain for value in node.inputs if value not in inner))
        given = (values.output, values.before, values.sums)
        outputs = tuple(value for value in given if value is not None and value not in inputs)
        operator = JoinedProduct(chain, values, inputs, outputs)
        operator.scope = chain[-1].operator.scope
        made = Node(operator, chain[-1].name, inputs, outputs, place.notes, tuple(chain))
        for index, value in enumerate(outputs):
            value.node, value.index = made, index
        self._places[made] = self._places[place]
        self._gone.update(chain)
        self._made[place] = made


def _given_by(chain: Sequence[Node]) -> set[Value]:
    return {value for node in chain for value in node.outputs}


def _base(value: Value) -> Value:
    """Return the value whose memory this one shows."""
    while value.node is not None and value.node.operator.is_view:
        value = value.node.inputs[0]
    return value


def _conditions(node: Node) -> object:
    """Return what nodes must have in common to run together."""
    return node.notes.guards, node.notes.action, node.notes.micro_batch


def _with_sum(node: Node, values: JoinedValues) -> JoinedValues | None:
    """Return the values where a node adds something to the output: an array like it, or a number for each column."""
    if values.gelu or len(node.inputs) != 2 or node.inputs[0] is node.inputs[1]:
        return None
    place = node.inputs.index(values.output)
    other = node.inputs[1 - place]
    spec = values.output.spec
    if other.spec.dtype != spec.dtype:
        return None
    if node.operator.name in _ADDING:
        fits = place == 1 and other.spec == spec and values.added is None
        return replace(values, added=other, output=other) if fits else None
    term = _only_term(node)
    if term is None or node.outputs[0].spec != spec or uncast(term).function != "add":
        return None
    if any(one.function != "input" for one in map(uncast, uncast(term).operands)):
        return None
    found = replace(values, output=node.outputs[0])
    if other.spec.shape == spec.shape:
        return replace(found, added=other) if values.added is None else None
    shape = next(uncast(one).shape for one in uncast(term).operands if uncast(one).number == 1 - place)
    is_row = shape[-1:] == spec.shape[-1:] and other.spec.size == spec.shape[-1]
    return replace(found, bias=other) if is_row and values.bias is None else None


def _widened(node: Node, values: JoinedValues) -> JoinedValues | None:
    """Return the values where a node makes float32 of an output of 16 bits: so the sums are before they are stored."""
    if node.operator.name != "Cast" or values.output.spec.dtype == _SINGLE or node.outputs[0].spec.dtype != _SINGLE:
        return None
    return replace(values, output=node.outputs[0]) if values.added is None and values.bias is None else None


def _with_gelu(chain: Sequence[Node], node: Node, values: JoinedValues) -> JoinedValues | None:
    """Return the values where a node is GELU of the output, which is kept."""
    spec = values.output.spec
    term = _only_term(node)
    if term is None or _GELU.terms is None or node.inputs != (values.output,) or spec.shape[-1] % _EIGHT:
        return None
    if spec.dtype != chain[0].inputs[0].spec.dtype:
        return None
    wanted = _GELU.terms(widened(operand(0, spec.shape, spec.dtype))).astype(spec.dtype)
    if not _alike(term, wanted):
        return None
    return replace(values, gelu=True, before=values.output, output=node.outputs[0])


def _with_slopes(node: Node, values: JoinedValues) -> JoinedValues | None:
    """Return the values where a node is the gradient of GELU, and the output what it is multiplied by."""
    spec = values.output.spec
    slope = _GELU.gradient
    term = _only_term(node)
    if term is None or slope is None or slope.terms is None or node.inputs[0] is not values.output:
        return None
    if (
        len(node.inputs) != 2
        or node.inputs[1].spec != spec
        or node.inputs[1] is values.output
        or spec.shape[-1] % _EIGHT
    ):
        return None
    given = (widened(operand(place, spec.shape, spec.dtype)) for place in range(2))
    if not _alike(term, slope.terms(*given).astype(spec.dtype)):
        return None
    return replace(values, slopes_at=node.inputs[1], output=node.outputs[0])


def _summed(product: Node, values: JoinedValues) -> Iterator[tuple[Value, str]]:
    """Yield the values whose rows the library can sum with this product."""
    x, y = product.inputs
    if values.slopes_at is not None:
        if len(y.spec.shape) == 2:
            yield values.output, "output"
        return
    if len(x.spec.shape) + len(y.spec.shape) > 4:
        return
    operator = product.operator
    # What element-wise operators compute they sum in the same pass.
    if getattr(operator, "transpose_a", False) and not _is_elementwise(x):
        yield x, "x"
    if not getattr(operator, "transpose_b", False) and not _is_elementwise(y):
        yield y, "y"


def _is_elementwise(value: Value) -> bool:
    return value.node is not None and _only_term(value.node) is not None


def _sums_rows(node: Node) -> bool:
    """Return whether a node adds up all rows of what it reads, in its dtype."""
    term = _only_term(node)
    if term is None or len(node.inputs) != 1 or node.outputs[0].spec.dtype != node.inputs[0].spec.dtype:
        return False
    total = uncast(term)
    dims = tuple(range(-len(node.inputs[0].spec.shape), -1))
    return total.function == "sum" and total.number == dims and uncast(total.operands[0]).function == "input"


def _only_term(node: Node) -> Term | None:
    """Return the output of a node as a term of its inputs."""
    if len(node.outputs) != 1 or node.operator.is_view:
        return None
    given = (widened(operand(place, one.spec.shape, one.spec.dtype)) for place, one in enumerate(node.inputs))
    terms = node.operator.expression(*given)
    return None if terms is None else terms[0].astype(node.outputs[0].spec.dtype)


def _alike(x: Term, y: Term) -> bool:
    """Return whether two terms say the same."""
    if (x.function, x.dtype, x.number, len(x.operands)) != (y.function, y.dtype, y.number, len(y.operands)):
        return False
    return all(_alike(one, other) for one, other in zip(x.operands, y.operands, strict=True))
