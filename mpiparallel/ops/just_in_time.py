"""Functions of tensors that are compiled where they are called, whatever the mode (MindSpore's ``jit``)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from types import MethodType
from typing import Any

import numpy as np

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.compile.structure import ProgramConstant
from mpiparallel.context.compiled_function import CompiledFunction
from mpiparallel.errors import ConfigurationError, TraceError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import active_trace

_WHY = "there is one compiler, and it compiles anew for each kind of input"


def jit(fn: Callable[..., Any] | None = None, *positional: Any, **options: Any) -> Any:
    """Return a function of tensors compiled, as a cell is; a decorator, with or without options.

    What is neither a tensor, an array nor a tuple of them is a constant of the program, one program for each.

    Parameters
    ----------
    fn : callable, optional
        The function; a decorator with options has none yet.
    *positional, **options
        MindSpore's (``mode``, ``jit_config``, ``backend``, ...); they have no effect, which is said once.

    Returns
    -------
    callable
        It takes what ``fn`` takes, by place.

    Raises
    ------
    ConfigurationError
        When ``fn`` is no function.

    Examples
    --------
    >>> @jit
    ... def scaled(x, factor):
    ...     return x * factor
    >>> scaled(Tensor([1.0, 2.0]), 3).asnumpy().tolist()
    [3.0, 6.0]
    """
    for name, given in ({f"argument {place}": one for place, one in enumerate(positional, 2)} | options).items():
        no_effect("jit", name, given, _WHY)
    if fn is None:
        return jit
    if not callable(fn):
        raise ConfigurationError(f"jit: {fn!r} is no function; write @jit, or @jit(...) with options by name")
    return JustInTime(fn)


ms_function = jit


class JustInTime:
    """A function that is compiled for each kind of tensors and each set of constants that it is called with."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._signature = inspect.signature(function)
        self._compiled: dict[Hashable, CompiledFunction] = {}

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return what the function returns; inside a traced network it is part of that."""
        if active_trace() is not None:
            return self.function(*arguments, **named)
        bound = self._signature.bind(*arguments, **named)
        bound.apply_defaults()
        if bound.kwargs:
            raise TraceError(f"{self.__name__}: jit takes no arguments that are only by name; make them positional")
        fed = tuple(place for place, one in enumerate(bound.args) if _is_fed(one))
        constants = tuple(None if place in fed else one for place, one in enumerate(bound.args))
        try:
            key = fed, tuple(ProgramConstant.of(one) for one in constants)
            program = self._compiled.setdefault(key, self._of(fed, constants))
        except TypeError as error:
            raise TraceError(f"{self.__name__}: {error}; give tensors, or constants that can be hashed") from error
        return program.traced_call(*(bound.args[place] for place in fed))

    __name__ = "function"

    def _of(self, fed: tuple[int, ...], constants: tuple[Any, ...]) -> CompiledFunction:
        given = self.function

        def function(*inputs: Any) -> Any:
            arguments = list(constants)
            for place, item in zip(fed, inputs, strict=True):
                arguments[place] = item
            return given(*arguments)

        return CompiledFunction(function)


def _is_fed(item: Any) -> bool:
    if isinstance(item, (tuple, list)):
        return bool(item) and all(map(_is_fed, item))
    return isinstance(item, (Tensor, np.ndarray))
