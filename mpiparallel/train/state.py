"""The state of a training: weights, optimizer states and counters, and moving them to other layouts and ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.sharded_graph import ShardedGraph
from mpiparallel.reshard.movement import Movement
from mpiparallel.reshard.report import ReshardReport


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


def move_state(source: ShardedGraph, target: ShardedGraph, communicator: Communicator) -> ReshardReport:
    """Move the state of one training graph to another that is cut otherwise, through one Alltoallv; return what moved.

    ``source`` and ``target`` are graphs of the same network for, say, 8 and 4 ranks. All ranks of both call it
    together, over a communicator of all of them; it returns when every rank has verified what it received. Ranks
    outside the target keep nothing. Raises ReshardError on every rank, before anything moves, when the two graphs'
    parameters differ.
    """
    before, after = _parameters(source), _parameters(target)
    _check_same(before, after)
    rank = communicator.ranks[communicator.rank]
    holds = rank in source.devices
    arrays = {name: np.asarray(parameter.asnumpy()) for name, parameter in before.items()} if holds else {}
    old, new = ({name: graph.stored[name] for name in before} for graph in (source, target))
    movement = Movement(arrays, old, new, communicator)
    report = movement.forward()
    if rank in target.devices:
        for name, parameter in after.items():
            # What stays is handed over as it is: the source network must not go on training.
            parameter.move(target.stored[name], rank, movement.arrays[name])
    return report


def _check_same(before: dict[str, Parameter], after: dict[str, Parameter]) -> None:
    missing = sorted(before.keys() ^ after.keys())
    if missing:
        raise ReshardError(
            f"the source and target networks differ in parameters {', '.join(missing[:5])}; build both from the "
            "same network and "
            "optimizer"
        )
    for name, parameter in before.items():
        if parameter.spec != after[name].spec:
            raise ReshardError(
                f"parameter {name!r} is {parameter.spec} in the source, {after[name].spec} in the target"
            )
