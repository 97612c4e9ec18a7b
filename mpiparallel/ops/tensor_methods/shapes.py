"""What a tensor does by moving elements: other shapes and orders, pieces, repetitions, elements by their indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mpiparallel.errors import ShapeError
from mpiparallel.graph.input_checks import normal_axis
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_operations import attached
from mpiparallel.ops.application import applied
from mpiparallel.ops.indexing.gathering import Gather
from mpiparallel.ops.shapes.reshaping import BroadcastTo, ExpandDims, Reshape, Squeeze, Transpose
from mpiparallel.ops.shapes.split_concat import Unstack
from mpiparallel.ops.shapes.tiling import Tile
from mpiparallel.ops.tensor_methods.arguments import given, synonymous


@attached
class TensorShapes(Tensor):
    """Functions that keep the elements. Dims may be counted from the right."""

    def reshape(self, *shape: Any) -> Tensor:
        """Return the elements in the same order in another shape; one extent may be -1."""
        return applied(Reshape(), self, given(shape))

    view = reshape

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Return the elements in the same order, with the dims from ``start_dim`` to ``end_dim`` as one."""
        first, last = (normal_axis(dim, max(self.ndim, 1)) for dim in (start_dim, end_dim))
        if first > last:
            raise ShapeError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim} of {self.shape}; swap them")
        return self.reshape((*self.shape[:first], prod(self.shape[first : last + 1]), *self.shape[last + 1 :]))

    def ravel(self) -> Tensor:
        """Return the elements in the same order in one dim."""
        return self.flatten()

    def reshape_as(self, other: Any) -> Tensor:
        """Return the elements in the same order in the shape of another tensor."""
        return self.reshape(other.shape)

    view_as = reshape_as

    @synonymous
    def expand_dims(self, axis: int) -> Tensor:
        """Return the tensor with a new dim of one element at ``axis``."""
        return applied(ExpandDims(), self, axis)

    unsqueeze = expand_dims

    @synonymous
    def squeeze(self, axis: Any = None) -> Tensor:
        """Return the tensor without its dims ``axis`` of one element, or all such dims when it is None."""
        return applied(Squeeze(() if axis is None else axis), self)

    def transpose(self, *axes: Any) -> Tensor:
        """Return the tensor with two dims exchanged, or with all permuted; reversed when none are given.

        Two numbers are the dims to exchange, as in MindSpore 2; a sequence, or more of them, the order of all.
        """
        if len(axes) == 2:
            return self.swapaxes(*axes)
        return self.permute(*(axes or tuple(range(self.ndim))[::-1]))

    def permute(self, *axes: Any) -> Tensor:
        """Return the tensor with its dims in another order."""
        return applied(Transpose(), self, tuple(given(axes)))

    def t(self) -> Tensor:
        """Return the matrix with rows as columns."""
        return self.transpose()

    def swapaxes(self, axis0: int, axis1: int) -> Tensor:
        """Return the tensor with two dims exchanged."""
        order, first, second = list(range(self.ndim)), normal_axis(axis0, self.ndim), normal_axis(axis1, self.ndim)
        order[first], order[second] = second, first
        return self.permute(order)

    swapdims = swapaxes

    def moveaxis(self, source: int, destination: int) -> Tensor:
        """Return the tensor with dim ``source`` in the place of ``destination``, the others in their order."""
        moved, place = normal_axis(source, self.ndim), normal_axis(destination, self.ndim)
        order = [dim for dim in range(self.ndim) if dim != moved]
        order.insert(place, moved)
        return self.permute(order)

    movedim = moveaxis

    @property
    def T(self) -> Tensor:  # noqa: N802 - MindSpore's and NumPy's name
        """The tensor with its dims reversed."""
        return self.transpose()

    def broadcast_to(self, shape: Any) -> Tensor:
        """Return the tensor repeated along its dims of one element, and along new leading dims, to ``shape``."""
        return applied(BroadcastTo(shape), self)

    def expand(self, *size: Any) -> Tensor:
        """Return the tensor repeated along its dims of one element to a shape; -1 keeps an extent."""
        return self.broadcast_to(tuple(given(size)))

    def expand_as(self, other: Any) -> Tensor:
        """Return the tensor repeated along its dims of one element to the shape of another."""
        return self.broadcast_to(other.shape)

    def tile(self, *reps: Any) -> Tensor:
        """Return the tensor repeated so many times along each of its last dims."""
        return applied(Tile(), self, tuple(given(reps)))

    @synonymous
    def split(self, split_size_or_sections: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
        """Return pieces along a dim, of so many elements each, the last of what is left, or of the sizes given.

        Raises ShapeError when the sizes do not add up to the dim.
        """
        extent, wanted = self.shape[normal_axis(axis, self.ndim)], split_size_or_sections
        asked = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
        if not asked or any(type(size) is not int or size < 1 for size in asked):
            raise ShapeError(
                f"Tensor.split: pieces of {wanted!r} elements; give an integer of at least 1, or one for each"
            )
        if isinstance(wanted, int):
            sizes = [min(wanted, extent - start) for start in range(0, extent, wanted)]
        else:
            sizes = list(wanted)
        if sum(sizes) != extent:
            raise ShapeError(f"Tensor.split: sections {sizes} add up to {sum(sizes)}, but dim {axis} has {extent}")
        starts = [sum(sizes[:place]) for place in range(len(sizes))]
        return tuple(self.narrow(axis, start, size) for start, size in zip(starts, sizes, strict=True))

    @synonymous
    def chunk(self, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
        """Return ``chunks`` pieces along a dim, the last smaller or missing where they do not fit."""
        if chunks < 1:
            raise ShapeError(f"Tensor.chunk: {chunks} pieces; give a number of at least 1")
        return self.split(-(-self.shape[normal_axis(axis, self.ndim)] // chunks), axis)

    @synonymous
    def narrow(self, axis: int, start: int, length: int) -> Tensor:
        """Return ``length`` elements along a dim from ``start`` on; raise ShapeError where it has fewer."""
        dim, whole = normal_axis(axis, self.ndim), [slice(None)] * self.ndim
        if not 0 <= start <= start + length <= self.shape[dim]:
            raise ShapeError(
                f"Tensor.narrow: {length} elements from {start} on do not lie in the {self.shape[dim]} of dim {axis}"
            )
        whole[dim] = slice(start, start + length)
        return self[tuple(whole)]

    @synonymous
    def unbind(self, axis: int = 0) -> tuple[Tensor, ...]:
        """Return the slices along a dim, without that dim."""
        pieces: Any = applied(Unstack(axis), self)
        return tuple(pieces) if isinstance(pieces, (tuple, list)) else (pieces,)

    @synonymous
    def index_select(self, axis: int, index: Any) -> Tensor:
        """Return the slices along a dim at a row of indices."""
        return applied(Gather(), self, index, axis)

    def gather(self, input_indices: Any, axis: int) -> Tensor:
        """Return the slices along a dim at indices."""
        return applied(Gather(), self, input_indices, axis)

    def take(self, indices: Any, axis: int | None = None) -> Tensor:
        """Return the slices along a dim at indices, or elements of the flat tensor where no dim is given."""
        return applied(Gather(), self.flatten() if axis is None else self, indices, 0 if axis is None else axis)
