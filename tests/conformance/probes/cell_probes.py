"""Probes of what a cell is told, and of what ranks say to one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Tensor, communication, nn, ops
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from tests.conformance.probes.argument_probe import ROWS, Beside, Noted, Probe, Refused, function, seen


class Nested(nn.Cell):
    """A parameter beside a layer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.weight = Parameter(ROWS, "weight")
        self.scale = Parameter(ROWS, "scale", requires_grad=False)
        self.dense = nn.Dense(4, 1, weight_init="ones")
        self.dense.bias.requires_grad = False


def told(method: str, *given: Any) -> Callable[..., Any]:
    """Return what a cell tells by a method, and what its parameters and flags are afterwards."""

    def call(**options: Any) -> Any:
        cell = Nested()
        found = getattr(cell, method)(*given, **options)
        listed = [str(one) for one in found] if not isinstance(found, (nn.Cell, type(None))) else []
        return listed, [one.name for one in cell.get_parameters()], cell.training

    return call


def inserted(**options: Any) -> Any:
    """Return whether a parameter can be put into a cell under a name with a dot, or why not."""
    try:
        return Nested().insert_param_to_cell("a.b", Parameter(ROWS, "a.b"), **options)
    except ConfigurationError as error:
        return str(error)


def on_two_ranks(function: Callable[..., Any], *given: Any, inputs: tuple[Any, ...] = ()) -> Callable[..., Any]:
    """Return what two ranks get, each of which has a group "alone" of itself."""

    def call(**options: Any) -> Any:
        def on_rank(communicator: Communicator) -> Any:
            communication.create_group("alone", [communicator.rank])
            found = function(*given, **options)
            return seen(found(*(Tensor(one + communicator.rank) for one in inputs)) if inputs else found)

        return run_world(2, on_rank)

    return call


def reduced(**options: Any) -> Any:
    """Return what becomes of a gradient on two ranks that have batches of their own."""

    def on_rank(communicator: Communicator) -> Any:
        ms.set_auto_parallel_context(parallel_mode="data_parallel")
        try:
            return seen(nn.DistributedGradReducer([Parameter(ROWS, "w")], **options)([Tensor(ROWS)])[0])
        finally:
            ms.reset_auto_parallel_context()

    return run_world(2, on_rank)


def laid_out(**options: Any) -> Any:
    """Return how every value of a network on two devices is cut, whose one cell is told where tensors lie."""
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, device_num=2)
    try:
        network = nn.SequentialCell(nn.ReLU().shard(**{"in_strategy": None} | options))
        sharded = network.sharded_graph(ROWS[:2])
        return [str(layout.cuts) for layout in sharded.layouts.values()]
    finally:
        ms.reset_auto_parallel_context()


PAIRS = (np.arange(4, dtype=np.float32),)
GROUP = {"group": "alone"}

CELLS: dict[str, Probe] = {
    "nn.Cell": Probe(
        lambda **options: (
            [one.name for one in Nested(**options).get_parameters()],
            getattr(Nested(**options), "flag", 0),
        ),
        {"auto_prefix": False, "flags": {"flag": 3}},
    ),
    "nn.Cell.cells_and_names": Probe(told("cells_and_names"), {"cells": Refused([]), "name_prefix": "net"}),
    "nn.Cell.get_parameters": Probe(told("get_parameters"), {"expand": False}),
    "nn.Cell.parameters_and_names": Probe(told("parameters_and_names"), {"name_prefix": "net", "expand": False}),
    "nn.Cell.parameters_dict": Probe(told("parameters_dict"), {"recurse": False}),
    "nn.Cell.trainable_params": Probe(told("trainable_params"), {"recurse": False}),
    "nn.Cell.untrainable_params": Probe(told("untrainable_params"), {"recurse": False}),
    "nn.Cell.update_parameters_name": Probe(
        told("update_parameters_name"), {"prefix": "net.", "recurse": Beside(False, {"prefix": "net."})}
    ),
    "nn.Cell.insert_param_to_cell": Probe(inserted, {"check_name_contain_dot": False}),
    "nn.Cell.set_broadcast_flag": Probe(told("set_broadcast_flag"), {"mode": Noted(False)}),
    "nn.Cell.init_parameters_data": Probe(told("init_parameters_data"), {"auto_parallel_mode": Noted(True)}),
    "nn.Cell.shard": Probe(
        laid_out, {"out_strategy": Beside(((1, 2),), {"in_strategy": ((2, 1),)}), "parameter_plan": Refused({})}
    ),
    "nn.Cell.set_grad": Probe(told("set_grad"), {"requires_grad": Noted(False)}),
    "nn.Cell.set_train": Probe(told("set_train"), {"mode": False}),
    "nn.Cell.set_comm_fusion": Probe(
        lambda **options: [
            getattr(one, "comm_fusion", 0) for one in Nested().set_comm_fusion(2, **options).get_parameters()
        ],
        {"recurse": False},
    ),
    "Parameter.clone": Probe(
        lambda **options: seen(Parameter(ROWS, "w").clone(**options)),
        {"init": ms.common.initializer.One()},
    ),
    "Parameter.init_data": Probe(
        lambda **options: seen(Parameter(ROWS, "w").init_data(**options)),
        {"layout": Refused(((1, 1), (0, 0))), "set_sliced": Noted(True)},
    ),
    "Parameter.set_data": Probe(
        lambda **options: seen(Parameter(ROWS, "w").set_data(ROWS[:2] if options else ROWS, **options)),
        {"slice_shape": True},
    ),
    **{f"Tensor.{name}": Probe(function(getattr(Tensor, name), ROWS), {"axis": 0}) for name in ("amax", "amin")},
    "Tensor.norm": Probe(function(Tensor.norm, ROWS), {"ord": 1, "dtype": ms.float64}),
    "Tensor.astype": Probe(function(Tensor.astype, ROWS, ms.float64), {"copy": Noted(False)}),
    "Tensor.softmax": Probe(function(Tensor.softmax, ROWS), {"dtype": ms.float64}),
    "communication.create_group": Probe(
        lambda **options: run_world(1, lambda communicator: communication.create_group("alone", [0], **options)),
        {"options": Noted({})},
    ),
    # Where there is a world already, so that the process of the tests starts no MPI.
    "communication.init": Probe(on_two_ranks(communication.init), {"backend_name": Refused("gloo")}),
    **{
        f"communication.{name}": Probe(on_two_ranks(getattr(communication, name)), GROUP)
        for name in ("get_rank", "get_group_size", "get_local_rank", "get_local_rank_size")
    },
    "nn.DistributedGradReducer": Probe(reduced, {"mean": True}),
    "ops.AllGather": Probe(on_two_ranks(ops.AllGather, inputs=PAIRS), GROUP),
    "ops.AllReduce": Probe(on_two_ranks(ops.AllReduce, inputs=PAIRS), {"op": "max", **GROUP}),
    "ops.Broadcast": Probe(on_two_ranks(ops.Broadcast, 0, inputs=PAIRS), GROUP),
    "ops.ReduceScatter": Probe(on_two_ranks(ops.ReduceScatter, inputs=PAIRS), {"op": "max", **GROUP}),
    "ops.AlltoAll": Probe(
        on_two_ranks(ops.AlltoAll, 2, 0, 0, inputs=PAIRS), {"group": Refused("alone", "split_count|2")}
    ),
}
