"""MindSpore's functions that are methods of tensors: statistics, pieces, comparisons, casts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.remark import no_effect


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(x)


def sum(input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Return the sum over dims, all when none are given."""
    return _tensor(input).sum(dim, keepdim, dtype)


def prod(input: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None) -> Tensor:
    """Return the product over dims, all when none are given."""
    return _tensor(input).prod(axis, keep_dims, dtype)


def all(input: Any, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Return whether all elements over dims hold."""
    return _tensor(input).all(axis, keep_dims)


def any(input: Any, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Return whether any element over dims holds."""
    return _tensor(input).any(axis, keep_dims)


def amax(input: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the largest element over dims, all when none are given."""
    return _tensor(input).max(axis, keepdims)


def amin(input: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the smallest element over dims, all when none are given."""
    return _tensor(input).min(axis, keepdims)


def var(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """Return the variance over dims, of ``count - ddof`` degrees of freedom."""
    return _tensor(input).var(axis, ddof, keepdims)


def std(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """Return the square root of the variance."""
    return _tensor(input).std(axis, ddof, keepdims)


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:  # noqa: N803
    """Return a norm over dims, as ``Tensor.norm`` does."""
    return _tensor(A).norm(ord, dim, keepdim, dtype=dtype)


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Tensor:
    """Return the logarithm of the sum of e to the power of the elements over dims."""
    return _tensor(input).logsumexp(dim, keepdim)


def permute(input: Any, axis: Sequence[int]) -> Tensor:
    """Return the tensor with dims permuted."""
    return _tensor(input).transpose(tuple(axis))


def swapaxes(input: Any, axis0: int, axis1: int) -> Tensor:
    """Return the tensor with two dims exchanged."""
    return _tensor(input).swapaxes(axis0, axis1)


def swapdims(input: Any, dim0: int, dim1: int) -> Tensor:
    """Return the tensor with two dims exchanged."""
    return _tensor(input).swapaxes(dim0, dim1)


def moveaxis(x: Any, source: int, destination: int) -> Tensor:
    """Return the tensor with dim ``source`` in the place of ``destination``."""
    return _tensor(x).moveaxis(source, destination)


def unsqueeze(input: Any, dim: int) -> Tensor:
    """Return the tensor with a new dim of one element at ``dim``."""
    return _tensor(input).expand_dims(dim)


def expand(input_x: Any, size: Sequence[int]) -> Tensor:
    """Return the tensor repeated along its dims of one element to a shape; -1 keeps an extent."""
    return _tensor(input_x).expand(tuple(size))


def unbind(input: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along a dim, without that dim."""
    return _tensor(input).unbind(dim)


def narrow(input: Any, axis: int, start: int, length: int) -> Tensor:
    """Return ``length`` elements along a dim from ``start`` on."""
    return _tensor(input).narrow(axis, start, length)


def chunk(input: Any, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Return ``chunks`` pieces along a dim, the last smaller or missing where they do not fit."""
    return _tensor(input).chunk(chunks, axis)


def index_select(input: Any, axis: int, index: Any) -> Tensor:
    """Return the slices along a dim at a row of indices."""
    return _tensor(input).index_select(axis, index)


def clamp(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """Return the tensor with elements below ``min`` raised to it, and those above ``max`` lowered."""
    return _tensor(input).clip(min, max)


def clip(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """Return the tensor with elements below ``min`` raised to it, and those above ``max`` lowered."""
    return _tensor(input).clip(min, max)


def isnan(input: Any) -> Tensor:
    """Return which elements are no number."""
    return _tensor(input).isnan()


def isfinite(input: Any) -> Tensor:
    """Return which elements are neither infinite nor no number."""
    return _tensor(input).isfinite()


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return where elements differ by at most ``atol + rtol * abs(other)``; by ``equal_nan`` also two NaN."""
    return _tensor(input).isclose(other, rtol, atol, equal_nan)


def lerp(input: Any, end: Any, weight: Any) -> Tensor:
    """Return ``input``, moved by ``weight`` towards ``end``."""
    return _tensor(input).lerp(end, weight)


def logical_xor(input: Any, other: Any) -> Tensor:
    """Return where one of two bool tensors holds, and not both."""
    return _tensor(input).logical_xor(other)


def numel(input: Any) -> int:
    """Return the number of elements of the whole tensor."""
    return _tensor(input).numel()


def mm(input: Any, mat2: Any) -> Tensor:
    """Return the product of two matrices."""
    return _tensor(input).matmul(mat2)


def bmm(input_x: Any, mat2: Any) -> Tensor:
    """Return the products of matrices, one a row."""
    return _tensor(input_x).matmul(mat2)


def max(input: Any, axis: int | None = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest element along a dim, or of all, and its index (int64); of equal ones the first.

    Of all elements both are scalars, whatever ``keepdims`` says.
    """
    return _found(_tensor(input), "max", axis, keepdims)


def min(input: Any, axis: int | None = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Return the smallest element along a dim, or of all, and its index (int64); of equal ones the first.

    Of all elements both are scalars, whatever ``keepdims`` says.
    """
    return _found(_tensor(input), "min", axis, keepdims)


def _found(x: Tensor, name: str, axis: int | None, keepdims: bool) -> tuple[Tensor, Tensor]:
    if axis is None:
        no_effect(f"ops.{name}", "keepdims", keepdims, "without an axis the result is a scalar", default=False)
        return getattr(x, name)(), getattr(x, f"arg{name}")()
    return getattr(x, name)(axis, keepdims), getattr(x, f"arg{name}")(axis, keepdims)


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return ``beta * input + alpha * mat1 @ mat2``."""
    return _tensor(input) * beta + _tensor(mat1).matmul(mat2) * alpha


def dense(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """Return ``input @ weight.T + bias`` along the last dim of ``input``."""
    x = _tensor(input)
    rows = x if x.ndim == 2 else x.reshape((-1, x.shape[-1]))
    product: Tensor = operations.MatMul(transpose_b=True)(rows, weight)
    out = product if bias is None else product + bias
    return out if x.ndim == 2 else out.reshape((*x.shape[:-1], out.shape[-1]))
