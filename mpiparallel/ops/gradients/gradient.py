"""Gradients of functions and cells, under MindSpore's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mpiparallel.compile.differentiate import differentiate
from mpiparallel.compile.structure import Options
from mpiparallel.context.compiled_function import CompiledFunction
from mpiparallel.errors import GradientError
from mpiparallel.graph.graph import Value
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, active_trace


def _traced_gradient(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    options: Mapping[str, Any],
    positions: Sequence[int],
    weights: Sequence[Parameter],
    seed: Any,
    has_aux: bool,
) -> tuple[Any, list[Tensor], list[Tensor]]:
    """Return what ``function`` returns, and its gradients by inputs and by weights, inside the active trace."""
    trace = active_trace()
    if trace is None:
        raise GradientError("a gradient is taken outside a trace")
    given = [_as_traced(trace, _as_tensor(item)) for item in inputs]
    sources = [_by(given, position) for position in positions]
    result = _kept(trace, function, given, options)
    if result is None:
        result = function(*given, **options)
    roots = _roots(result, trace, has_aux)
    wanted = [trace.value_of(tensor) for tensor in (*sources, *weights)]
    gradients = [Tensor.of_value(value) for value in differentiate(trace, roots, _seeds(trace, roots, seed), wanted)]
    return result, gradients[: len(positions)], gradients[len(positions) :]


def _as_tensor(item: Any) -> Any:
    is_number = isinstance(item, (int, float, np.generic)) and not isinstance(item, bool)
    return Tensor(item) if is_number or isinstance(item, np.ndarray) else item


def _as_traced(trace: Trace, item: Any) -> Any:
    """Return a tensor of known values as the one value of the trace that it is from here on."""
    is_known = isinstance(item, Tensor) and not isinstance(item, Parameter) and item.value is None
    return Tensor.of_value(trace.value_of(item)) if is_known else item


def _by(given: Sequence[Any], position: int) -> Tensor:
    """Return the input by which a gradient is asked for."""
    if not -len(given) <= position < len(given):
        raise GradientError(f"grad_position {position}: there are {len(given)} inputs by place, counted from 0")
    if not isinstance(given[position], Tensor):
        raise GradientError(
            f"grad_position {position}: the input is a {type(given[position]).__name__}, by which there is "
            "no gradient; give a tensor there, or another position"
        )
    tensor: Tensor = given[position]
    return tensor


def _kept(trace: Trace, function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Return what the function has returned on the same inputs in this trace; None where that is not known.

    MindSpore's users call a network for its loss, then for its gradient: it is one and the same computation.
    """
    if options or not all(isinstance(item, Tensor) for item in given):
        return None
    return trace.kept_result(function, tuple(trace.value_of(tensor) for tensor in given))


def _roots(result: Any, trace: Trace, has_aux: bool) -> list[Value]:
    if not has_aux:
        return [trace.value_of(item) for item in _tensors_in(result)]
    if not isinstance(result, (tuple, list)) or len(result) < 2:
        raise GradientError(
            "has_aux=True: the function must return a tuple, what is differentiated and then the others"
        )
    return [trace.value_of(item) for item in _tensors_in(result[0])]


def _tensors_in(item: Any) -> Iterator[Tensor]:
    if isinstance(item, Tensor):
        yield item
    elif isinstance(item, (tuple, list)):
        for one in item:
            yield from _tensors_in(one)


def _seeds(trace: Trace, roots: Sequence[Value], seed: Any) -> list[Value]:
    if seed is None:
        # One element of memory, whatever the shape: graphs are of whole tensors, which no host may have room for.
        return [
            trace.graph.add_constant(np.broadcast_to(np.ones((), root.spec.dtype), root.spec.shape)) for root in roots
        ]
    seeds = [_as_tensor(one) for one in (seed if isinstance(seed, (tuple, list)) else (seed,))]
    shapes = [one.shape if isinstance(one, Tensor) else type(one).__name__ for one in seeds]
    if shapes != [root.spec.shape for root in roots]:
        wanted = [root.spec.shape for root in roots]
        raise GradientError(f"sens of shape {_listed(shapes)} must have the shape of the output, {_listed(wanted)}")
    return [trace.value_of(one) for one in seeds]


def _listed(shapes: Sequence[Any]) -> str:
    return ", ".join(map(str, shapes))


def _places_of_tensors(given: Sequence[Any]) -> list[int]:
    return [place for place, item in enumerate(given) if isinstance(_as_tensor(item), Tensor)]


def _positions(grad_position: int | tuple[int, ...] | None) -> tuple[int, ...]:
    if grad_position is None:
        return ()
    return (grad_position,) if isinstance(grad_position, int) else tuple(grad_position)


def _unwrapped(gradients: Sequence[Tensor], single: bool, names: Sequence[object] | None = None) -> Any:
    """Return gradients as they are handed out: the only one alone, and with ``names`` each behind its own."""
    shown = gradients if names is None else [*zip(names, gradients, strict=True)]
    return shown[0] if single else tuple(shown)


def _without_sens(inputs: tuple[Any, ...], options: dict[str, Any], has_sens: bool) -> tuple[Any, tuple[Any, ...]]:
    """Return the gradient of the output, which is the last input or named ``sens``, and the other inputs."""
    if not has_sens:
        return None, inputs
    if "sens" in options:
        return options.pop("sens"), inputs
    if not inputs:
        raise GradientError("sens_param=True: give the gradient of the output as the last input")
    return inputs[-1], inputs[:-1]


def value_and_grad(
    fn: Callable[..., Any],
    grad_position: int | tuple[int, ...] | None = 0,
    weights: Any = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns what ``fn`` returns, and its gradients.

    Outputs of several elements are summed. Inputs by name are passed on.

    Parameters
    ----------
    fn : callable
        A cell, or a function of tensors.
    grad_position : int or tuple of int, optional
        The inputs by which gradients are taken; None for none.
    weights : Parameter or list of Parameter, optional
        The parameters by which they are taken.
    has_aux : bool
        Whether only the first output of ``fn`` is differentiated.
    return_ids : bool
        Whether each gradient comes as (position or name, gradient).
    sens_param : bool
        Whether the last input, or ``sens`` by name, is the gradient of the output.

    Returns
    -------
    callable
        It returns a pair: what ``fn`` returns, and the gradients. They are a tensor for one position, also in a tuple,
        or for one parameter; a tuple for several. Where both are asked for, they are a pair of both.

    Raises
    ------
    GradientError
        When there is nothing to differentiate by, and, when called, where a position or an output is not there.

    Notes
    -----
    A gradient has the shape and dtype of what it is by, and its layout.

    Examples
    --------
    >>> square = value_and_grad(lambda x: (x * x).sum())
    >>> value, gradient = square(Tensor([1.0, 3.0]))
    >>> float(value), gradient.asnumpy().tolist()
    (10.0, [2.0, 6.0])
    """
    positions = _positions(grad_position)
    parameters = [] if weights is None else [weights] if isinstance(weights, Parameter) else list(weights)
    if not positions and weights is None:
        raise GradientError("value_and_grad: give grad_position or weights, something to differentiate by")

    def traced(*inputs: Any, **options: Any) -> Any:
        seed, given = _without_sens(inputs, options, sens_param)
        result, by_inputs, by_weights = _traced_gradient(fn, given, options, positions, parameters, seed, has_aux)
        ids = positions if return_ids else None
        found = _unwrapped(by_inputs, len(positions) == 1, ids) if positions else None
        if weights is None:
            return result, found
        names = [parameter.name for parameter in parameters] if return_ids else None
        of_weights = _unwrapped(by_weights, isinstance(weights, Parameter), names)
        return result, of_weights if not positions else (found, of_weights)

    return _Callable(traced)


def grad(
    fn: Callable[..., Any],
    grad_position: int | tuple[int, ...] | None = 0,
    weights: Any = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns the gradients of ``fn``, as ``value_and_grad`` does.

    Parameters
    ----------
    fn, grad_position, weights, has_aux, return_ids, sens_param
        As for ``value_and_grad``.

    Returns
    -------
    callable
        It returns the gradients; with ``has_aux`` a pair of them and the other outputs.

    Raises
    ------
    GradientError
        As ``value_and_grad`` does.

    Examples
    --------
    >>> grad(lambda x: (x * x * x).sum())(Tensor([2.0])).asnumpy().tolist()
    [12.0]
    """
    both = value_and_grad(fn, grad_position, weights, has_aux, return_ids, sens_param)

    def gradients_only(*inputs: Any, **options: Any) -> Any:
        result, gradients = both(*inputs, **options)
        return (gradients, tuple(result[1:])) if has_aux else gradients

    return gradients_only


class GradOperation:
    """MindSpore's older way to a gradient: ``GradOperation(get_all, get_by_list, sens_param)(fn, weights)(*inputs)``.

    The gradient is by the first input unless more is asked for. Inputs by name are passed on.

    Parameters
    ----------
    get_all : bool
        Whether it is by all inputs.
    get_by_list : bool
        Whether it is by ``weights``, and by inputs only with ``get_all``; without ``weights`` those are the parameters
        of the cell ``fn`` that require one.
    sens_param : bool
        Whether the last input, or ``sens`` by name, is the gradient of the output.

    Examples
    --------
    >>> GradOperation(get_all=True)(lambda x, y: x * y)(Tensor(2.0), Tensor(5.0))[1].item()
    2.0
    """

    def __init__(self, get_all: bool = False, get_by_list: bool = False, sens_param: bool = False) -> None:
        self.get_all, self.get_by_list, self.sens_param = get_all, get_by_list, sens_param

    def __call__(self, fn: Callable[..., Any], weights: Any = None) -> Callable[..., Any]:
        """Return the function that returns the gradients."""
        if self.get_by_list and weights is None and hasattr(fn, "trainable_params"):
            weights = fn.trainable_params()
        if self.get_by_list and weights is None:
            raise GradientError("GradOperation(get_by_list=True): give the parameters, GradOperation(...)(fn, weights)")
        parameters = [weights] if isinstance(weights, Parameter) else list(weights or ()) if self.get_by_list else []

        def traced(*inputs: Any, **options: Any) -> Any:
            seed, given = _without_sens(inputs, options, self.sens_param)
            by_inputs = not self.get_by_list or self.get_all
            positions = () if not by_inputs else _places_of_tensors(given) if self.get_all else (0,)
            _, of_inputs, of_weights = _traced_gradient(fn, given, options, positions, parameters, seed, False)
            found = _unwrapped(of_inputs, not self.get_all) if by_inputs else None
            if not self.get_by_list:
                return found
            return (found, tuple(of_weights)) if self.get_all else tuple(of_weights)

        return _Callable(traced)


class _Callable:
    """A traced function: inside a trace a call adds nodes, outside it is compiled and run."""

    def __init__(self, traced: Callable[..., Any]) -> None:
        self._traced = traced
        self._compiled = CompiledFunction(traced)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if active_trace() is not None:
            return self._traced(*inputs, **options)
        given = [_as_tensor(item) for item in inputs]
        return self._compiled.traced_call(*given, Options(options)) if options else self._compiled.traced_call(*given)
