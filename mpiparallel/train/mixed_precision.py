"""Which parts of a network compute in floats of 16 bits: by a level, or by lists of cells and operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from mpiparallel.dtype import is_narrow
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.precision import OneType, TypeByOperator
from mpiparallel.nn.batch_norm import BatchNorm1d, BatchNorm2d
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.conv import Conv2d
from mpiparallel.nn.dense import Dense
from mpiparallel.nn.layer_norm import LayerNorm
from mpiparallel.ops.elementwise import ReLU
from mpiparallel.ops.images.convolution.convolution import Conv2D, Conv2DBackpropInput
from mpiparallel.ops.matrix_product import BatchMatMul, MatMul

LEVELS: Final = ("O0", "O1", "O2", "O3", "auto")
_FULL: Final = np.dtype(np.float32)
_WHITE: Final = (Conv2d, Dense, Conv2D, Conv2DBackpropInput, MatMul, BatchMatMul, ReLU)
_BLACK: Final = (BatchNorm1d, BatchNorm2d, LayerNorm)

AUTO_NARROW: Final = frozenset(("Conv2D", "MatMul", "BatchMatMul"))
"""Operators that "auto" computes in 16 bits."""
AUTO_WIDE: Final = frozenset(
    (
        *("Pow", "ACos", "Asin", "Cosh", "Erfinv", "Exp", "Expm1", "Log", "Log1p", "Reciprocal", "Rsqrt", "Sinh"),
        *("Softplus", "ReduceProd", "Softmax", "LogSoftmax", "CumSum"),
        *("LayerNorm", "BNMoments", "BNInfer", "BNTrainingReduce", "BNTrainingUpdate"),
        *("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "SigmoidCrossEntropyWithLogits"),
    )
)
"""Operators that "auto" computes in float32."""
AUTO_COMMON: Final = frozenset(("BiasAdd", "AddN", "Concat"))
"""Operators that "auto" computes in the widest type of their inputs."""


def get_white_list() -> list[type[Any]]:
    """Return the classes of cells and operators that level O1 computes in 16 bits: those of MindSpore's that are here.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> nn.Dense in get_white_list()
    True
    """
    return list(_WHITE)


def get_black_list() -> list[type[Cell]]:
    """Return the classes of cells that level O2 leaves in float32: those of MindSpore's that are here.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> get_black_list()[-1] is nn.LayerNorm
    True
    """
    return list(_BLACK)


def auto_mixed_precision(
    network: Cell, amp_level: str = "O0", dtype: Any = np.float16, keep_batchnorm_fp32: bool | None = None
) -> Cell:
    """Let a network compute as ``amp_level`` says, and return it; parameters stay as they are.

    Floats that it returns are float32, unless nothing is changed. bfloat16 has the range of float32, so its losses
    need no scale.

    Parameters
    ----------
    network : Cell
        It is changed. Cells of it for which ``to_float`` was called keep that in O1 and "auto".
    amp_level : str
        "O0" changes nothing. "O1" computes in ``dtype`` what ``get_white_list`` has. "O2" computes all in it but batch
        and layer norms and losses, "O3" all but losses. "auto" decides by operator. Products and convolutions are in
        ``dtype``; exponentials, logarithms, norms, softmax and losses in float32. Sums, concatenations and biases are
        in the widest type among their inputs, all else in the type that comes.
    dtype
        float16 or bfloat16.
    keep_batchnorm_fp32 : bool, optional
        Whether norms stay in float32, where that is not to follow from O2 or O3.

    Returns
    -------
    Cell
        ``network``.

    Raises
    ------
    ConfigurationError
        For an unknown level, for another ``dtype`` and for what is no cell.

    Examples
    --------
    >>> from mpiparallel import Tensor, nn
    >>> network = auto_mixed_precision(nn.Dense(2, 3), "O1")
    >>> network(Tensor([[1.0, 2.0]])).dtype
    mpiparallel.float32
    """
    narrow = _checked(network, "auto_mixed_precision", dtype)
    level = checked_level(amp_level)
    if level == "O1":
        _narrow_listed(network, _WHITE, narrow)
    elif level == "auto":
        _decide_by_operator(network, narrow)
    elif level != "O0":
        keep = level == "O2" if keep_batchnorm_fp32 is None else keep_batchnorm_fp32
        kept = [one for one in _inside(network) if one.keeps_float32 and (keep or not tuple(one.get_parameters()))]
        _narrow_others(network, kept, narrow)
    return network


def custom_mixed_precision(
    network: Cell,
    *,
    white_list: Iterable[type[Any]] | None = None,
    black_list: Iterable[type[Any]] | None = None,
    dtype: Any = np.float16,
) -> Cell:
    """Let the cells and operators of a list compute in floats of 16 bits, or all cells but those of a list.

    Parameters
    ----------
    network : Cell
        It is changed, and returns float32.
    white_list : list of classes, optional
        Cells and operators that compute in ``dtype``; what they return is float32 again.
    black_list : list of classes of cells, optional
        Cells that stay in float32, while all others compute in ``dtype``. Give one of both lists.
    dtype
        float16 or bfloat16.

    Returns
    -------
    Cell
        ``network``.

    Raises
    ------
    ConfigurationError
        For none of the lists or both, and for what is no class of cells or operators.

    Examples
    --------
    >>> from mpiparallel import Tensor, nn, ops
    >>> network = custom_mixed_precision(nn.Dense(2, 3), white_list=[ops.MatMul])
    >>> network(Tensor([[1.0, 2.0]])).dtype
    mpiparallel.float32
    """
    narrow = _checked(network, "custom_mixed_precision", dtype)
    if (white_list is None) == (black_list is None):
        raise ConfigurationError("custom_mixed_precision: give white_list or black_list, one of both")
    if white_list is not None:
        _narrow_listed(network, _classes("white_list", white_list, (Cell, Operator)), narrow)
    else:
        wide = _classes("black_list", black_list or (), (Cell,))
        _narrow_others(network, [one for one in _inside(network) if isinstance(one, wide)], narrow)
    return network


def checked_level(level: str) -> str:
    """Return a level; raise ConfigurationError for one that there is not."""
    if level not in LEVELS:
        raise ConfigurationError(f"amp_level {level!r} is not one of {', '.join(map(repr, LEVELS))}")
    return level


def _checked(network: Cell, function: str, dtype: Any) -> np.dtype[Any]:
    if not isinstance(network, Cell):
        raise ConfigurationError(f"{function}: network is a {type(network).__name__}; give a Cell")
    if not is_narrow(np.dtype(dtype)):
        raise ConfigurationError(f"{function}: dtype {np.dtype(dtype)} is neither float16 nor bfloat16")
    narrow: np.dtype[Any] = np.dtype(dtype)
    return narrow


def _classes(name: str, given: Iterable[Any], kinds: tuple[type[Any], ...]) -> tuple[type[Any], ...]:
    for one in given:
        if not (isinstance(one, type) and issubclass(one, kinds)):
            known = " or ".join(kind.__name__ for kind in kinds)
            raise ConfigurationError(f"custom_mixed_precision: {one!r} of {name} is no class of a {known}")
    return tuple(given)


def _inside(network: Cell) -> list[Cell]:
    return [cell for _, cell in network.cells_and_names()]


def _narrow_listed(network: Cell, classes: Iterable[type[Any]], dtype: np.dtype[Any]) -> None:
    """Let what is of ``classes`` compute in ``dtype`` and return float32, unless a cell around it says otherwise."""
    listed = tuple(classes)
    names = frozenset(one.__name__ for one in listed if issubclass(one, Operator))
    for cell in _inside(network):
        if cell.precision is None and type(cell) in listed:
            cell.to_float(dtype)
            cell.set_precision(cell.precision, _FULL)
    _set_where_none(network, TypeByOperator(dtype, names, gives_wide=True))


def _decide_by_operator(network: Cell, dtype: np.dtype[Any]) -> None:
    for cell in _inside(network):
        if cell.precision is None and cell.keeps_float32:
            cell.to_float(_FULL)
    _set_where_none(network, TypeByOperator(dtype, AUTO_NARROW, AUTO_WIDE, AUTO_COMMON))
    network.set_precision(network.precision, _FULL)


def _narrow_others(network: Cell, kept: Iterable[Cell], dtype: np.dtype[Any]) -> None:
    """Let all cells compute in ``dtype`` but those ``kept``; norms among these return it, as what is around them."""
    network.to_float(dtype)
    for cell in kept:
        cell.to_float(_FULL)
        cell.set_precision(cell.precision, dtype if tuple(cell.get_parameters()) else None)
    network.set_precision(network.precision, _FULL)


def _set_where_none(network: Cell, precision: OneType | TypeByOperator) -> None:
    for cell in _inside(network):
        if cell.precision is None:
            cell.set_precision(precision)
