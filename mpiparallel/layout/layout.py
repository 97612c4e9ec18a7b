"""The layout of a tensor: which rank holds which box."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, product
from math import prod
from typing import Literal

from mpiparallel.errors import LayoutError
from mpiparallel.layout.box import Box
from mpiparallel.layout.cut import Cut
from mpiparallel.layout.device_matrix import DeviceMatrix, refined_axes
from mpiparallel.layout.interned import Interned

TensorMap = tuple[tuple[int, ...], ...]
Bounds = tuple[tuple[int, int], ...]
Reduction = Literal["sum", "max", "min", "prod"]

_MOST_BOXES = 16


def bounds_of(sizes: Sequence[int]) -> Bounds:
    """Return the bounds of parts of these sizes, side by side.

    >>> bounds_of((1, 7))
    ((0, 1), (1, 8))
    """
    ends = tuple(accumulate(sizes))
    return tuple(zip((0, *ends), ends, strict=False))


@dataclass(frozen=True)
class Layout(metaclass=Interned):
    """How a tensor is cut over a device matrix. Equal layouts give every rank the same box.

    Axes that cut no dim hold replicas, except those in ``partial``.

    Parameters
    ----------
    global_shape : tuple of int
        Of the whole tensor, in elements.
    devices : DeviceMatrix
        The ranks.
    tensor_map : tuple of tuple of int
        For each dim the axes that cut it, major axis first; ``()`` is an uncut dim.
    partial : tuple of int
        Axes on which each rank holds one term; the tensor is their ``reduction``.
    reduction : {"sum", "max", "min", "prod"}
        What the terms make.
    optimizer_axes : tuple of int
        They cut each part of dim 0 once more, into the shards of the parallel optimizer. A shard lies in the box that
        its rank would hold without them, however uneven the cuts.
    bounds : tuple
        For each dim ``()``, or the ``[start, stop)`` of each part where that is not the even rule's. Where operators
        read parts may then overlap and leave elements out; where a value is, they lie side by side (``tiles``).

    Raises
    ------
    LayoutError
        For axes that there are not or that are used twice, and for bounds that do not fit.

    Examples
    --------
    >>> layout = Layout((8, 6), DeviceMatrix((2, 2)), ((), (1,)))
    >>> layout.box(3)
    Box(start=(0, 3), stop=(8, 6))
    """

    global_shape: tuple[int, ...]
    devices: DeviceMatrix
    tensor_map: TensorMap
    partial: tuple[int, ...] = ()
    reduction: Reduction = "sum"
    optimizer_axes: tuple[int, ...] = ()
    bounds: tuple[Bounds, ...] = ()

    def __post_init__(self) -> None:
        if any(extent < 0 for extent in self.global_shape):
            raise LayoutError(f"global shape {self.global_shape}: give each dim an extent of 0 or more")
        used = [axis for axes in self.tensor_map for axis in axes] + [*self.partial, *self.optimizer_axes]
        if len(self.tensor_map) != len(self.global_shape):
            raise LayoutError(f"tensor map {self.tensor_map}: give each dim of {self.global_shape} one entry")
        if len(used) != len(set(used)) or any(not 0 <= axis < len(self.devices.shape) for axis in used):
            raise LayoutError(
                f"tensor map {self.tensor_map}, partial {self.partial}: each axis of device matrix "
                f"{self.devices.shape} may be used once"
            )
        if self.optimizer_axes and not self.global_shape:
            raise LayoutError("a 0-d tensor has no dim 0 for an optimizer shard to cut")
        if self.bounds and not self._bounds_fit():
            raise LayoutError(
                f"bounds {self.bounds}: give each dim () or one range for each of its {self.cuts} parts, and no "
                "optimizer shards"
            )

    @classmethod
    def replicated(cls, global_shape: tuple[int, ...], devices: DeviceMatrix) -> Layout:
        """Return the layout that gives every rank the whole tensor."""
        return cls(global_shape, devices, ((),) * len(global_shape))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        devices, cuts = self.devices, (self.tensor_map, self.partial, self.reduction, self.optimizer_axes, self.bounds)
        return hash((self.global_shape, devices, cuts))

    def _bounds_fit(self) -> bool:
        if self.optimizer_axes or len(self.bounds) != len(self.global_shape):
            return False
        return all(len(given) in (0, cut) for given, cut in zip(self.bounds, self.cuts, strict=True))

    @cached_property
    def cutting_axes(self) -> TensorMap:
        """The axes that cut each dim, with the optimizer shard's at the end of dim 0."""
        if not self.optimizer_axes:
            return self.tensor_map
        return (self.tensor_map[0] + self.optimizer_axes, *self.tensor_map[1:])

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """Into how many parts each dim is cut."""
        return tuple(prod(self.devices.shape[axis] for axis in axes) for axes in self.cutting_axes)

    @cached_property
    def dim_cuts(self) -> tuple[Cut, ...]:
        """How each dim is cut."""
        shards = prod(self.devices.shape[axis] for axis in self.optimizer_axes)
        bounds = self.bounds or ((),) * len(self.cuts)
        pairs = zip(self.cuts, bounds, strict=True)
        return tuple(Cut(parts, 1 if dim else shards, given) for dim, (parts, given) in enumerate(pairs))

    @cached_property
    def replica_axes(self) -> tuple[int, ...]:
        """The axes along which ranks hold equal boxes, partial ones left out."""
        used = {axis for axes in self.cutting_axes for axis in axes} | set(self.partial)
        return tuple(axis for axis in range(len(self.devices.shape)) if axis not in used)

    @cached_property
    def replica_count(self) -> int:
        """How many ranks hold each box."""
        return prod(self.devices.shape[axis] for axis in self.replica_axes)

    def parts(self, rank: int) -> tuple[int, ...]:
        """Return the index of the part that ``rank`` holds of each dim."""
        here = self.devices.coordinates(rank)
        return tuple(self._mixed_radix(here, axes) for axes in self.cutting_axes)

    def replica(self, rank: int) -> int:
        """Return which of the ``replica_count`` copies ``rank`` holds."""
        return self._mixed_radix(self.devices.coordinates(rank), self.replica_axes)

    def rank_at(self, parts: tuple[int, ...], replica: int = 0) -> int:
        """Return the rank that holds copy ``replica`` of ``parts``."""
        place = [0] * len(self.devices.shape)
        for axes, index in [*zip(self.cutting_axes, parts, strict=True), (self.replica_axes, replica)]:
            for axis in reversed(axes):
                index, place[axis] = divmod(index, self.devices.shape[axis])
        return self.devices.rank_at(place)

    def _mixed_radix(self, coordinates: tuple[int, ...], axes: tuple[int, ...]) -> int:
        index = 0
        for axis in axes:
            index = index * self.devices.shape[axis] + coordinates[axis]
        return index

    def box_of_parts(self, parts: tuple[int, ...]) -> Box:
        """Return the box of the part with index ``parts[dim]`` in each dim."""
        dims = zip(self.dim_cuts, self.global_shape, parts, strict=True)
        bounds = [cut.bounds(extent, part) for cut, extent, part in dims]
        return Box(tuple(start for start, _ in bounds), tuple(stop for _, stop in bounds))

    def box(self, rank: int) -> Box:
        """Return the elements of the global tensor that ``rank`` holds."""
        found = self._boxes.get(rank)
        if found is None:
            if len(self._boxes) >= _MOST_BOXES:
                self._boxes.clear()
            found = self._boxes[rank] = self.box_of_parts(self.parts(rank))
        return found

    @cached_property
    def _boxes(self) -> dict[int, Box]:
        # A process asks again and again for its own rank; boxes of all ranks would need much memory.
        return {}

    def local_shape(self, rank: int) -> tuple[int, ...]:
        """Return the shape of what ``rank`` holds."""
        return self.box(rank).shape

    @cached_property
    def tiles(self) -> bool:
        """Whether every element is in exactly one part, as a stored value needs it; only ``bounds`` can overlap."""
        for extent, given in zip(self.global_shape, self.bounds, strict=False):
            ends = [0, *(stop for _, stop in given)]
            if given and (ends[-1] != extent or ends != sorted(ends) or [start for start, _ in given] != ends[:-1]):
                return False
        return True

    @cached_property
    def largest_size(self) -> int:
        """How many elements a rank holds at most; even cuts make the first part the largest."""
        bounds = self.bounds or ((),) * len(self.global_shape)
        sizes = [max((stop - start for start, stop in given), default=0) for given in bounds]
        first = self.even().box_of_parts((0,) * len(self.global_shape)).shape
        return prod(size if given else even for size, given, even in zip(sizes, bounds, first, strict=True))

    def parts_over(self, box: Box) -> Iterator[tuple[int, ...]]:
        """Yield the parts that share an element with ``box``, found by arithmetic, not by a walk over ranks."""
        if not box.empty:
            dims = zip(self.dim_cuts, self.global_shape, box.start, box.stop, strict=True)
            yield from product(*(cut.between(extent, start, stop) for cut, extent, start, stop in dims))

    def replica_group(self, rank: int) -> tuple[int, ...]:
        """Return the ranks, ascending, whose box is that of ``rank``."""
        return self.devices.group(rank, self.replica_axes)

    def partial_group(self, rank: int) -> tuple[int, ...]:
        """Return the ranks, ascending, whose terms make up what ``rank`` holds one term of."""
        return self.devices.group(rank, self.partial)

    def reduced(self) -> Layout:
        """Return this layout with its partial axes reduced: replicas instead of terms."""
        return replace(self, partial=(), reduction="sum") if self.partial else self

    def even(self) -> Layout:
        """Return this layout with all parts by the even rule."""
        return replace(self, bounds=()) if self.bounds else self

    def with_bounds(self, bounds: Sequence[Bounds]) -> Layout:
        """Return this layout with these bounds; the layout itself where they are the even rule's.

        >>> Layout((8,), DeviceMatrix((2,)), ((0,),)).with_bounds([((0, 5), (3, 8))]).box(1)
        Box(start=(3,), stop=(8,))
        """
        told = [() if given == self.even().dim_bounds(dim) else given for dim, given in enumerate(bounds)]
        return replace(self, bounds=tuple(told) if any(told) else ())

    def dim_bounds(self, dim: int) -> Bounds:
        """Return the ``[start, stop)`` of each part of a dim."""
        cut, extent = self.dim_cuts[dim], self.global_shape[dim]
        return tuple(cut.bounds(extent, part) for part in range(cut.parts))

    def on_ranks(self, ranks: Sequence[int]) -> Layout:
        """Return this layout with ``ranks`` at the places of its device matrix, in order.

        >>> Layout((8,), DeviceMatrix((2,)), ((0,),)).on_ranks([5, 3]).box(3)
        Box(start=(4,), stop=(8,))
        """
        return replace(self, devices=DeviceMatrix(self.devices.shape, ranks=tuple(ranks)))

    def reshaped_devices(self, shape: tuple[int, ...]) -> Layout:
        """Return the same layout over a device matrix whose axes merge to this one's.

        >>> Layout((8,), DeviceMatrix((4,)), ((0,),)).reshaped_devices((2, 2)).tensor_map
        ((0, 1),)
        """
        if shape == self.devices.shape:
            return self
        if prod(shape) != self.devices.size:
            raise LayoutError(f"device matrix {shape} does not refine {self.devices.shape}")
        pieces = refined_axes(self.devices.shape, shape)

        def spread(axes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(piece for axis in axes for piece in pieces[axis])

        found = Layout(
            self.global_shape,
            self.devices.reshaped(shape),
            tuple(spread(axes) for axes in self.tensor_map),
            spread(self.partial),
            self.reduction,
            spread(self.optimizer_axes),
            self.bounds,
        )
        if "canonical" in vars(self):
            # Both put every element on the same ranks.
            vars(found).setdefault("canonical", self.canonical)
        return found

    @cached_property
    def canonical(self) -> Layout:
        """The same layout over the coarsest device matrix: no axis of one device, no two axes that could be one.

        Two layouts put every element on the same ranks when their canonical layouts are equal.

        >>> Layout((8, 6), DeviceMatrix((2, 4, 1)), ((0,), (2,))).canonical.devices.shape
        (2, 4)
        """
        roles: list[tuple[int, tuple[str, int, int]]] = []
        for axis, extent in enumerate(self.devices.shape):
            if extent > 1:
                roles.append((extent, self._role(axis)))
        merged: list[list[tuple[int, tuple[str, int, int]]]] = []
        for extent, role in roles:
            if merged and self._continues(merged[-1][-1][1], role):
                merged[-1].append((extent, role))
            else:
                merged.append([(extent, role)])
        found: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for axis, members in enumerate(merged):
            kind, dim, place = members[0][1]
            found.setdefault((kind, dim), []).append((place, axis))

        def axes(kind: str, dim: int) -> tuple[int, ...]:
            return tuple(axis for _, axis in sorted(found.get((kind, dim), [])))

        return Layout(
            self.global_shape,
            self.devices.reshaped(tuple(prod(extent for extent, _ in members) for members in merged)),
            tuple(axes("cut", dim) for dim in range(len(self.global_shape))),
            axes("partial", 0),
            self.reduction if axes("partial", 0) else "sum",
            axes("optimizer", 0),
            self.bounds,
        )

    def _role(self, axis: int) -> tuple[str, int, int]:
        """Return what ``axis`` does: its kind, the dim, and its place among the axes of one device or more there."""
        for dim, axes in enumerate(self.tensor_map):
            if axis in axes:
                return "cut", dim, self._place(axis, axes)
        if axis in self.optimizer_axes:
            return "optimizer", 0, self._place(axis, self.optimizer_axes)
        return ("partial" if axis in self.partial else "replica"), 0, 0

    def _place(self, axis: int, axes: tuple[int, ...]) -> int:
        return [other for other in axes if self.devices.shape[other] > 1].index(axis)

    @staticmethod
    def _continues(before: tuple[str, int, int], role: tuple[str, int, int]) -> bool:
        kind, dim, place = role
        if kind in ("replica", "partial"):
            return before[0] == kind
        return before == (kind, dim, place - 1)

    def __str__(self) -> str:
        dims = zip(self.global_shape, self.cuts, strict=True)
        cuts = " x ".join(f"{extent}/{parts}" if parts > 1 else str(extent) for extent, parts in dims)
        extra = f", partial {self.reduction} over axes {self.partial}" if self.partial else ""
        return f"[{cuts}] on {self.devices.shape}{extra}"
