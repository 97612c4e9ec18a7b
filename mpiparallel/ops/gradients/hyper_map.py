"""Functions that are applied to the elements of nested tuples, and chosen by the kinds of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ConfigurationError, TraceError
from mpiparallel.graph.tensor import Tensor

_KINDS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("Tensor", lambda item: isinstance(item, Tensor)),
    ("Bool", lambda item: isinstance(item, bool)),
    ("Number", lambda item: isinstance(item, (int, float)) and not isinstance(item, bool)),
    ("String", lambda item: isinstance(item, str)),
    ("Tuple", lambda item: isinstance(item, tuple)),
    ("List", lambda item: isinstance(item, list)),
    ("None", lambda item: item is None),
    ("Function", callable),
)


def kind_of(item: Any) -> str:
    """Return MindSpore's name of what an argument is.

    >>> kind_of(0.5), kind_of(Tensor([1.0]))
    ('Number', 'Tensor')
    """
    return next((name for name, fits in _KINDS if fits(item)), type(item).__name__)


class MultitypeFuncGraph:
    """A function with one body for each combination of kinds of arguments, which ``register`` adds.

    Parameters
    ----------
    name : str
        What errors call it.
    read_value : bool
        MindSpore's; changes nothing, as a remark says.

    Examples
    --------
    >>> scaled = MultitypeFuncGraph("scaled")
    >>> @scaled.register("Number", "Tensor")
    ... def of_tensor(factor, x):
    ...     return x * factor
    >>> scaled(2.0, Tensor([3.0])).asnumpy().tolist()
    [6.0]
    """

    def __init__(self, name: str, read_value: bool = False) -> None:
        no_effect("MultitypeFuncGraph", "read_value", read_value, "parameters are passed as they are", default=False)
        self.name = name
        self._bodies: dict[tuple[str, ...], Callable[..., Any]] = {}

    def register(self, *kinds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that makes a function the body for arguments of these kinds, in order.

        Kinds are Tensor, Number, Bool, String, Tuple, List, None and Function. Raises ConfigurationError for others.
        """
        known = [name for name, _ in _KINDS]
        wrong = [kind for kind in kinds if kind not in known]
        if wrong:
            raise ConfigurationError(f"{self.name}: kind {wrong[0]!r} is not known; known are {', '.join(known)}")

        def enter(body: Callable[..., Any]) -> Callable[..., Any]:
            self._bodies[kinds] = body
            return body

        return enter

    def __call__(self, *arguments: Any) -> Any:
        """Call the body for arguments of these kinds; raise TraceError when there is none."""
        kinds = tuple(map(kind_of, arguments))
        if kinds not in self._bodies:
            there = "; ".join(", ".join(known) for known in self._bodies) or "none"
            raise TraceError(
                f"{self.name}: no function is registered for ({', '.join(kinds)}); there are: {there}. Add one with "
                f"@{self.name}.register"
            )
        return self._bodies[kinds](*arguments)


class HyperMap:
    """A function applied to the corresponding elements of nested tuples or lists: a tuple of results, nested alike.

    Called, it takes the tuples; without ``ops`` the function comes before them. ConfigurationError is raised where
    tuples are not equally long.

    Parameters
    ----------
    ops : callable, optional
        The function.
    reverse : bool
        Whether the last elements come first.

    Examples
    --------
    >>> HyperMap(lambda x, y: x + y)((1, (2, 3)), (10, (20, 30)))
    (11, (22, 33))
    """

    def __init__(self, ops: Callable[..., Any] | None = None, reverse: bool = False) -> None:
        self._function = ops
        self._reverse = reverse

    def __call__(self, *arguments: Any) -> Any:
        """Return the results."""
        if self._function is not None:
            return self._mapped(self._function, arguments)
        return self._mapped(arguments[0], arguments[1:])

    def _mapped(self, function: Callable[..., Any], items: tuple[Any, ...]) -> Any:
        if not any(isinstance(item, (tuple, list)) for item in items):
            return function(*items)
        lengths = [len(item) if isinstance(item, (tuple, list)) else None for item in items]
        if len(set(lengths)) != 1:
            raise ConfigurationError(f"HyperMap: arguments have {lengths} elements; give tuples that are equally long")
        rows = list(zip(*items, strict=True))
        results = [self._mapped(function, row) for row in (rows[::-1] if self._reverse else rows)]
        return tuple(results[::-1] if self._reverse else results)
