"""Reverse-mode differentiation of a graph, made of operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import reduce

import numpy as np

from mpiparallel.compile.recomputation import Overwritten, Recomputation
from mpiparallel.dtype import is_inexact, is_narrow
from mpiparallel.errors import GradientError
from mpiparallel.graph.graph import Node, Notes, Value
from mpiparallel.graph.input_conversion import converting
from mpiparallel.graph.own_operators import Add
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording


def differentiate(
    trace: Trace, outputs: Sequence[Value], seeds: Sequence[Value], wanted: Sequence[Value]
) -> list[Value]:
    """Append the gradient of ``sum(outputs * seeds)`` to the graph; return it for each wanted value.

    A wanted value that the outputs do not depend on has gradient zero. Raises GradientError if an operator on the way
    has no gradient, or an output is not of floating point. It also does if a gradient depends on the value of a
    parameter that has been overwritten.
    """
    for output in outputs:
        if not is_inexact(output.spec.dtype):
            raise GradientError(
                f"{output.name} of dtype {output.spec.dtype} has no gradient; differentiate a float output"
            )
    with recording(trace):
        terms = _GradientTerms(trace)
        for output, seed in zip(outputs, seeds, strict=True):
            terms.add(output, seed)
        recomputation, overwritten = Recomputation(trace), Overwritten(trace.graph)
        for node in reversed(_dependent_nodes(trace.graph.nodes, wanted)):
            made = _differentiate_node(trace, node, terms, recomputation)
            _refuse_overwritten(node, made, overwritten)
        gradients = [terms.total(value) or _zeros(trace, value) for value in wanted]
    pairs = zip(gradients, wanted, strict=True)
    trace.graph.gradients.update((gradient, value) for gradient, value in pairs if value.parameter is not None)
    trace.differentiated = True
    return gradients


def _dependent_nodes(nodes: Iterable[Node], wanted: Sequence[Value]) -> list[Node]:
    reached = set(wanted)
    dependent = []
    for node in nodes:
        if any(value in reached for value in node.inputs):
            reached.update(node.outputs)
            dependent.append(node)
    return dependent


def _differentiate_node(trace: Trace, node: Node, terms: _GradientTerms, recomputation: Recomputation) -> list[Node]:
    """Append the gradient of a node; return the nodes that it is made of."""
    cotangents = tuple(terms.total(output) for output in node.outputs)
    if all(cotangent is None for cotangent in cotangents):
        return []
    origin = recomputation.twin(node)
    first = len(trace.graph.nodes)
    trace.graph.cotangents[origin] = cotangents
    with trace.making(origin=origin), converting(None):
        filled = [
            cotangent or _zeros(trace, output) for cotangent, output in zip(cotangents, node.outputs, strict=True)
        ]
        gradients = node.operator.gradient(
            [Tensor.of_value(value) for value in origin.inputs],
            [Tensor.of_value(value) for value in origin.outputs],
            [Tensor.of_value(value) for value in filled],
        )
    for value, gradient in zip(node.inputs, _checked(node, gradients), strict=True):
        if gradient is not None:
            terms.add(value, trace.value_of(gradient))
    return trace.graph.nodes[first:]


def _checked(node: Node, gradients: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Return what an operator gives as its gradient; raise GradientError unless it fits the inputs one by one."""
    if not isinstance(gradients, (tuple, list)) or len(gradients) != len(node.inputs):
        count = f"{len(gradients)} gradients" if isinstance(gradients, (tuple, list)) else type(gradients).__name__
        raise GradientError(
            f"{node.name}: {node.operator.name}.gradient returned {count} for {len(node.inputs)} inputs; return a "
            "tuple of one for each, None where there is none"
        )
    for index, (value, gradient) in enumerate(zip(node.inputs, gradients, strict=True)):
        if gradient is None:
            continue
        if not isinstance(gradient, Tensor) or gradient.shape != value.spec.shape:
            said = f"shape {gradient.shape}" if isinstance(gradient, Tensor) else f"type {type(gradient).__name__}"
            raise GradientError(
                f"{node.name}: {node.operator.name}.gradient returned a gradient for input {index} of {said}; "
                f"it must be a tensor of shape {value.spec.shape}, or None"
            )
    return gradients


def _refuse_overwritten(node: Node, made: Sequence[Node], overwritten: Overwritten) -> None:
    """Raise GradientError where what the gradient of a node is made from is there no more."""
    for one in made:
        value = overwritten.since(node, one.inputs)
        if value is not None:
            raise GradientError(
                f"{node.name}: its gradient depends on what {value.name!r} was when it ran, but that parameter is "
                "overwritten after it; overwrite it after the gradient has been taken"
            )


def _zeros(trace: Trace, value: Value) -> Value:
    # One element of memory, whatever the shape: graphs are of whole tensors, which no host may have room for.
    return trace.graph.add_constant(np.broadcast_to(np.zeros((), value.spec.dtype), value.spec.shape))


def is_zero(gradient: Tensor) -> bool:
    """Whether nothing depends on the output that this is the gradient of, so that zeros stand for it."""
    constant = gradient.value.constant if isinstance(gradient.value, Value) else None
    if constant is None:
        return False
    is_one_number = not any(constant.strides)
    return not (constant[(slice(1),) * constant.ndim] if is_one_number else constant).any()


class _GradientTerms:
    """The terms of each value's gradient, summed when they are asked for."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._terms: dict[Value, list[Value]] = {}

    def add(self, value: Value, term: Value) -> None:
        self._terms.setdefault(value, []).append(term)

    def total(self, value: Value) -> Value | None:
        terms = self._terms.get(value)
        if not terms:
            return None
        with self._trace.making(like=value):
            # Each stage of a pipeline has its own sum, to which it adds micro-batch after micro-batch.
            of_stages: dict[int | None, list[Value]] = {}
            for term in sorted(terms, key=_micro_batch):
                of_stages.setdefault(_notes(term).stage, []).append(term)
            total = self._sum([self._sum(of_stage) for of_stage in of_stages.values()])
            if is_narrow(value.spec.dtype) and total.spec.dtype != value.spec.dtype:
                # Beside float32 its gradient comes in float32; all that is made of it would be computed so.
                total = self._trace.value_of(Tensor.of_value(total).astype(value.spec.dtype))
        self._terms[value] = [total]
        return total

    def _sum(self, terms: Sequence[Value]) -> Value:
        return reduce(self._added, terms)

    def _added(self, first: Value, second: Value) -> Value:
        latest = max(_micro_batch(first), _micro_batch(second))
        with self._trace.of_micro_batch(latest) if latest >= 0 else nullcontext():
            return self._trace.value_of(Add()(Tensor.of_value(first), Tensor.of_value(second)))


def _notes(value: Value) -> Notes:
    return Notes() if value.node is None else value.node.notes


def _micro_batch(value: Value) -> int:
    number = _notes(value).micro_batch
    return -1 if number is None else number
