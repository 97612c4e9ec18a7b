"""Tensors that an initializer fills, asked for by name, by number or by rule."""

from __future__ import annotations

import copy
import difflib
import inspect
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.context.settings import next_unnamed
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.initializer.constant import Constant
from mpiparallel.nn.initializer.rule import INITIALIZERS, Initializer


def initializer(init: Any, shape: int | Sequence[int] | None = None, dtype: Any = np.float32) -> Tensor:
    """Return a tensor that is filled when its parameter is placed; each rank fills only its slice.

    Its values depend on the seed, the tensor's name and an element's index, never on the cut.

    Parameters
    ----------
    init : str, Initializer, number or Tensor
        An Initializer, the name of one ("XavierUniform", "normal", "zeros", "he_normal", ..., in any case), a number,
        or a tensor of ``shape``, which is returned.
    shape : int or sequence of int, optional
        In elements.
    dtype : dtype
        Of the tensor.

    Returns
    -------
    Tensor
        ``has_init`` until its values are needed.

    Raises
    ------
    ConfigurationError
        For an unknown name, for an extent below 1, and for a tensor of another shape.

    Examples
    --------
    >>> initializer("ones", [2, 2]).asnumpy().tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    given: Any = (shape,) if isinstance(shape, numbers.Integral) else shape
    extents: tuple[int, ...] | None = None if given is None else tuple(given)
    if isinstance(init, Tensor):
        if extents is not None and init.shape != extents:
            raise ConfigurationError(f"initializer: the tensor has shape {init.shape}, but {extents} is asked for")
        return init
    if any(not isinstance(extent, numbers.Integral) or extent < 1 for extent in extents or ()):
        raise ConfigurationError(f"initializer: shape {extents} must be made of integers of at least 1")
    rule = copy.copy(init) if isinstance(init, Initializer) else _rule(init)
    rule.serial = next_unnamed()
    return Tensor(shape=extents or (), dtype=dtype, init=rule)


def _rule(init: Any) -> Initializer:
    if isinstance(init, numbers.Number):
        return Constant(init)
    if inspect.isclass(init) and issubclass(init, Initializer):
        raise ConfigurationError(f"initializer: {init.__name__} is a class; give {init.__name__}() or its name")
    if not isinstance(init, str):
        raise ConfigurationError(
            f"initializer: init is a {type(init).__name__}; give a name, a number, a Tensor or an Initializer"
        )
    if init.lower() not in INITIALIZERS:
        near = difflib.get_close_matches(init.lower(), INITIALIZERS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"initializer {init!r} is not one of {', '.join(sorted(INITIALIZERS))}{hint}")
    kind = INITIALIZERS[init.lower()]
    required = [one for one in inspect.signature(kind).parameters.values() if one.default is one.empty]
    if any(one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL) for one in required):
        raise ConfigurationError(
            f"initializer {init!r} needs {required[0].name}; give {kind.__name__}({required[0].name}=...)"
        )
    return kind()
