"""The state of a training: weights, optimizer states and counters."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.sharded_graph import ShardedGraph


def state_of(sharded: ShardedGraph) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Layout]]:
    """Return this rank's slices of all parameters and optimizer states of a compiled network, and their layouts.

    What is each rank's own, such as moving averages in data parallel mode, counts as rows of one tensor, rank after
    rank.
    """
    arrays, layouts = {}, {}
    for name, parameter in _parameters(sharded).items():
        arrays[name] = np.asarray(parameter.asnumpy())
        layouts[name] = _one_after_another(sharded.stored[name])
    return arrays, layouts


def _one_after_another(layout: Layout) -> Layout:
    if not layout.partial or not layout.global_shape:
        return layout
    count = layout.devices.size
    shape = (layout.global_shape[0] * count, *layout.global_shape[1:])
    return Layout(shape, DeviceMatrix((count,)), ((0,), *((),) * (len(shape) - 1)))


def _parameters(sharded: ShardedGraph) -> dict[str, Parameter]:
    found = {name: value.parameter for name, value in sharded.graph.parameters.items()}
    return {name: parameter for name, parameter in found.items() if parameter is not None and not parameter.transient}
