"""Gradients of functions and cells, under MindSpore's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpiparallel.context.compiled_function import CompiledFunction
from mpiparallel.errors import GradientError
from mpiparallel.graph.apply import value_in
from mpiparallel.graph.differentiate import differentiate
from mpiparallel.graph.graph import Value
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, active_trace


def _traced_gradient(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    positions: Sequence[int],
    weights: Sequence[Parameter],
    seed: Tensor | None,
    has_aux: bool,
) -> tuple[Any, list[Tensor], list[Tensor]]:
    """Return what ``function`` returns, and its gradients by inputs and by weights, inside the active trace."""
    trace = active_trace()
    if trace is None:
        raise GradientError("a gradient is taken outside a trace")
    tensors = [item if isinstance(item, Tensor) else Tensor(item) for item in inputs]
    # MindSpore's users call a network for its loss, then for its gradient: it is one and the same computation.
    result = trace.kept_result(function, tuple(value_in(trace, tensor) for tensor in tensors))
    if result is None:
        result = function(*tensors)
    roots = _roots(result, trace, has_aux)
    seeds = _seeds(trace, roots, seed)
    wanted = [value_in(trace, tensors[position]) for position in positions]
    wanted += [value_in(trace, weight) for weight in weights]
    gradients = [Tensor.of_value(value) for value in differentiate(trace, roots, seeds, wanted)]
    return result, gradients[: len(positions)], gradients[len(positions) :]


def _roots(result: Any, trace: Trace, has_aux: bool) -> list[Value]:
    chosen = result if isinstance(result, (tuple, list)) else (result,)
    if has_aux:
        chosen = chosen[:1]
    return [value_in(trace, item) for item in chosen if isinstance(item, Tensor)]


def _seeds(trace: Trace, roots: Sequence[Value], seed: Tensor | None) -> list[Value]:
    if seed is None:
        return [trace.graph.add_constant(np.ones(root.spec.shape, root.spec.dtype)) for root in roots]
    if len(roots) != 1 or seed.shape != roots[0].spec.shape:
        raise GradientError(f"sens of shape {seed.shape} must have the shape of the only output, {roots[0].spec.shape}")
    return [value_in(trace, seed)]


def _unwrapped(gradients: Sequence[Tensor], single: bool) -> Any:
    return gradients[0] if single else tuple(gradients)


def _positions(grad_position: int | tuple[int, ...] | None) -> tuple[int, ...]:
    if grad_position is None:
        return ()
    return (grad_position,) if isinstance(grad_position, int) else tuple(grad_position)


def value_and_grad(
    fn: Callable[..., Any],
    grad_position: int | tuple[int, ...] | None = 0,
    weights: Any = None,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns what ``fn`` returns, and its gradients.

    The gradients are by the inputs at ``grad_position`` and by ``weights`` (a parameter or a list of them): a tensor
    for an integer position or one parameter, a tuple for several, a pair of both where both are asked for. With
    ``has_aux`` only the first output of ``fn`` is differentiated. Outputs of several elements are summed. Raises
    GradientError when neither is given.

    >>> square = value_and_grad(lambda x: (x * x).sum())
    >>> value, gradient = square(Tensor([1.0, 3.0]))
    >>> float(value), gradient.asnumpy().tolist()
    (10.0, [2.0, 6.0])
    """
    positions = _positions(grad_position)
    parameters = [] if weights is None else [weights] if isinstance(weights, Parameter) else list(weights)
    if not positions and weights is None:
        raise GradientError("value_and_grad: give grad_position or weights, something to differentiate by")

    def traced(*inputs: Any) -> Any:
        result, by_inputs, by_weights = _traced_gradient(fn, inputs, positions, parameters, None, has_aux)
        found = _unwrapped(by_inputs, isinstance(grad_position, int)) if positions else None
        if weights is None:
            return result, found
        of_weights = _unwrapped(by_weights, isinstance(weights, Parameter))
        return result, of_weights if not positions else (found, of_weights)

    return _Callable(traced)


def grad(
    fn: Callable[..., Any],
    grad_position: int | tuple[int, ...] | None = 0,
    weights: Any = None,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns the gradients of ``fn``; with ``has_aux`` a pair of them and the other outputs.

    >>> grad(lambda x: (x * x * x).sum())(Tensor([2.0])).asnumpy().tolist()
    [12.0]
    """
    both = value_and_grad(fn, grad_position, weights, has_aux)

    def gradients_only(*inputs: Any) -> Any:
        result, gradients = both(*inputs)
        return (gradients, tuple(result[1:])) if has_aux else gradients

    return gradients_only


class GradOperation:
    """MindSpore's older way to a gradient: ``GradOperation(get_all, get_by_list, sens_param)(fn, weights)(*inputs)``.

    The gradient is by the first input, by all inputs with ``get_all``, by ``weights`` with ``get_by_list``, and by both
    with both. With ``sens_param`` the last input is the gradient of the output.

    >>> GradOperation(get_all=True)(lambda x, y: x * y)(Tensor(2.0), Tensor(5.0))[1].item()
    2.0
    """

    def __init__(self, get_all: bool = False, get_by_list: bool = False, sens_param: bool = False) -> None:
        self.get_all, self.get_by_list, self.sens_param = get_all, get_by_list, sens_param

    def __call__(self, fn: Callable[..., Any], weights: Any = None) -> Callable[..., Any]:
        """Return the function that returns the gradients."""
        if self.get_by_list and weights is None:
            raise GradientError("GradOperation(get_by_list=True): give the parameters, GradOperation(...)(fn, weights)")
        parameters = [weights] if isinstance(weights, Parameter) else list(weights or ()) if self.get_by_list else []

        def traced(*inputs: Any) -> Any:
            seed = inputs[-1] if self.sens_param else None
            given = inputs[:-1] if self.sens_param else inputs
            by_inputs = not self.get_by_list or self.get_all
            positions = () if not by_inputs else range(len(given)) if self.get_all else (0,)
            _, of_inputs, of_weights = _traced_gradient(fn, given, positions, parameters, seed, False)
            found = _unwrapped(of_inputs, not self.get_all) if by_inputs else None
            if not self.get_by_list:
                return found
            return (found, tuple(of_weights)) if self.get_all else tuple(of_weights)

        return _Callable(traced)


class _Callable:
    """A traced function: inside a trace a call adds nodes, outside it is compiled and run."""

    def __init__(self, traced: Callable[..., Any]) -> None:
        self._traced = traced
        self._compiled = CompiledFunction(self._inside_trace)

    def _inside_trace(self, *inputs: Any) -> Any:
        return self._traced(*inputs)

    def __call__(self, *inputs: Any) -> Any:
        if active_trace() is not None:
            return self._traced(*inputs)
        return self._compiled.traced_call(*inputs)
