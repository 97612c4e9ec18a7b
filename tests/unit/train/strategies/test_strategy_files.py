"""What our planner derives for the nets that MindSpore's planner was given, against what MindSpore wrote.

Each case is a folder of ``tests/fixtures/mindspore``: the strategy and group files of some ranks, and a list of the
operators and collectives that were planned for rank 0. Where ours differ, the case says how and why.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import context, nn
from mpiparallel.checkpoint.strategy.group_file import read_group_info, restore_group_info_list
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.context.settings import current_configuration
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.redistribution import redistribute
from mpiparallel.train.model import Model
from mpiparallel.train.strategies.inferred_layouts import parameter_layout
from mpiparallel.train.strategies.strategy_files import write_group_file, write_strategy_file
from tests.unit.train import mindspore_nets as nets
from tests.unit.train.parameter_files.mindspore_checkpoint import read_checkpoint

FIXTURES = Path(__file__).parents[3] / "fixtures" / "mindspore"
DP2_MP4 = (((2, 1), (1, 4)), ((2, 4),), ((2, 4), (4, 1)))
HALF = (((2, 1), (1, 2)), ((2, 2),), ((2, 2), (2, 1)))
TO_ROWS = (((2, 1), (1, 4)), ((2, 4),), ((8, 1), (1, 1)))
BY_ROWS = (((8, 1), (1, 1)), ((8, 1),), ((8, 1), (1, 1)), ((8, 1),), ((8, 1), (1, 1)))
BY_TURNS = (((2, 1), (1, 4)), ((2, 4),), ((1, 8), (8, 1)), ((1, 1),), ((1, 1), (1, 8)))
MP4 = (((1, 1), (1, 4)), ((1, 4),), ((1, 4), (4, 1)))


@dataclass(frozen=True)
class Case:
    """A net, the inputs of a batch, and in what ours is another plan.

    ``renamed`` are our names of operators that MindSpore names otherwise; ``inserted`` operators that it inserts and we
    do not; ``restore_ranks`` what we write where MindSpore writes something else; ``moves_at_once`` says that one
    exchange of ours stands for several of its collectives.
    """

    make: Callable[[], nn.Cell]
    inputs: tuple[np.ndarray[Any, Any], ...]
    devices: int = 8
    trains: bool = True
    sharded_optimizer: bool = False
    renamed: dict[str, str] = field(default_factory=dict)
    inserted: tuple[str, ...] = ()
    restore_ranks: tuple[int, ...] | None = None
    moves_at_once: bool = False
    stages: int = 1


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


def trained(strategies: Any) -> Callable[[], nn.Cell]:
    return lambda: nets.MeanLoss(nets.TwoMatMul(strategies))


X = zeros(16, 64)
EVERYBODY = tuple(range(8))
INFERENCE = partial(Case, trains=False)
CASES = {
    "mm_dp2mp4_train": Case(trained(DP2_MP4), (X,)),
    "mm_dp2mp4_train_json": Case(trained(DP2_MP4), (X,)),
    "mm_dp2mp4_opt_train": Case(trained(DP2_MP4), (X,), sharded_optimizer=True),
    "mm_repeat4of8_train": Case(trained(HALF), (X,)),
    "mm_unassigned_batch12": Case(trained(None), (zeros(12, 64),)),
    "tutorial_semi_2dev": Case(lambda: nets.MeanLoss(nets.SemiAutoParallelNet()), (zeros(16, 512),), devices=2),
    "softmax_ce_dp8": Case(nets.CrossEntropyOfProduct, (X, zeros(16, 32))),
    "pipeline2": Case(
        lambda: nn.PipelineCell(nets.MeanLoss(nets.TwoStages(((1, 1), (1, 4)), ((1, 4), (4, 1)))), 4), (X,), stages=2
    ),
    # MindSpore has searched these strategies; here they are given.
    "auto_rec_small": Case(lambda: nets.MeanLoss(nets.ThreeMatMul((64, 256, 256, 64), BY_ROWS)), (zeros(32, 64),)),
    "auto_rec_bigweight": Case(
        lambda: nets.MeanLoss(nets.ThreeMatMul((4096, 16384, 16384, 4096), BY_TURNS), ((1, 8),)),
        (zeros(16, 4096),),
        moves_at_once=True,
    ),
    "mm_redist_row_to_col": INFERENCE(lambda: nets.TwoMatMul(TO_ROWS), (X,)),
    "reducesum_axis1_2x4": INFERENCE(nets.SumOfProduct, (zeros(16, 32),)),
    # Without gradients MindSpore has no mirror groups and lists no rank, though all hold the same state: ours does.
    "layernorm_dp8": INFERENCE(nets.Normalised, (zeros(16, 32),), restore_ranks=EVERYBODY),
    # Here a batch norm is recorded as its steps; inference has one, with the strategy of the whole.
    "conv_bn_dp8": INFERENCE(
        nets.ConvolutionAndNorm,
        (zeros(16, 8, 16, 16),),
        renamed={"BNInfer": "BatchNorm"},
        restore_ranks=EVERYBODY,
    ),
    # MindSpore shifts and masks the indices with operators of their own; here one kernel knows its rows.
    "gather_rowsplit": INFERENCE(nets.Lookup, (np.zeros((4, 8), np.int32),), inserted=("Sub",)),
}
# The list of operators of a stage is that of each micro-batch, and of the sums over them, which are otherwise here.
IN_ONE_PIECE = [name for name, case in CASES.items() if case.stages == 1]
WRITTEN = [(name, rank) for name in CASES for rank in range(8) if any((FIXTURES / name).glob(f"*_rank{rank}.*"))]


@pytest.fixture(autouse=True)
def _reset():
    yield
    context.reset_auto_parallel_context()


def shard(case, rank=0, **settings):
    """Return the graph of a case with its layouts, as ``Model.build`` makes it where there is something to train."""
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        device_num=case.devices,
        global_rank=rank,
        full_batch=True,
        enable_parallel_optimizer=case.sharded_optimizer,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        pipeline_stages=case.stages,
        **settings,
    )
    network = case.make()
    if not case.trains:
        return network.sharded_graph(*case.inputs)
    model = Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9))
    columns = [f"column{index}" for index in range(len(case.inputs))]
    dataset = NumpySlicesDataset(case.inputs, columns, shuffle=False).batch(len(case.inputs[0]))
    staged = model.build(train_dataset=dataset)
    assert staged is not None
    return staged.of_rank(rank)


@pytest.mark.parametrize(("name", "rank"), WRITTEN)
def test_files_say_what_mindspores_planner_says(name, rank, tmp_path, monkeypatch) -> None:
    case = CASES[name]
    suffix = ".json" if name.endswith("json") else ".ckpt"
    theirs = FIXTURES / name / f"strategy_rank{rank}{suffix}"
    their_groups = FIXTURES / name / f"group_info_rank{rank}.pb"
    ours, our_groups = tmp_path / theirs.name, tmp_path / "group_info.pb"
    monkeypatch.setenv("GROUP_INFO_FILE", str(our_groups))
    sharded = shard(case, rank, strategy_ckpt_save_file=str(ours))
    if not case.trains:
        write_strategy_file(str(ours), StagedGraph((sharded,)), current_configuration())
        write_group_file(str(our_groups), StagedGraph((sharded,)), rank)

    if theirs.exists():
        made, wanted = read_strategy(ours), read_strategy(theirs)
        # The protobuf form does not carry shapes, so only those of the JSON form are compared.
        assert made.layouts == wanted.layouts
        # An operator without parameters, which is not in MindSpore's files, has the name of its place in the network.
        places = {node.name for node in sharded.graph.nodes}
        named = {operator: item for operator, item in made.strategies.items() if operator not in places}
        assert named == wanted.strategies
        assert made.current_stage == wanted.current_stage
    if their_groups.exists():
        made_groups, wanted_groups = read_group_info(our_groups), read_group_info(their_groups)
        assert made_groups.groups == wanted_groups.groups
        assert made_groups.restore_ranks == (case.restore_ranks or wanted_groups.restore_ranks)


def as_theirs(case, operator):
    """Return MindSpore's name of an operator that was planned."""
    return case.renamed.get(operator, operator)


@dataclass(frozen=True)
class Planned:
    """What the list of a case says of rank 0.

    ``collectives`` are pairs of "sum" (AllReduce) or "move" (AllGather) and ranks; ``mirrors`` the ranks over which the
    gradient of each parameter is summed.
    """

    shapes: dict[str, tuple[int, ...]]
    strategies: list[tuple[str, tuple[tuple[int, ...], ...]]]
    collectives: list[tuple[str, tuple[int, ...]]]
    mirrors: list[tuple[int, ...]]


def read_planned(path, devices):
    text = path.read_text(encoding="utf-8")
    shapes = {name: ast.literal_eval(shape) for name, shape in re.findall(r"PARAM (\S+) (\(.*?\))$", text, re.M)}
    shapes = {name: shape if isinstance(shape, tuple) else (shape,) for name, shape in shapes.items()}
    strategies = [(name, tuples(cuts)) for name, cuts in re.findall(r"%\d+ (\w+) \(.* in_strategy=(.*)$", text, re.M)]
    collectives, mirrors = [], []
    for line in re.findall(r"%\d+ ((?:AllReduce|AllGather|_MirrorOperator) .*)$", text, re.M):
        found = re.search(r'group_ranks="([\d-]+)"', line)
        ranks = tuple(map(int, found[1].split("-"))) if found else tuple(range(devices))
        if line.startswith("_MirrorOperator"):
            mirrors.append(ranks)
            continue
        collectives.append(("sum" if line.startswith("AllReduce") else "move", ranks))
        if line.startswith("AllGather ($("):
            # A parameter that the parallel optimizer has cut: the adjoint of its gather sums the gradient.
            mirrors.append(ranks)
    return Planned(shapes, strategies, collectives, mirrors)


def tuples(text):
    """Return the cuts in brackets; the list prints a tuple of one as its element, ``((8))`` for ``((8,),)``."""
    return tuple(tuple(map(int, cuts.split(","))) for cuts in re.findall(r"\(([\d, ]+)\)", text))


def forward(sharded):
    return [node for node in sharded.graph.nodes if node.is_forward]


def our_collectives(sharded):
    """Return what the layouts ask for on rank 0, in the order of the operators: before each, then for the outputs."""
    moves = []
    for node in forward(sharded):
        pairs = zip(node.inputs, sharded.placements[node].inputs, strict=True)
        moves += [(sharded.layouts[value], wanted) for value, wanted in pairs]
    moves += [(sharded.layouts[value], sharded.output_layout(value)) for value in sharded.graph.outputs]
    steps = [step for source, target in moves for step in redistribute(source, target)]
    sums = ("reduce", "reduce_scatter")
    return [("sum" if step.kind in sums else "move", step.ranks(0)) for step in steps if step.kind != "slice"]


@pytest.mark.parametrize("name", IN_ONE_PIECE)
def test_operators_are_cut_and_joined_as_mindspore_planned(name) -> None:
    """A sum may be a ReduceScatter here and an AllReduce there, a move an exchange here and an AllGather there."""
    case = CASES[name]
    sharded, planned = shard(case), read_planned(FIXTURES / name / "planned_operators.txt", case.devices)
    local = {parameter: layout.local_shape(0) for parameter, layout in sharded.stored.items()}
    assert {parameter: shape for parameter, shape in planned.shapes.items() if shape not in ((), (1,))} == {
        parameter: shape for parameter, shape in local.items() if shape not in ((), (1,))
    }
    placed = [(as_theirs(case, node.operator.name), sharded.placements[node].strategy) for node in forward(sharded)]
    wanted = [item for item in planned.strategies if item[0] not in case.inserted]
    assert [item for item in placed if item in wanted] == wanted
    if case.moves_at_once:
        made, planned_ones = our_collectives(sharded), planned.collectives
        assert [one for one in made if one[0] == "sum"] == [one for one in planned_ones if one[0] == "sum"]
    else:
        assert our_collectives(sharded) == planned.collectives


@pytest.mark.parametrize("name", [name for name in IN_ONE_PIECE if CASES[name].trains])
def test_a_gradient_is_summed_over_mindspores_mirror_group_each_term_once(name) -> None:
    """MindSpore's group also has the ranks that repeat a calculation, and divides by their number; ours has not."""
    case = CASES[name]
    sharded, planned = shard(case), read_planned(FIXTURES / name / "planned_operators.txt", case.devices)
    found = []
    for gradient, parameter in sharded.graph.gradients.items():
        terms = sharded.layouts[gradient]
        steps = redistribute(terms, sharded.stored[parameter.name])
        summed = [step.ranks(0) for step in steps if step.kind in ("reduce", "reduce_scatter")]
        assert summed == ([terms.partial_group(0)] if terms.partial else [])
        if terms.partial:
            found.append(terms.devices.group(0, sorted(terms.partial + terms.replica_axes)))
    assert found == planned.mirrors


MOVED = {
    "src_strategy.ckpt": Case(trained(DP2_MP4), (X,), sharded_optimizer=True),
    "dst_strategy.ckpt": Case(trained(MP4), (X,), devices=4),
}


@pytest.mark.parametrize("file", MOVED)
def test_each_rank_holds_what_mindspores_transform_checkpoints_gave_it(file) -> None:
    case, folder = MOVED[file], FIXTURES / "e2e_8to4"
    sharded = shard(case)
    wanted = read_strategy(folder / file).layouts
    whole = read_checkpoint(folder / "full" / "rank_0" / "full.ckpt")
    assert set(wanted) <= set(whole)
    for rank in range(case.devices):
        (path,) = (folder / f"{file[:3]}_checkpoints" / f"rank_{rank}").iterdir()
        theirs = read_checkpoint(path)
        for name in wanted:
            own = whole[name][sharded.stored[name].box(rank).within(Box.whole(whole[name].shape))]
            np.testing.assert_array_equal(own, theirs[name], err_msg=f"{name} on rank {rank}")


def train_two_ways(communicator, path):
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", full_batch=True, group_ckpt_save_file=str(path).format(communicator.rank)
    )
    layer = nn.Dense(6, 4)
    layer.matmul.shard(((1, 1), (2, 1)))
    data = NumpySlicesDataset((np.ones((4, 6), np.float32), np.ones((4, 4), np.float32)), ["x", "y"]).batch(4)
    model = Model(layer, nn.MSELoss(), nn.Momentum(layer.trainable_params(), 0.1, 0.9))
    model.build(data)
    model.train(1, data)


def test_ranks_that_name_one_group_file_each_write_their_own(tmp_path, remarks) -> None:
    run_world(4, train_two_ways, tmp_path / "group_info.pb")
    names = ["group_info.pb", *(f"group_info_rank_{rank}.pb" for rank in range(1, 4))]
    assert sorted(path.name for path in tmp_path.glob("*.pb")) == names
    # Two parts of the weight over two neighbours each, or over every second rank: those that hold the same part.
    found = [restore_group_info_list(str(tmp_path / name)) for name in names]
    assert found == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert ["is the group file of rank 0; the others write group_info_rank_<r>.pb" in line for line in remarks()] == [
        True
    ]


def test_ranks_that_name_group_files_of_their_own_write_these(tmp_path, remarks) -> None:
    run_world(2, train_two_ways, tmp_path / "group_{}.pb")
    assert sorted(path.name for path in tmp_path.glob("*.pb")) == ["group_0.pb", "group_1.pb"]
    assert remarks() == []


def train_alone(communicator, path, mode):
    context.set_auto_parallel_context(parallel_mode=mode, group_ckpt_save_file=str(path))
    data = NumpySlicesDataset((np.ones((4, 6), np.float32), np.ones((4, 4), np.float32)), ["x", "y"]).batch(4)
    layer = nn.Dense(6, 4)
    Model(layer, nn.MSELoss(), nn.Momentum(layer.trainable_params(), 0.1, 0.9)).build(data)


def test_who_trains_alone_writes_the_group_file_that_is_named(tmp_path, remarks) -> None:
    train_alone(None, tmp_path / "one.pb", "semi_auto_parallel")
    run_world(2, train_alone, tmp_path / "each.pb", "stand_alone")
    assert sorted(path.name for path in tmp_path.glob("*.pb")) == ["each.pb", "one.pb"]
    assert remarks() == []


def test_parameters_that_are_not_trained_are_in_the_file_where_that_is_asked(tmp_path) -> None:
    names = {}
    for only_trained in (True, False):
        file = str(tmp_path / f"{only_trained}.json")
        context.set_auto_parallel_context(
            parallel_mode="semi_auto_parallel",
            device_num=4,
            global_rank=0,
            full_batch=True,
            strategy_ckpt_config={"save_file": file, "only_trainable_params": only_trained},
        )
        layer = nn.Dense(6, 4)
        layer.bias.requires_grad = False
        data = NumpySlicesDataset((np.ones((4, 6), np.float32), np.ones((4, 4), np.float32)), ["x", "y"]).batch(4)
        Model(layer, nn.MSELoss(), nn.Momentum([layer.weight], 0.1, 0.9)).build(data)
        context.reset_auto_parallel_context()
        names[only_trained] = set(read_strategy(file).layouts)
    assert (names[True], names[False]) == ({"weight", "moments.weight"}, {"weight", "moments.weight", "bias"})


def test_a_partial_sum_is_whole_on_every_rank_in_the_words_of_a_strategy() -> None:
    layout = Layout((8, 6), DeviceMatrix((2, 2)), ((), ()), partial=(0, 1))
    assert parameter_layout(layout, 3) == ([2, 2], [-1, -1], [8, 6], 0, True, "")
