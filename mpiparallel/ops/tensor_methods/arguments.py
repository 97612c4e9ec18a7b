"""How the methods of a tensor take their arguments: several names for one, sequences given in several ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import numpy as np

Result = TypeVar("Result")

_SYNONYMS: Final = {"dim": "axis", "keepdim": "keep_dims", "keepdims": "keep_dims"}


def synonymous(method: Callable[..., Result]) -> Callable[..., Result]:
    """Return a method that takes ``dim`` for ``axis``, and ``keepdim`` or ``keepdims`` for ``keep_dims``."""

    @wraps(method)
    def taking(*arguments: Any, **named: Any) -> Result:
        renamed = {_SYNONYMS.get(name, name): item for name, item in named.items()}
        if len(renamed) < len(named):
            raise TypeError(f"{method.__qualname__}: {', '.join(named)} name one argument twice")
        return method(*arguments, **renamed)

    return taking


def given(values: tuple[Any, ...]) -> Any:
    """Return what a method was given as one sequence, or as several arguments.

    >>> given((2, 3)), given(((2, 3),))
    ((2, 3), (2, 3))
    """
    return values[0] if len(values) == 1 and not isinstance(values[0], (int, np.integer)) else values
