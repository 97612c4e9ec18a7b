"""What MindSpore's users make operators and constants of programs with, by its names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Final

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.graph.operator import Operator

_NO_OPERATOR: Final = "the function stays a function, which runs whenever a network is traced"

Primitive = Operator
"""What every operator is; one of your own is a subclass that says its ``infer``, ``equation`` and ``kernel``."""


class Partial:
    """Makes a function of which the first arguments are given.

    Examples
    --------
    >>> Partial()(pow, 2)(5)
    32
    """

    def __call__(self, func: Callable[..., Any], *arguments: Any, **named: Any) -> Callable[..., Any]:
        """Return ``func`` with its first arguments, and those by name, given."""
        return partial(func, *arguments, **named)


def constexpr(
    fn: Callable[..., Any] | None = None,
    get_instance: bool = True,
    name: str | None = None,
    reuse_result: bool = True,
    check: bool = True,
) -> Any:
    """Return the function: what Python computes while a network is traced is a constant of its program anyway.

    Parameters
    ----------
    fn : callable, optional
        A function of what is known; a decorator with options has none yet.
    get_instance, name, reuse_result, check
        MindSpore's; they change nothing, as a remark says.

    Returns
    -------
    callable
        ``fn``, or the decorator.

    Examples
    --------
    >>> @constexpr
    ... def half(extent):
    ...     return extent // 2
    >>> half(6)
    3
    """
    no_effect("constexpr", "get_instance", get_instance, _NO_OPERATOR, default=True)
    no_effect("constexpr", "name", name, _NO_OPERATOR)
    no_effect("constexpr", "reuse_result", reuse_result, _NO_OPERATOR, default=True)
    no_effect("constexpr", "check", check, _NO_OPERATOR, default=True)
    return constexpr if fn is None else fn


def prim_attr_register(fn: Callable[..., None]) -> Callable[..., None]:
    """Return an operator's ``__init__`` that keeps its arguments as attributes of the same names before it runs.

    Parameters
    ----------
    fn : callable
        The ``__init__``.

    Returns
    -------
    callable
        It takes what ``fn`` takes.

    Examples
    --------
    >>> class Scale:
    ...     @prim_attr_register
    ...     def __init__(self, factor=2):
    ...         pass
    >>> Scale(3).factor
    3
    """
    signature = inspect.signature(fn)

    @wraps(fn)
    def keeping(self: Any, *arguments: Any, **named: Any) -> None:
        bound = signature.bind(self, *arguments, **named)
        bound.apply_defaults()
        for name, item in list(bound.arguments.items())[1:]:
            setattr(self, name, item)
        fn(self, *arguments, **named)

    return keeping


class _VirtualDataset:
    """The mark of a network's inputs that MindSpore's planner looks for.

    It returns its inputs: how they lie on the ranks is what ``dataset_strategy`` and ``full_batch`` say.
    """

    def __call__(self, *inputs: Any) -> Any:
        """Return the input, or the tuple of them."""
        return inputs[0] if len(inputs) == 1 else inputs

    def add_prim_attr(self, name: str, value: Any) -> _VirtualDataset:
        """Return the mark."""
        return self
