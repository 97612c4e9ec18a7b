"""The world for which a network is cut, and which layouts count when it is laid out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, nn
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.bind import bind, check_world, make_backend
from mpiparallel.compile.place import held_layouts, place
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.errors import ConfigurationError, LayoutError
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.ops import ReLU
from mpiparallel.parallel.configuration import ParallelConfiguration

SPEC = TensorSpec((8,), np.dtype(np.float32))
TWO = DeviceMatrix((2,))
HALF, WHOLE, TERMS = (Layout((8,), TWO, dims, partial) for dims, partial in ((((0,),), ()), (((),), ()), (((),), (0,))))


def stages(*sizes: int) -> StagedGraph:
    first = [sum(sizes[:place]) for place in range(len(sizes))]
    devices = [DeviceMatrix((size,), start) for size, start in zip(sizes, first, strict=True)]
    return StagedGraph(tuple(ShardedGraph(Graph(), one) for one in devices))


@pytest.mark.parametrize(
    ("sizes", "size", "rank", "told"),
    [
        ((4,), 4, 3, None),
        ((2, 1), 3, 2, None),
        ((1,), None, 0, None),
        (
            (4,),
            2,
            0,
            "the network is cut for 4 devices, but the world has 2 ranks; start as many, or set device_num to it",
        ),
        (
            (2, 1),
            2,
            0,
            "the network is cut for 3 devices, but the world has 2 ranks; start as many, or set device_num to it",
        ),
        (
            (2,),
            None,
            0,
            "the network is cut for 2 devices, but the world has 1 ranks; start as many, or set device_num to it",
        ),
        ((3,), 3, 3, "global_rank 3 is not among ranks 0 to 2; leave global_rank to the launcher"),
    ],
)
def test_a_network_runs_on_as_many_ranks_as_it_is_cut_for(
    sizes: tuple[int, ...], size: int | None, rank: int, told: str | None
) -> None:
    world: Any = None if size is None else SimpleNamespace(size=size)
    configuration = ParallelConfiguration("semi_auto_parallel", device_num=sum(sizes), rank=rank)
    check_world(stages(*sizes), ParallelConfiguration(rank=rank), world)
    if told is None:
        check_world(stages(*sizes), configuration, world)
        return
    with pytest.raises(ConfigurationError) as raised:
        check_world(stages(*sizes), configuration, world)
    assert str(raised.value) == told


def test_arrays_are_numpys_unless_a_gpu_is_asked_for() -> None:
    assert type(make_backend(ParallelConfiguration())) is NumpyBackend


def graph_of(layout: Layout | None) -> Graph:
    parameter = Parameter(np.ones(8, np.float32), "w")
    if layout is not None:
        parameter.place(layout, 0, NumpyBackend())
    graph = Graph()
    graph.add_parameter(parameter, SPEC)
    graph.outputs = [graph.add_node(ReLU(), "relu", [graph.add_input("x", SPEC)], [SPEC]).outputs[0]]
    return graph


@pytest.mark.parametrize(
    ("layout", "mode", "anew", "counts"),
    [
        (None, "semi_auto_parallel", False, False),
        (HALF, "semi_auto_parallel", False, True),
        (TERMS, "semi_auto_parallel", False, True),
        (HALF, "semi_auto_parallel", True, False),
        (TERMS, "semi_auto_parallel", True, False),
        (HALF, "hybrid_parallel", True, False),
        # What training has made each rank's own stays so.
        (TERMS, "hybrid_parallel", True, True),
    ],
)
def test_parameters_stay_where_they_are_held_unless_all_is_laid_out_anew(
    layout: Layout | None, mode: str, anew: bool, counts: bool
) -> None:
    configuration = ParallelConfiguration(mode, device_num=2, laid_out_anew=anew)
    assert held_layouts(graph_of(layout), configuration) == ({"w": layout} if counts else {})


def test_a_graph_is_laid_out_on_the_ranks_that_are_named_and_by_the_strategies_that_are_given() -> None:
    graph, configuration = graph_of(None), ParallelConfiguration("semi_auto_parallel", device_num=2)
    (node,) = graph.nodes
    assert place(graph, configuration).devices == TWO
    assert place(graph, configuration).placements[node].outputs == (HALF,)
    whole = place(graph, configuration, Strategies({node: ((1,),)}))
    assert whole.placements[node].outputs[0].canonical == WHOLE.canonical
    assert whole.strategies == {node: ((1,),)}
    assert (
        place(graph, configuration, devices=DeviceMatrix((2,), 4)).placements[node].outputs[0].devices.first_rank == 4
    )
    assert place(graph, ParallelConfiguration()).devices == DeviceMatrix(())
    arriving = place(graph, configuration, arriving={node: TERMS})
    assert (arriving.placements[node].inputs, arriving.placements[node].outputs) == ((), (TERMS,))
    assert arriving.layouts[node.outputs[0]] == TERMS
    leaving = place(graph, configuration, arriving={node: TERMS}, leaving=graph.outputs)
    assert leaving.layouts[node.outputs[0]] == WHOLE


def test_a_parameter_starts_from_the_values_of_the_first_rank_where_these_are_broadcast() -> None:
    def job(communicator: Communicator, broadcast: bool) -> float:
        network = nn.Dense(2, 2, weight_init=float(communicator.rank + 1), has_bias=False)
        configuration = ParallelConfiguration(
            "data_parallel", device_num=2, rank=communicator.rank, parameter_broadcast=broadcast
        )
        sharded = network.sharded_graph(Tensor(np.ones((2, 2), np.float32)), configuration=configuration)
        staged = StagedGraph((sharded,))
        compiled = bind(staged, local_graph(sharded, communicator.rank), configuration, communicator)
        assert (compiled.draws, compiled.draws_alike, compiled.fed_alike) == (False, False, False)
        return float(compiled.run([np.ones((2, 2), np.float32)])[0][0, 0])

    assert run_world(2, job, True) == [2.0, 2.0]
    assert run_world(2, job, False) == [2.0, 4.0]


def test_a_rank_has_no_values_of_what_only_ranks_of_another_stage_use() -> None:
    graph = graph_of(None)
    parameter = graph.parameters["w"].parameter
    assert parameter is not None
    staged = StagedGraph((ShardedGraph(graph, TWO, stored={"w": WHOLE}), ShardedGraph(Graph(), DeviceMatrix((1,), 2))))
    bind(staged, Graph(), ParallelConfiguration("semi_auto_parallel", device_num=3, rank=2, pipeline_stages=2), None)
    assert parameter.is_elsewhere
    with pytest.raises(LayoutError, match=r"is held by other ranks, 0 to 1, of another stage of the pipeline; read"):
        parameter.asnumpy()


def test_a_parameter_that_is_cut_starts_from_each_ranks_own_values_though_others_are_broadcast() -> None:
    def job(communicator: Communicator) -> list[list[float]]:
        network = nn.Dense(2, 2, weight_init=float(communicator.rank + 1), has_bias=False)
        network.matmul.shard(((1, 1), (2, 1)))
        configuration = ParallelConfiguration(
            "semi_auto_parallel", device_num=2, rank=communicator.rank, parameter_broadcast=True, full_batch=True
        )
        x = np.ones((2, 2), np.float32)
        sharded = network.sharded_graph(Tensor(x), configuration=configuration)
        compiled = bind(StagedGraph((sharded,)), local_graph(sharded, communicator.rank), configuration, communicator)
        return compiled.run([x])[0].tolist()

    # The first of two columns is made by the first rank, whose weights are 1.
    assert run_world(2, job) == [[[2.0, 4.0]] * 2] * 2


def test_a_rank_is_in_the_stage_that_has_it_and_one_in_none_is_told_the_first() -> None:
    staged = stages(2, 1)
    assert [staged.of_rank(rank) for rank in range(4)] == [staged.stages[place] for place in (0, 0, 1, 0)]
    assert staged.rank_count == 3


def test_an_output_is_whole_on_every_rank_unless_it_is_said_to_be_elsewhere() -> None:
    graph = graph_of(None)
    (value,) = graph.outputs
    assert ShardedGraph(graph, TWO).output_layout(value) == WHOLE
    assert ShardedGraph(graph, TWO, output_layouts={value: HALF}).output_layout(value) == HALF


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (None, "first"),
        # Other graphs use it on both stages, and these ranks hold it.
        (Layout((8,), DeviceMatrix((4,)), ((),)), "held"),
        # What is cut otherwise is no more than what is known.
        (Layout((8,), DeviceMatrix((4,)), ((0,),)), "first"),
        (Layout((8,), DeviceMatrix((2,), 2), ((),)), "first"),
    ],
)
def test_a_parameter_of_one_stage_is_known_where_ranks_of_others_hold_it_too(held: Layout | None, wanted: str) -> None:
    graph = graph_of(None)
    first = ShardedGraph(graph, TWO, stored={"w": WHOLE})
    second = ShardedGraph(Graph(), DeviceMatrix((2,), 2))
    staged = StagedGraph((first, second), held={} if held is None else {"w": held})
    found = held if wanted == "held" else WHOLE
    assert staged.stored == {"w": found}
    assert staged.known_to(0) == staged.known_to(3) == {"w": found}
    assert [*staged.parameters] == ["w"]
