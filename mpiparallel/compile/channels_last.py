"""The order of images in memory on a device: channels last where tensor cores convolve them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from mpiparallel.compile.elementwise_fusion import FusedElementwise
from mpiparallel.dtype import is_narrow
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Operator

_CONVOLUTIONS: Final = {"Conv2D": (1, 1), "Conv2DBackpropInput": (1, 1), "Conv2DBackpropFilter": (2, 0)}
"""How many inputs and outputs of each are images; what follows them is weights."""
_POOLINGS: Final = frozenset(("MaxPool", "MaxPoolGrad", "AvgPool", "AvgPoolGrad"))
_LOAD: Final = 16
"""Bytes of channels that a convolution reads at once."""


def put_channels_last(graph: Graph, in_tf32: bool) -> None:
    """Say which values of a graph lie in memory with their channels last.

    They are what convolutions of 16 bits read and make, and ``in_tf32`` what those of float32 do too. So is all that is
    computed from them, or that they are computed from, element by element. Then every kernel finds its images in one
    order. Inputs, parameters and results stay as they are.
    """
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in node.inputs:
            readers.setdefault(value, []).append(node)
    others = {*graph.outputs, *(value for node in graph.nodes for value in _weights(node))}
    images = {
        value
        for node in graph.nodes
        for value in node.outputs
        if _is_image(value) and value not in others and all(map(_takes_any_order, (node, *readers.get(value, ()))))
    }
    found = {
        value
        for node in graph.nodes
        if _is_by_tensor_cores(node, in_tf32)
        for value in _convolved(node)
        if value in images
    }
    waiting = list(found)
    while waiting:
        value = waiting.pop()
        for node in (value.node, *readers.get(value, ())):
            is_between = node is not None and not _convolved(node)
            beside = [one for one in _of(node) if one in images and one not in found] if is_between else []
            found.update(beside)
            waiting += beside
    graph.channels_last = frozenset(found)


def _of(node: Node) -> Iterator[Value]:
    yield from node.inputs
    yield from node.outputs


def _convolved(node: Node) -> tuple[Value, ...]:
    """Return the images that a node convolves, or has convolved; nothing where it is no convolution."""
    given, made = _CONVOLUTIONS.get(node.operator.name, (0, 0))
    return node.inputs[:given] + node.outputs[:made]


def _weights(node: Node) -> tuple[Value, ...]:
    given, made = _CONVOLUTIONS.get(node.operator.name, (0, 0))
    return node.inputs[given : given + 1] + node.outputs[made:] if given else ()


def _is_image(value: Value) -> bool:
    shape = value.spec.shape
    return len(shape) == 4 and shape[1] > 1 and shape[2] * shape[3] > 1 and value.spec.size > 0


def _takes_any_order(node: Node) -> bool:
    """Return whether a node's kernel is as good in one order of memory as in another."""
    operator = node.operator
    if operator.name in _CONVOLUTIONS or operator.name in _POOLINGS or isinstance(operator, FusedElementwise):
        return True
    return type(operator).expression is not Operator.expression and not operator.is_view


def _is_by_tensor_cores(node: Node, in_tf32: bool) -> bool:
    images = [one.spec for one in _convolved(node)]
    are_multiplied = all(is_narrow(one.dtype) or (in_tf32 and one.dtype == np.float32) for one in images)
    return bool(images) and are_multiplied and all(one.shape[1] * one.dtype.itemsize % _LOAD == 0 for one in images)
