"""The state of a training: weights, optimizer states and counters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.loading.load import load_state
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.dtype import is_floating
from mpiparallel.errors import CheckpointError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

Arrays = dict[str, NDArray[Any]]


def state_of(staged: StagedGraph) -> tuple[Arrays, dict[str, Layout]]:
    """Return this rank's slices of parameters and optimizer states of a compiled network, and the layouts of all.

    A layout is over the ranks of the stages that hold the tensor. What is each rank's own, such as moving averages in
    data parallel mode, counts as rows of one tensor, rank after rank.
    """
    arrays, layouts = {}, {}
    for name, parameter in parameters_in(staged).items():
        layouts[name] = saved_layout(staged.stored[name])
        if parameter.is_elsewhere:
            continue
        array = np.asarray(parameter.asnumpy())
        arrays[name] = array.reshape(1) if staged.stored[name].partial and not array.ndim else array
    return arrays, layouts


def own_tensors(staged: StagedGraph) -> frozenset[str]:
    """Return the names of what is each rank's own."""
    return frozenset(name for name in parameters_in(staged) if staged.stored[name].partial)


def saved_layout(layout: Layout) -> Layout:
    """Return the layout in which a tensor is saved: what is each rank's own lies rank after rank."""
    if not layout.partial:
        return layout
    count = layout.devices.size
    first, *others = layout.global_shape or (1,)
    return Layout((first * count, *others), DeviceMatrix((count,)), ((0,), *((),) * len(others)))


def parameters_in(staged: StagedGraph) -> dict[str, Parameter]:
    """Return by name the parameters of all stages that mean something between steps."""
    return {name: parameter for name, parameter in staged.parameters.items() if not parameter.transient}


def read_state(
    state: StoredState,
    staged: StagedGraph,
    names: Collection[str],
    own: Collection[str],
    communicator: Communicator,
    into: Mapping[str, NDArray[Any]] | None = None,
) -> Arrays:
    """Return what this rank holds of the tensors ``names``, read from files of any layout; all ranks call it together.

    ``own`` are those that were each rank's own. If they still are, rank r takes what rank r had, or rank r modulo n
    where only n ranks wrote. If they are to be the same on all ranks, all take that of the first. Arrays of ``into``
    may be overwritten, and are returned then. Raises CheckpointError on every rank, with what is lost, if anything
    fails on any.
    """
    ours = {name: staged.stored[name] for name in names}
    alike = {name: layout for name, layout in ours.items() if not layout.partial and name not in own}
    arrays = load_state(state, alike, communicator, into=into)
    with failing_together(communicator, CheckpointError):
        for name in sorted(ours.keys() - alike.keys()):
            if communicator.rank not in ours[name].devices:
                continue
            box = _box_of_own(state.tensors[name].layout, ours[name], name in own, communicator.rank)
            arrays[name] = state.read_box(name, box).reshape(ours[name].local_shape(communicator.rank))
    return arrays


def _box_of_own(stored: Layout, layout: Layout, was_own: bool, rank: int) -> Box:
    """Return which elements of a stored tensor a rank takes, where it is each rank's own, or was."""
    if not was_own:
        return layout.box(rank)
    box = layout.box(rank) if layout.global_shape else Box((0,), (1,))
    if not layout.partial:
        return box
    rows = box.shape[0]
    first = rows * (rank % stored.devices.size)
    return Box((first, *box.start[1:]), (first + rows, *box.stop[1:]))


def misfit(stored: Mapping[str, Any], staged: StagedGraph, own: Collection[str], strict: bool) -> list[str]:
    """Return in words which stored tensors do not fit the parameters of the same names.

    Unless ``strict``, a float may be of another precision.
    """
    found = []
    dtypes = {one: np.dtype(one) for one in {entry.dtype for entry in stored.values()}}
    for name, parameter in parameters_in(staged).items():
        entry = stored.get(name)
        if entry is None:
            continue
        layout, dtype, wanted = entry.layout, dtypes[entry.dtype], parameter.spec.dtype
        shape = shape_of_one(layout, name in own)
        if shape is None or shape != ((1,) if name in own and not parameter.shape else parameter.shape):
            found.append(f"{name!r} has shape {shape or layout.global_shape} there, {parameter.shape} here")
        elif dtype != wanted and (strict or not (is_floating(dtype) and is_floating(wanted))):
            found.append(f"{name!r} is {dtype} there, {wanted} here")
        elif name in own and parameter.layerwise_parallel and layout.devices.size != staged.rank_count:
            found.append(
                f"{name!r} is layerwise_parallel, so that each rank has one of its own, and those of "
                f"{layout.devices.size} ranks do not fit {staged.rank_count}"
            )
    return found


def shape_of_one(layout: Layout, is_own: bool) -> tuple[int, ...] | None:
    """Return the shape of a stored tensor, of one rank's where each has its own; None where ranks do not share it."""
    if not is_own:
        return layout.global_shape
    count = layout.devices.size
    if not layout.global_shape or layout.global_shape[0] % count or layout.cuts[0] not in (1, count):
        return None
    return (layout.global_shape[0] // count, *layout.global_shape[1:])


def take_state(staged: StagedGraph, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Overwrite the parameters of a compiled network with slices that fit them, but those that were read in place."""
    parameters = parameters_in(staged)
    for name, array in arrays.items():
        held = parameters[name].array
        if held is not array and not (isinstance(held, np.ndarray) and np.may_share_memory(held, array)):
            parameters[name].set_data(array, slice_shape=True)
