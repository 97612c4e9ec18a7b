"""From one layout of a tensor to another inside a step: which collective, over which ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import lru_cache
from math import prod

from mpiparallel.dataclass import dataclass
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix, common_refinement
from mpiparallel.layout.layout import Bounds, Layout

_MOST_PAIRS = 1 << 12


@dataclass(frozen=True)
class Redistribution:
    """One step between two layouts: its kind, and the axes along which it or its adjoint exchanges.

    ``kind`` is ``reduce`` (AllReduce), ``reduce_scatter``, ``gather`` (AllGather), ``slice`` (no communication) or
    ``exchange`` (boxes between peers). One that ``continues`` a move takes what the step before it leaves.
    """

    kind: str
    source: Layout
    target: Layout
    axes: tuple[int, ...]
    continues: bool = field(default=False, compare=False)

    def ranks(self, rank: int) -> tuple[int, ...]:
        """Return the ranks, ascending, with which ``rank`` exchanges in the step or in its adjoint."""
        return self.source.devices.group(rank, self.axes)

    @property
    def blocked_dim(self) -> int:
        """The dim whose blocks a ``reduce_scatter`` leaves and a ``gather`` joins."""
        return _changed_dims(self.source, self.target)[0]


@lru_cache(_MOST_PAIRS)
def redistribute(source: Layout, target: Layout) -> tuple[Redistribution, ...]:
    """Return the steps from ``source``, which may be partial, to ``target``, which may not; none when nothing moves.

    The parts of ``target`` may overlap: then, in one exchange, each rank gets the elements that it lacks from ranks
    that hold them.
    """
    if source.canonical == target.canonical:
        return ()
    shape = common_refinement(source.devices.shape, target.devices.shape)
    if shape is None or source.bounds:
        steps = _over_all(source, target)
    else:
        steps = _along_axes(source.reshaped_devices(shape), target.reshaped_devices(shape))
    return (*steps[:1], *(replace(step, continues=True) for step in steps[1:]))


def _along_axes(source: Layout, target: Layout) -> list[Redistribution]:
    """Return the steps between layouts on one device matrix."""
    steps = []
    if source.partial:
        scattered = _scattered_axes(source, target)
        if scattered:
            rest = tuple(axis for axis in source.partial if axis not in scattered)
            terms = replace(target.even(), partial=rest)
            steps.append(Redistribution("reduce_scatter", source, terms, scattered))
            source = terms
        if source.partial:
            steps.append(Redistribution("reduce", source, source.reduced(), source.partial))
            source = source.reduced()
    if source.canonical != target.canonical and not _has_boxes_of(source, target):
        steps.append(_move(source, target))
    return steps


def _over_all(source: Layout, target: Layout) -> list[Redistribution]:
    """Return the steps between layouts whose device matrices have no common refinement, or from uneven parts."""
    steps = []
    if source.partial:
        steps.append(Redistribution("reduce", source, source.reduced(), source.partial))
        source = source.reduced()
    if source.canonical == target.canonical:
        return steps
    everything = tuple(range(len(source.devices.shape)))
    if all(cut == 1 for cut in source.cuts):
        return [*steps, Redistribution("slice", source, target, everything)]
    return [*steps, Redistribution("exchange", source, target, everything)]


def _scattered_axes(source: Layout, target: Layout) -> tuple[int, ...]:
    """Return the partial axes along which summing and cutting into equal blocks leads to the target; () for none.

    The cut comes first where only some partial axes are cut: the rest is then summed of a block, not of the whole.
    """
    grown = _changed_dims(source, target)
    if source.reduction != "sum" or len(grown) != 1:
        return ()
    before, after = source.cutting_axes[grown[0]], target.cutting_axes[grown[0]]
    axes = after[len(before) :]
    nests = after[: len(before)] == before and set(axes) <= set(source.partial)
    return axes if nests and _has_equal_blocks(target, grown[0], axes) else ()


def _gathered_axes(source: Layout, target: Layout) -> tuple[int, ...]:
    """Return the axes whose blocks, joined along one dim, make the target; () where it takes more than that."""
    shrunk = _changed_dims(source, target)
    if len(shrunk) != 1 or target.bounds:
        return ()
    before, after = source.cutting_axes[shrunk[0]], target.cutting_axes[shrunk[0]]
    axes = before[len(after) :]
    return axes if before[: len(after)] == after and _has_equal_blocks(source, shrunk[0], axes) else ()


def _has_boxes_of(source: Layout, target: Layout) -> bool:
    """Return whether a shard of the optimizer is the very part that an even cut by the same axes leaves."""
    if target.bounds or _changed_dims(source, target):
        return False
    return all(
        _cut_of(source, dim) == _cut_of(target, dim) or extent % source.cuts[dim] == 0
        for dim, extent in enumerate(source.global_shape)
    )


def _changed_dims(source: Layout, target: Layout) -> list[int]:
    """Return the dims that other axes cut."""
    pairs = zip(source.cutting_axes, target.cutting_axes, strict=True)
    return [dim for dim, (before, after) in enumerate(pairs) if before != after]


def _has_equal_blocks(layout: Layout, dim: int, axes: tuple[int, ...]) -> bool:
    """Return whether a dim is cut evenly, and the blocks along its last ``axes`` lie in the order of their ranks."""
    return axes == tuple(sorted(axes)) and layout.global_shape[dim] % layout.cuts[dim] == 0


def _cut_of(layout: Layout, dim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes that cut a dim, and those of the optimizer's shard inside: together they say its bounds."""
    return layout.tensor_map[dim], layout.optimizer_axes if dim == 0 else ()


def _stays(source: Layout, target: Layout, dim: int) -> bool:
    """Return whether no rank needs elements that it does not hold, as far as this dim goes."""
    if _cut_of(source, dim) != _cut_of(target, dim):
        return False
    pairs = zip(source.dim_bounds(dim), target.dim_bounds(dim), strict=True) if target.bounds else ()
    return all(first >= last or (start <= first and last <= stop) for (start, stop), (first, last) in pairs)


def _move(source: Layout, target: Layout) -> Redistribution:
    gathered = _gathered_axes(source, target)
    if gathered:
        return Redistribution("gather", source, target, gathered)
    changed: set[int] = set()
    nested = True
    for dim, (before, after) in enumerate(zip(source.cutting_axes, target.cutting_axes, strict=True)):
        if _stays(source, target, dim):
            continue
        even = not (target.bounds and target.bounds[dim])
        kept = _common_start(source, source.global_shape[dim], before, after) if even else 0
        changed |= set(before[kept:]) | set(after[kept:])
        nested &= kept == len(before)
    return Redistribution("slice" if nested else "exchange", source, target, tuple(sorted(changed)))


def _common_start(layout: Layout, extent: int, before: tuple[int, ...], after: tuple[int, ...]) -> int:
    """Return how many leading axes cut a dim alike in both; none where a cut is uneven, as parts then do not nest."""
    parts = [prod(layout.devices.shape[axis] for axis in axes) for axes in (before, after)]
    if any(extent % count for count in parts):
        return 0
    pairs = enumerate(zip(before, after, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(before), len(after)))


def group_layouts(step: Redistribution, rank: int) -> tuple[Layout, Layout]:
    """Return the layouts of a step as the ranks that exchange with ``rank`` see them, numbered from 0.

    If a dim stays as it is cut, or is cut by the same leading axes, these ranks share one part of it. For the group
    that part is the whole dim.
    """
    source, target = step.source, step.target
    if source.devices.shape != target.devices.shape or source.bounds:
        return _numbered_from_0(source), _numbered_from_0(target)
    renumbered = {axis: index for index, axis in enumerate(step.axes)}
    matrix = DeviceMatrix(tuple(source.devices.shape[axis] for axis in step.axes))
    shape, bounds = [], list(target.bounds)
    for dim, before in enumerate(source.cutting_axes):
        outside = prod(source.devices.shape[axis] for axis in before if axis not in renumbered)
        stays = _stays(source, target, dim)
        shape.append(source.local_shape(rank)[dim] if stays else source.global_shape[dim] // outside)
        if stays and target.bounds and target.bounds[dim]:
            bounds[dim] = (_range_within(source.box(rank), target.box(rank), dim),)

    def numbered(axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(renumbered[axis] for axis in axes if axis in renumbered)

    def inside(layout: Layout, bounds: Sequence[Bounds] = ()) -> Layout:
        maps = tuple(map(numbered, layout.tensor_map))
        return Layout(tuple(shape), matrix, maps, optimizer_axes=numbered(layout.optimizer_axes), bounds=tuple(bounds))

    return inside(source), inside(target, bounds)


def _range_within(outer: Box, inner: Box, dim: int) -> tuple[int, int]:
    """Return where along a dim the inner box lies, counted from the start of the outer one; (0, 0) for an empty one."""
    start, stop = inner.start[dim], inner.stop[dim]
    return (start - outer.start[dim], stop - outer.start[dim]) if start < stop else (0, 0)


def _numbered_from_0(layout: Layout) -> Layout:
    return replace(layout, devices=DeviceMatrix(layout.devices.shape))
