"""Gradients that users write: ``bprop`` of a cell, and of an operator of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.dtype import is_inexact
from mpiparallel.errors import GradientError
from mpiparallel.graph.own_gradient import OwnGradient, OwnGradients
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]


@dataclass
class WrittenGradient:
    """The function ``bprop`` in one call of what it is the gradient of: what that was given and has returned.

    ``where`` names it, ``what`` its inputs. Tensors may lie in tuples and lists; what is none of them has no gradient.
    """

    where: str
    bprop: Callable[..., Any]
    inputs: tuple[Any, ...]
    options: Mapping[str, Any]
    result: Any
    what: str = "inputs"

    def applied(self) -> Any:
        """Return the result, whose gradient ``bprop`` now is."""
        made, given = [*_tensors_in(self.result)], [*_tensors_in(self.inputs)]
        if not made:
            return self.result
        if len(made) == 1:
            return _replaced(self.result, iter([OwnGradient(self, len(given))(*made, *given)]))
        return _replaced(self.result, iter(OwnGradients(self, len(given), len(made))(*made, *given)))

    def __call__(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> list[Tensor | None]:
        """Return the gradient of each tensor among the inputs.

        Raises GradientError where ``bprop`` does not return one for each input, of its shape.
        """
        given = _replaced(self.inputs, iter(inputs))
        result, sought = _replaced(self.result, iter(outputs)), _replaced(self.result, iter(gradients))
        returned = self.bprop(*given, result, sought, **self.options)
        if isinstance(returned, Tensor) and len(given) == 1:
            returned = (returned,)
        return self._matched(returned, given, "", self.what)

    def _matched(self, returned: Any, given: Sequence[Any], place: str, what: str) -> list[Tensor | None]:
        if not isinstance(returned, (tuple, list)) or len(returned) != len(given):
            said = f"a {type(returned).__name__}"
            if isinstance(returned, (tuple, list)):
                said = f"{len(returned)} gradient{'s' * (len(returned) != 1)}"
            raise GradientError(
                f"{self.where}.bprop returned {said} for the {len(given)} {what}; return a tuple of one for each, None "
                "for what has none"
            )
        found: list[Tensor | None] = []
        for position, (one, gradient) in enumerate(zip(given, returned, strict=True)):
            here = f"{place}{position}"
            if isinstance(one, Tensor):
                found.append(self._fitting(gradient, one, here))
            elif any(True for _ in _tensors_in(one)):
                nothing = [None] * len(one) if gradient is None else gradient
                found += self._matched(nothing, one, f"{here}.", f"elements of input {here}")
        return found

    def _fitting(self, gradient: Any, given: Tensor, place: str) -> Tensor | None:
        if gradient is None or not is_inexact(given.dtype):
            return None
        found = gradient if isinstance(gradient, Tensor) else Tensor(gradient, given.dtype)
        if found.shape != given.shape:
            raise GradientError(
                f"{self.where}.bprop: the gradient of input {place} has shape {found.shape}, but the input has "
                f"{given.shape}; return one of its shape"
            )
        return found if found.dtype == given.dtype else found.astype(given.dtype)


def _tensors_in(item: Any) -> Iterator[Tensor]:
    if isinstance(item, Tensor):
        yield item
    elif isinstance(item, (tuple, list)):
        for one in item:
            yield from _tensors_in(one)


def _replaced(item: Any, tensors: Iterator[Tensor]) -> Any:
    """Return the same with other tensors, in the order of ``_tensors_in``; lists become tuples."""
    if isinstance(item, Tensor):
        return next(tensors)
    return tuple(_replaced(one, tensors) for one in item) if isinstance(item, (tuple, list)) else item
