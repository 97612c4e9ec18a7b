"""How a compiled network is cut, in the words in which MindSpore's ``infer_train_layout`` tells it."""

from __future__ import annotations

from math import prod

from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, to_right
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.layout.layout import Layout
from mpiparallel.train.persistence.state import parameters_in

ParameterLayout = tuple[list[int], list[int], list[int], int, bool, str]


def parameter_layouts(staged: StagedGraph, rank: int) -> dict[str, ParameterLayout]:
    """Return the layout of each parameter and optimizer state that a rank holds by name, as MindSpore tells it."""
    stored = staged.stored
    return {
        name: parameter_layout(stored[name], rank) for name in parameters_in(staged) if rank in stored[name].devices
    }


def parameter_layout(layout: Layout, rank: int) -> ParameterLayout:
    """Return (device matrix, tensor map, shape of the rank's slice, field size, uniform split, optimizer shard group).

    In the tensor map the axes of the device matrix are counted from the right, and -1 is an uncut dim. Field size is 0
    and uniform split is True unless bounds cut it. The group names the ranks whose optimizer shards make up
    the slice that operators use, in order: "0-4"; it is empty without the parallel optimizer.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> parameter_layout(Layout((8, 6), DeviceMatrix((2, 4)), ((1,), ())), 3)
    ([2, 4], [0, -1], [2, 6], 0, True, '')
    """
    if layout.partial:
        whole = Layout.replicated(layout.global_shape, layout.devices)
        item = LayoutItem.of(whole)
    else:
        item = LayoutItem.of(layout)
    shards = prod(layout.devices.shape[axis] for axis in layout.optimizer_axes)
    group = "-".join(map(str, layout.devices.group(rank, layout.optimizer_axes))) if shards > 1 else ""
    return list(item.device_matrix), list(to_right(item)), list(layout.local_shape(rank)), 0, not layout.bounds, group
