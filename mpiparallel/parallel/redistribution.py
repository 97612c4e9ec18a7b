"""From one layout of a tensor to another inside a step: which collective, over which ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.communication.protocol import Communicator
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix, common_refinement
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.collective import AllReduce
from mpiparallel.reshard.live import Exchange as LiveExchange
from mpiparallel.reshard.plan import plan_reshard


@dataclass(frozen=True)
class Redistribution:
    """One step between two layouts: its kind, and the axes along which it or its adjoint exchanges.

    ``kind`` is ``reduce`` (AllReduce), ``reduce_scatter``, ``slice`` (no communication) or ``exchange`` (Alltoallv).
    """

    kind: str
    source: Layout
    target: Layout
    axes: tuple[int, ...]

    def ranks(self, rank: int) -> tuple[int, ...]:
        """Return the ranks, ascending, with which ``rank`` exchanges in the step or in its adjoint."""
        return self.source.devices.group(rank, self.axes)

    def operator(self, rank: int) -> Operator:
        """Return the operator that does the step on ``rank``."""
        if self.kind == "reduce":
            return AllReduce(self.source.reduction, self.ranks(rank))
        if self.kind == "slice":
            return SliceBox(self.source.box(rank), self.target.box(rank))
        return fused_operator([self], rank)


def fused_operator(steps: Sequence[Redistribution], rank: int) -> Operator:
    """Return the operator that does several steps on ``rank`` in one collective, each with its own input and output.

    They are of one kind that communicates and one reduction, among the same ranks; what is summed has one dtype.
    """
    if steps[0].kind == "reduce":
        return FusedAllReduce(steps[0].source.reduction, steps[0].ranks(rank))
    if steps[0].kind == "reduce_scatter":
        return ReduceScatterBlocks(steps, rank)
    return ExchangeBoxes(steps, rank)


def redistribute(source: Layout, target: Layout) -> list[Redistribution]:
    """Return the steps from ``source``, which may be partial, to ``target``, which may not; none when nothing moves."""
    if source.canonical == target.canonical:
        return []
    shape = common_refinement(source.devices.shape, target.devices.shape)
    if shape is None:
        return _over_all(source, target)
    source, target = source.reshaped_devices(shape), target.reshaped_devices(shape)
    steps = []
    if source.partial:
        if _scatters(source, target):
            steps.append(Redistribution("reduce_scatter", source, target, source.partial))
            return steps
        steps.append(Redistribution("reduce", source, source.reduced(), source.partial))
        source = source.reduced()
    if source.canonical != target.canonical:
        steps.append(_move(source, target))
    return steps


def _over_all(source: Layout, target: Layout) -> list[Redistribution]:
    """Return the steps between layouts whose device matrices have no common refinement."""
    steps = []
    if source.partial:
        steps.append(Redistribution("reduce", source, source.reduced(), source.partial))
        source = source.reduced()
    everything = tuple(range(len(source.devices.shape)))
    if all(cut == 1 for cut in source.cuts):
        return [*steps, Redistribution("slice", source, target, everything)]
    return [*steps, Redistribution("exchange", source, target, everything)]


def _scatters(source: Layout, target: Layout) -> bool:
    """Return whether summing and cutting the partial axes into equal blocks gives the target."""
    if source.reduction != "sum":
        return False
    grown = [
        dim for dim, pair in enumerate(zip(source.cutting_axes, target.cutting_axes, strict=True)) if pair[0] != pair[1]
    ]
    if len(grown) != 1:
        return False
    dim = grown[0]
    cut = source.cutting_axes[dim] + source.partial == target.cutting_axes[dim]
    return cut and source.global_shape[dim] % prod(target.devices.shape[axis] for axis in target.cutting_axes[dim]) == 0


def _cut_of(layout: Layout, dim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes that cut a dim, and those of the optimizer's shard inside: together they say its bounds."""
    return layout.tensor_map[dim], layout.optimizer_axes if dim == 0 else ()


def _scattered_dim(source: Layout, target: Layout) -> int:
    """Return the dim that the target cuts further."""
    pairs = zip(source.cutting_axes, target.cutting_axes, strict=True)
    return next(dim for dim, (before, after) in enumerate(pairs) if before != after)


def _move(source: Layout, target: Layout) -> Redistribution:
    changed: set[int] = set()
    nested = True
    for dim, (before, after) in enumerate(zip(source.cutting_axes, target.cutting_axes, strict=True)):
        if _cut_of(source, dim) == _cut_of(target, dim):
            continue
        kept = _common_start(source, source.global_shape[dim], before, after)
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


class SliceBox(Operator):
    """The part of a local array that a rank keeps when others hold the rest."""

    is_view = True

    def __init__(self, source: Box, target: Box) -> None:
        self.source, self.target = source, target

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(self.target.shape, inputs[0].dtype),)

    def view(self, array: Array) -> Array:
        target = self.target
        if target.empty:
            return array[tuple(slice(0, extent) for extent in target.shape)]
        return array[target.within(self.source)]


class FusedAllReduce(AllReduce):
    """The reductions of several tensors over one group, in one message."""

    reuses: ClassVar[tuple[int, ...]] = ()

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return inputs

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        communicator, backend = self.communicator(runtime), runtime.backend
        packed = np.empty(sum(array.size for array in inputs), inputs[0].dtype)
        pieces = _pieces(packed, [array.shape for array in inputs])

        def run() -> None:
            for piece, source in zip(pieces, inputs, strict=True):
                np.copyto(piece, backend.to_host(source))
            communicator.all_reduce(packed, self.op)
            for piece, target in zip(pieces, outputs, strict=True):
                backend.copy_from_host(piece, target)

        return run


def _pieces(packed: np.ndarray[Any, Any], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray[Any, Any]]:
    """Return views of a flat array: arrays of these shapes, one after another."""
    stops = accumulate(prod(shape) for shape in shapes)
    return [packed[stop - prod(shape) : stop].reshape(shape) for stop, shape in zip(stops, shapes, strict=True)]


class _Together(Operator):
    """An operator that does several steps at once, the k-th from input k to output k."""

    kind = "communication"

    def __init__(self, steps: Sequence[Redistribution], rank: int) -> None:
        self.steps, self.rank = tuple(steps), rank

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(step.target.local_shape(self.rank), spec.dtype)
            for step, spec in zip(self.steps, inputs, strict=True)
        )

    def communicator(self, runtime: Runtime) -> Communicator:
        """Return the communicator of the ranks that exchange."""
        return runtime.group(self.steps[0].ranks(self.rank))


class ReduceScatterBlocks(_Together):
    """The sum of the group's arrays, of which each rank keeps its block of one dim."""

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        communicator, backend = self.communicator(runtime), runtime.backend
        dims = [_scattered_dim(step.source, step.target) for step in self.steps]
        on_host = isinstance(inputs[0], np.ndarray) and inputs[0].flags.c_contiguous
        if dims == [0] and on_host:
            return partial(communicator.reduce_scatter, inputs[0], outputs[0])
        shapes = [array.shape for array in outputs]
        packed = np.empty((communicator.size, sum(array.size for array in outputs)), outputs[0].dtype)
        result = np.empty(packed.shape[1], packed.dtype)
        blocks = [np.split(source, communicator.size, dim) for source, dim in zip(inputs, dims, strict=True)]
        packing = [
            (slot, parts[member])
            for member, row in enumerate(packed)
            for slot, parts in zip(_pieces(row, shapes), blocks, strict=True)
        ]
        kept = list(zip(_pieces(result, shapes), outputs, strict=True))

        def run() -> None:
            for slot, block in packing:
                np.copyto(slot, backend.to_host(block))
            communicator.reduce_scatter(packed, result)
            for piece, target in kept:
                backend.copy_from_host(piece, target)

        return run


class ExchangeBoxes(_Together):
    """Each rank of the group sends the others the boxes that they need, by the planner of resharding."""

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        communicator = self.communicator(runtime)
        names = [str(index) for index in range(len(self.steps))]
        pairs = {name: group_layouts(step, self.rank) for name, step in zip(names, self.steps, strict=True)}
        sources, targets = dict(zip(names, inputs, strict=True)), dict(zip(names, outputs, strict=True))
        plan = plan_reshard(pairs, communicator.rank)
        exchange = LiveExchange(
            plan, pairs, sources, targets, communicator, ranks=range(communicator.size), verify=False
        )
        # This rank's box stays as it is there, but its peers may need parts of it.
        staying = [(targets[name], sources[name]) for name in plan.kept]

        def run() -> None:
            exchange.run()
            for target, source in staying:
                runtime.array_module.copyto(target, source)

        return run


def group_layouts(step: Redistribution, rank: int) -> tuple[Layout, Layout]:
    """Return the layouts of a step as the ranks that exchange with ``rank`` see them, numbered from 0.

    Where a dim is cut alike before and after, or by the same leading axes, the group's whole of it is the part that
    all of these ranks share.
    """
    source, target = step.source, step.target
    if source.devices.shape != target.devices.shape:
        return _numbered_from_0(source), _numbered_from_0(target)
    renumbered = {axis: index for index, axis in enumerate(step.axes)}
    matrix = DeviceMatrix(tuple(source.devices.shape[axis] for axis in step.axes))
    shape = []
    for dim, before in enumerate(source.cutting_axes):
        outside = prod(source.devices.shape[axis] for axis in before if axis not in renumbered)
        alike = _cut_of(source, dim) == _cut_of(target, dim)
        shape.append(source.local_shape(rank)[dim] if alike else source.global_shape[dim] // outside)

    def numbered(axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(renumbered[axis] for axis in axes if axis in renumbered)

    def inside(layout: Layout) -> Layout:
        maps = tuple(map(numbered, layout.tensor_map))
        return Layout(tuple(shape), matrix, maps, optimizer_axes=numbered(layout.optimizer_axes))

    return inside(source), inside(target)


def _numbered_from_0(layout: Layout) -> Layout:
    return replace(layout, devices=DeviceMatrix(layout.devices.shape))
