"""Parameters that hold one number throughout, such as the moments of a new optimizer: they need no copy to go back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.graph.parameter import Parameter

_PORTION: Final = 1 << 16


@contextmanager
def overwritable(parameters: Mapping[str, Parameter]) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the arrays of those that hold one number throughout; if the block fails they hold it again."""
    numbers = {name: _number_throughout(one.array) for name, one in parameters.items()}
    arrays = {name: parameters[name].array for name, number in numbers.items() if number is not None}
    try:
        yield arrays
    except BaseException:
        for name, array in arrays.items():
            array.reshape(-1)[:] = numbers[name]
        raise


def _number_throughout(array: Any) -> NDArray[Any] | None:
    """Return the element that all others equal, byte by byte; None where there is none, or no host memory in order."""
    if not isinstance(array, np.ndarray) or not array.size or not array.flags.c_contiguous or array.dtype.hasobject:
        return None
    flat = array.reshape(-1)
    first = flat[:1].tobytes()
    if first != flat[-1:].tobytes():
        return None
    alike = first * min(flat.size, _PORTION)
    for start in range(0, flat.size, _PORTION):
        portion = flat[start : start + _PORTION].tobytes()
        if portion != alike[: len(portion)]:
            return None
    return flat[:1].copy()
