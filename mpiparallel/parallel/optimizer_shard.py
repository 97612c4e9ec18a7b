"""The parallel optimizer: weights and moments stored in one more cut of dim 0, over ranks that would hold replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import common_refinement
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.operator_placement import Operands, OperatorPlacement, place_by_inputs

_KIB = 1024


def storage_layout(used: Layout, parameter: Parameter, configuration: ParallelConfiguration) -> Layout:
    """Return the layout in which a parameter that operators use as ``used`` is stored.

    It is cut further if the parallel optimizer is on, the parameter takes part, and it is not below the threshold.
    There must be replicas, too, and dim 0 must divide evenly. That is MindSpore's rule of eligibility. With a shard
    size, consecutive replicas form the shards; where it does not divide the replicas, a remark says so. What stages of
    unequal size share has as many shards in each.
    """
    eligible = configuration.enable_parallel_optimizer and parameter.parallel_optimizer and parameter.requires_grad
    if not eligible or not used.global_shape or used.replica_count == 1 or used.bounds:
        return used
    if parameter.spec.byte_count < configuration.optimizer_threshold * _KIB:
        return used
    size = configuration.optimizer_shard_size
    if size == -1:
        size = used.replica_count
    in_common = dict(configuration.ranks_in_common).get(parameter.name)
    if in_common is not None:
        size = gcd(size, in_common * used.replica_count // used.devices.size)
    cut = _with_axis_of(used, size)
    if cut is None and size > 1:
        no_effect(
            "set_auto_parallel_context",
            "optimizer_weight_shard_size",
            configuration.optimizer_shard_size,
            f"parameters that {used.replica_count} ranks hold alike cannot be shared out among {size} of them each",
            default=-1,
        )
    if cut is None or used.global_shape[0] % (used.cuts[0] * size):
        return used
    layout, axes = cut
    return replace(layout, optimizer_axes=axes)


def _with_axis_of(layout: Layout, size: int) -> tuple[Layout, tuple[int, ...]] | None:
    """Return the layout over a device matrix whose last replica axes have ``size`` ranks in all, and these axes."""
    if size < 2:
        return None
    axes = list(layout.replica_axes)
    taken: list[int] = []
    while size > 1 and axes:
        axis = axes.pop()
        extent = layout.devices.shape[axis]
        if size % extent == 0:
            taken.insert(0, axis)
            size //= extent
        elif extent % size == 0:
            shape = layout.devices.shape
            finer = layout.reshaped_devices((*shape[:axis], extent // size, size, *shape[axis + 1 :]))
            return finer, (axis + 1, *(later + 1 for later in taken))
        else:
            return None
    return (layout, tuple(taken)) if size == 1 else None


def place_on_shards(operands: Operands, given: Sequence[Layout]) -> OperatorPlacement:
    """Return the placement of what is done to gradients before the update: where the shards are, as they are."""
    placement = place_by_inputs(operands, given)
    pairs = zip(given, placement.inputs, strict=True)
    inputs = tuple(as_given if _cut_alike(as_given, made) else made for as_given, made in pairs)
    return OperatorPlacement(inputs, placement.outputs)


def _cut_alike(given: Layout, made: Layout) -> bool:
    """Return whether a layout with optimizer shards has the boxes of one whose dims are cut by the same axes."""
    if not given.optimizer_axes or common_refinement(given.devices.shape, made.devices.shape) != made.devices.shape:
        return False
    return given.reshaped_devices(made.devices.shape).cutting_axes == made.cutting_axes
