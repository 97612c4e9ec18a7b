"""Each line of the texts that tell what a network became, of a product of which two ranks have a term each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.fingerprint import fingerprint_of
from mpiparallel.compile.graph_text import layout_lines, local_lines, memory_lines, save_graphs, traced_lines
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.parallel.configuration import ParallelConfiguration

TERMS = ((1, 2), (1, 2))
RANKS = ParallelConfiguration("semi_auto_parallel", device_num=2)


class Layer(nn.Cell):
    """A product, and what is done with it row by row."""

    def __init__(self, columns: int = 4, activation: type = ops.ReLU) -> None:
        super().__init__()
        self.dense = nn.Dense(6, columns, has_bias=False)
        self.dense.matmul.shard(TERMS)
        self.activation = activation()

    def construct(self, x: Tensor) -> Tensor:
        return self.activation(self.dense(x))


def sharded(configuration: ParallelConfiguration = RANKS, trains: bool = False, **settings: object) -> ShardedGraph:
    network: nn.Cell = Layer(**settings)
    if trains:
        network = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    return network.sharded_graph(Tensor(np.ones((8, 6), np.float32)), configuration=configuration)


PRODUCT = "dense/MatMul:0"
CALLED = f"{PRODUCT}[8, 4]:float32 = MatMul(input0, dense.weight)  at dense/MatMul"


def test_a_traced_graph_is_told_with_its_strategies() -> None:
    assert [*traced_lines(sharded().graph)] == [
        "traced: 2 operators on whole tensors, 1 parameters",
        "input input0[8, 6]:float32",
        "parameter dense.weight[4, 6]:float32",
        f"{CALLED}  strategy ((1, 2), (1, 2))",
        f"ReLU:0[8, 4]:float32 = ReLU({PRODUCT})  at ReLU",
        "outputs ReLU:0[8, 4]:float32",
    ]


def test_gradients_are_told_with_what_they_are_of_and_updates_without_outputs() -> None:
    lines = [*traced_lines(sharded(trains=True).graph)]
    assert any(line.endswith("ReluGrad  gradient of network/ReLU") for line in lines)
    assert any(line.startswith("ApplyMomentum(dense.weight, ") and "  at optimizer/" in line for line in lines)
    laid_out = [*layout_lines(sharded(trains=True))]
    assert any(line.endswith(": updates") for line in laid_out)


def test_layouts_are_told_with_what_moves_before_an_operator() -> None:
    terms = "[8 x 4] on (2,), partial sum over axes (0,)"
    assert [*layout_lines(sharded())] == [
        "layouts over 2 ranks: of a dim cut in parts stands extent/parts",
        "input input0[8, 6]:float32: [8 x 6] on (2,)",
        "parameter dense.weight[4, 6]:float32: [4 x 6/2] on (2,)",
        "    slice input0: [8 x 6] on (2,) -> [8 x 6/2] on (2,)",
        f"{CALLED}: {terms}",
        f"    reduce_scatter {PRODUCT}: {terms} -> [8/2 x 4] on (2,)",
        f"ReLU:0[8, 4]:float32 = ReLU({PRODUCT})  at ReLU: [8/2 x 4] on (2,)",
        "output ReLU:0[8, 4]:float32: [8 x 4] on (2,)",
    ]


def test_a_parameter_that_is_stored_in_shards_is_told_with_the_layout_in_which_it_is_used() -> None:
    configuration = ParallelConfiguration("data_parallel", device_num=2, enable_parallel_optimizer=True)
    network = Layer()
    network.dense.matmul.shard(None)
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    graph = step.sharded_graph(
        Tensor(np.ones((8, 6), np.float32)),
        configuration=ParallelConfiguration(**{**vars(configuration), "optimizer_threshold": 0}),
    )
    (line,) = (line for line in layout_lines(graph) if line.startswith("parameter dense.weight"))
    stored, used = line.removeprefix("parameter dense.weight[4, 6]:float32: ").split(", used as ")
    assert used == "[4 x 6] on (2,)"
    assert stored.startswith("[4/2 x 6] on (2,)")


def test_what_a_rank_runs_is_told_with_who_takes_part_and_what_goes_in() -> None:
    local = local_graph(sharded(), 1)
    sum_, gather = f"{PRODUCT}/reduce_scatter", "ReLU:0/gather"
    # 8 x 4 numbers go into the sum, of which a rank keeps half; that half goes into what is gathered.
    assert [*local_lines(local, 1)] == [
        "rank 1 runs 5 operators; 2 collectives take 192 bytes of its own",
        "input input0[8, 6]:float32",
        "parameter dense.weight[4, 3]:float32",
        "input0/slice:0[8, 3]:float32 = SliceBox(input0)  at input0/slice",
        f"{PRODUCT}[8, 4]:float32 = MatMul(input0/slice:0, dense.weight)  at dense/MatMul",
        f"{sum_}:0[4, 4]:float32 = ReduceScatterBlocks({PRODUCT})  at {sum_}  among ranks [0, 1], 128 bytes",
        f"ReLU:0[4, 4]:float32 = ReLU({sum_}:0)  at ReLU",
        f"{gather}:0[8, 4]:float32 = GatherBlocks(ReLU:0)  at {gather}  among ranks [0, 1], 64 bytes",
        f"outputs {gather}:0[8, 4]:float32",
    ]


def test_collectives_of_the_user_and_those_that_are_started_early_are_told_with_their_ranks() -> None:
    class Summed(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.sum = ops.AllReduce()

        def construct(self, x: Tensor) -> Tensor:
            return self.sum(x)

    def on_rank(communicator: Communicator) -> list[str]:
        configuration = ParallelConfiguration("data_parallel", device_num=2)
        by_hand = Summed().sharded_graph(Tensor(np.ones((8, 6), np.float32)), configuration=configuration)
        return [*local_lines(local_graph(by_hand, communicator.rank), communicator.rank)]

    for lines in run_world(2, on_rank):
        assert sum(" = AllReduce(" in line and line.endswith("  among ranks [0, 1], 192 bytes") for line in lines) == 1
    started = [*local_lines(local_graph(sharded(), 0, overlaps=True), 0)]
    assert sum("  among ranks [0, 1], " in line for line in started) == 2


def test_where_values_lie_in_the_memory_of_a_rank_is_told_in_the_order_of_their_places() -> None:
    lines = [*memory_lines(local_graph(sharded(), 0))]
    # The rank has half of the weight; its half of the input is seen where it lies, and all else is computed.
    assert lines[0].endswith(" bytes for what is computed, 48 bytes of parameters")
    count = int(lines[0].removeprefix("memory: ").split()[0])
    places = [line.split() for line in lines[1:]]
    starts, ends = [int(words[0]) for words in places], [int(words[2]) for words in places]
    sizes = {
        f"{PRODUCT}[8,": 128,
        f"{PRODUCT}/reduce_scatter:0[4,": 64,
        "ReLU:0[4,": 64,
        "ReLU:0/gather:0[8,": 128,
    }
    assert {words[3]: end - start for words, start, end in zip(places, starts, ends, strict=True)} == sizes
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert max(ends) <= count
    assert all(line[12:16] == " to " and line[28:30] == "  " for line in lines[1:])


@pytest.mark.parametrize(("level", "kinds"), [(1, ["traced"]), (3, ["layouts", "local", "memory", "traced"])])
def test_files_are_named_after_the_network_and_have_the_lines(level: int, kinds: list[str], tmp_path: Path) -> None:
    configuration = ParallelConfiguration(
        "semi_auto_parallel", device_num=2, rank=1, save_graphs=level, save_graphs_path=str(tmp_path / "new")
    )
    graph = sharded()
    local = local_graph(graph, 1)
    written = save_graphs(graph, local, configuration)
    assert sorted(written) == sorted((tmp_path / "new" / "rank_1").iterdir())
    assert sorted(path.suffixes[0] for path in written) == [f".{kind}" for kind in kinds]
    texts = {path.suffixes[0]: path.read_text() for path in written}
    assert texts[".traced"] == "\n".join(traced_lines(graph.graph)) + "\n"
    if level == 3:
        assert texts[".local"] == "\n".join(local_lines(local, 1)) + "\n"
        assert texts[".memory"] == "\n".join(memory_lines(local)) + "\n"
    assert {path.name.split(".")[0] for path in written} == {written[0].name.split(".")[0]}
    assert written[0].name.startswith("forward_8x6_")
    assert save_graphs(graph, local, configuration) == written


def fingerprint(configuration: ParallelConfiguration = RANKS, **settings: object) -> str | None:
    graph = sharded(configuration, **settings)
    return fingerprint_of(StagedGraph((graph,)), local_graph(graph, 0), configuration)


def test_a_network_is_known_by_its_operators_parameters_inputs_and_cuts() -> None:
    told = fingerprint()
    assert told is not None
    assert told.startswith("a network of 2 operators, 1 parameters on inputs float32[8, 6], cut as ")
    assert len(told.rpartition(" ")[2]) == 12
    assert told == fingerprint()
    assert len({told, fingerprint(columns=6), fingerprint(activation=ops.Tanh), fingerprint(trains=True)}) == 4


def test_ranks_that_run_a_network_for_themselves_have_nothing_in_common() -> None:
    assert fingerprint(ParallelConfiguration(device_num=1)) is None
    assert fingerprint(ParallelConfiguration("data_parallel", device_num=2)) is None
    assert fingerprint(ParallelConfiguration("semi_auto_parallel", device_num=1)) is None
    # What is updated is updated on all ranks, though one alone computes it.
    assert fingerprint(ParallelConfiguration("semi_auto_parallel", device_num=1), trains=True) is not None


def test_on_batches_of_their_own_ranks_have_in_common_what_they_exchange() -> None:
    configuration = ParallelConfiguration("data_parallel", device_num=2)
    told = fingerprint(configuration, trains=True)
    assert told is not None
    assert told.startswith("a step that exchanges 24 elements in 1 calls, ")
    assert told == fingerprint(configuration, trains=True, activation=ops.Tanh)
    assert told != fingerprint(configuration, trains=True, columns=5)
