"""Fusion of attention: nodes that make the matrix of scores, and those of its gradient, become attention in blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.compile.device_fusion.attention_match import Attention, AttentionGradient, AttentionMatching
from mpiparallel.graph.attention.blocked_attention import Attending, BlockedAttention, BlockedAttentionGrad
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.own_operators import Cast
from mpiparallel.layout.box import Box

_LOWERED = -1.0
"""The factor of ``1 - mask`` in BlockedAttention with which the mask itself, less 1, is added to the scores.

A number that is added to all scores of a row changes no weight.
"""


def fuse_attention(graph: Graph) -> None:
    """Compute ``dropout(softmax(query @ key.T + mask)) @ value`` and its gradient without the matrix of scores.

    For a device that has kernels for it. The dropout is the same to the bit. What is read by anything else stays
    as it is, as does what computes with a mask whose gradient is wanted. A mask that is made of constants alone is not
    read where it adds nothing, or hides what comes after each query.
    """
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys((*node.inputs, *node.notes.guards)):
            readers.setdefault(value, []).append(node)
    softmaxes = [node for node in graph.nodes if node.operator.name == "Softmax"]
    replacement = _Replacement(graph)
    for softmax in softmaxes:
        match = AttentionMatching(graph, readers, softmax).match()
        if match is not None:
            replacement.add(match)
    if softmaxes:
        graph.nodes = list(replacement.nodes())


class _Replacement:
    """Attention is put where its last node is, and its gradient where the first node of that is."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._places = {node: place for place, node in enumerate(graph.nodes)}
        self._gone: set[Node] = set()
        self._constants: set[Node] = set()
        self._made: dict[Node, list[Node]] = {}

    def add(self, match: Attention) -> None:
        """Make the nodes for one match."""
        *casts, forward = _forward(match, match.last.inputs[0].spec.shape)
        masks = [cast.outputs[0] for cast in casts]
        self._made[match.last] = [*casts, forward]
        self._gone.update(match.nodes)
        self._constants.update(match.constants)
        if match.gradient is not None:
            first = min(match.gradient.nodes, key=self._places.__getitem__)
            self._made[first] = [_backward(self._graph, match, match.gradient, masks, forward)]
            self._gone.update(match.gradient.nodes)

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes of the graph, with those that have been made, without masks that nothing reads any more."""
        nodes: list[Node] = []
        for node in self._graph.nodes:
            nodes += self._made.get(node, ())
            if node not in self._gone:
                nodes.append(node)
        read = set(self._graph.outputs)
        unread = set()
        for node in reversed(nodes):
            if node in self._constants and read.isdisjoint(node.outputs):
                unread.add(node)
            else:
                read.update(node.inputs)
        yield from (node for node in nodes if node not in unread)


def _forward(match: Attention, shape: tuple[int, ...]) -> list[Node]:
    """Return the nodes that cast the mask and attend; the latter gives the very value that the last product gave."""
    casts = [] if match.mask is None else [_cast(match.mask, match)]
    operator = _attending(BlockedAttention, match, shape)
    inputs = (match.query, match.key, match.value, *(cast.outputs[0] for cast in casts))
    last = match.last
    node = Node(operator, f"{last.name}/BlockedAttention", inputs, (), last.notes)
    specs = operator.infer(*(value.spec for value in inputs))
    others = (Value(spec, f"{node.name}:{index}", node, index) for index, spec in enumerate(specs) if index)
    node.outputs = (_moved(last.outputs[0], node, 0), *others)
    return [*casts, node]


def _cast(mask: Value, match: Attention) -> Node:
    dtype = match.query.spec.dtype
    node = Node(Cast().configured(dtype=dtype), f"{match.last.name}/mask", (mask,), (), match.last.notes)
    node.outputs = (Value(TensorSpec(mask.spec.shape, dtype), f"{node.name}:0", node),)
    return node


def _backward(graph: Graph, match: Attention, gradient: AttentionGradient, masks: list[Value], forward: Node) -> Node:
    """Return the node that gives the very values that the three products of the gradient gave."""
    operator = _attending(BlockedAttentionGrad, match, match.last.inputs[0].spec.shape)
    operator = operator.configured(sums_are_read=False)
    sums = forward.outputs[1].spec
    nothing = graph.add_constant(np.zeros(sums.shape, sums.dtype))
    inputs = (match.query, match.key, match.value, *masks, *forward.outputs, gradient.of_output, nothing)
    notes = gradient.nodes[0].notes
    node = Node(operator, f"{forward.name}Grad", inputs, (), notes)
    node.outputs = tuple(_moved(value, node, index) for index, value in enumerate(gradient.outputs))
    return node


def _moved(value: Value, node: Node, index: int) -> Value:
    """Let a value be the output of another node: who reads it need not know."""
    value.node, value.index = node, index
    return value


def _attending(kind: type[Attending], match: Attention, shape: tuple[int, ...]) -> Operator:
    """Return the operator: it draws what the dropout drew."""
    dropout, is_causal = match.dropout, match.first_query is not None
    if dropout is None:
        first, (batch, heads, queries, keys) = match.first_query or 0, shape
        box = Box((0, 0, first, 0), (batch, heads, first + queries, keys))
        operator = kind(1.0, match.scale, _LOWERED, is_causal)
        operator.part, operator.scope = Part(box.stop, box), match.last.operator.scope
    else:
        operator = kind(dropout.keep_prob, match.scale, _LOWERED, is_causal)
        operator.part, operator.seeds, operator.scope = dropout.part, dropout.seeds, dropout.scope
    return operator
