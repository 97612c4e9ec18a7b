"""Values and norms kept within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.compatibility.arguments import only
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.elementwise import Maximum, Minimum, Sqrt, Square
from mpiparallel.ops.reductions.reduction import ReduceSum
from mpiparallel.ops.reductions.sum_of_squares import L2Loss


def clip_by_global_norm(x: Sequence[Tensor], clip_norm: float = 1.0, use_norm: Any = None) -> tuple[Tensor, ...]:
    """Return tensors scaled so that the norm of all their elements together is at most ``clip_norm``.

    The norm is that of the whole tensors, wherever they are cut.

    Parameters
    ----------
    x : sequence of Tensor
        Floating point, of any shapes.
    clip_norm : float
        Above 0.
    use_norm
        None.

    Returns
    -------
    tuple of Tensor
        Of the same shapes and dtypes.

    Raises
    ------
    ConfigurationError
        Unless ``clip_norm`` is above 0 and ``use_norm`` None, and when there is no tensor.

    Examples
    --------
    >>> [part.asnumpy().tolist() for part in clip_by_global_norm((Tensor([3.0]), Tensor([4.0])), 1.0)]
    [[0.6000000238418579], [0.800000011920929]]
    """
    if not clip_norm > 0:
        raise ConfigurationError(f"clip_by_global_norm: clip_norm {clip_norm!r} must be above 0")
    only("clip_by_global_norm", "use_norm", use_norm, None)
    if not x:
        raise ConfigurationError("clip_by_global_norm: there is no tensor to clip; give at least one")
    halves = [L2Loss()(part) for part in x]
    total = halves[0]
    for half in halves[1:]:
        total = total + half
    scale = clip_norm / Maximum()(Sqrt()(total * 2.0), clip_norm)
    return tuple(part * scale for part in x)


def clip_by_norm(
    x: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, *, axis: Any = ()
) -> Tensor:
    """Return a tensor scaled so that its norm is at most ``max_norm``.

    Parameters
    ----------
    x : Tensor or array
        Floating point, of any shape.
    max_norm : float
        Above 0.
    norm_type : float
        2.
    error_if_nonfinite : bool
        False.
    axis : int or tuple of int
        The dims of which it is the norm; all when none are given.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    ConfigurationError
        Unless ``max_norm`` is above 0, for another ``norm_type``, and for ``error_if_nonfinite``.

    Examples
    --------
    >>> clip_by_norm(Tensor([3.0, 4.0]), 2.5).asnumpy().tolist()
    [1.5, 2.0]
    """
    only("clip_by_norm", "norm_type", float(norm_type), 2.0)
    only("clip_by_norm", "error_if_nonfinite", error_if_nonfinite, False, "LossGuard looks for such numbers")
    if not max_norm > 0:
        raise ConfigurationError(f"clip_by_norm: max_norm {max_norm!r} must be above 0")
    tensor = x if isinstance(x, Tensor) else Tensor(x)
    norm = Sqrt()(ReduceSum(keep_dims=True)(Square()(tensor), axis))
    scale: Tensor = max_norm / Maximum()(norm, max_norm)
    return tensor * scale


def clip_by_value(x: Any, clip_value_min: Any = None, clip_value_max: Any = None) -> Tensor:
    """Return a tensor with elements below ``clip_value_min`` raised to it, and those above ``clip_value_max`` lowered.

    Parameters
    ----------
    x : Tensor, array or number
        Numbers of any shape.
    clip_value_min, clip_value_max : Tensor, array or number, optional
        The bounds, of which one may be left out.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    ConfigurationError
        When both are left out.

    Examples
    --------
    >>> clip_by_value(Tensor([-2.0, 0.5, 2.0]), -1.0, 1.0).asnumpy().tolist()
    [-1.0, 0.5, 1.0]
    """
    if clip_value_min is None and clip_value_max is None:
        raise ConfigurationError("clip_by_value: give clip_value_min, clip_value_max, or both")
    raised = x if clip_value_min is None else Maximum()(x, clip_value_min)
    result: Tensor = raised if clip_value_max is None else Minimum()(raised, clip_value_max)
    return result
