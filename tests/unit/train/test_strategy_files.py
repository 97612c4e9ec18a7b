"""Strategy and group files of MindSpore's own nets, built by mpiparallel with no MPI, against MindSpore's own files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mpiparallel.ops as ops
from mpiparallel import context, nn
from mpiparallel.checkpoint.group_file import read_group_info
from mpiparallel.checkpoint.strategy_file import read_strategy
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.graph.parameter import Parameter
from mpiparallel.nn.initializer import initializer
from mpiparallel.train.model import Model

FIXTURES = Path(__file__).parents[2] / "fixtures" / "mindspore"
DP2_MP4 = ((((2, 1), (1, 4))), ((2, 4),), ((2, 4), (4, 1)))
HALF = ((((2, 1), (1, 2))), ((2, 2),), ((2, 2), (2, 1)))
CASES = {
    "mm_dp2mp4_train": (DP2_MP4, False),
    "mm_dp2mp4_train_json": (DP2_MP4, False),
    "mm_dp2mp4_opt_train": (DP2_MP4, True),
    "mm_repeat4of8_train": (HALF, False),
    "mm_unassigned_batch12": (None, False),
}


class TwoMatMul(nn.Cell):
    def __init__(self, strategies):
        super().__init__()
        self.w1 = Parameter(initializer("normal", [64, 32]), name="w1")
        self.w2 = Parameter(initializer("normal", [32, 16]), name="w2")
        self.first, self.relu, self.second = ops.MatMul(), ops.ReLU(), ops.MatMul()
        if strategies is not None:
            for operator, strategy in zip((self.first, self.relu, self.second), strategies, strict=True):
                operator.shard(strategy)

    def construct(self, x):
        return self.second(self.relu(self.first(x, self.w1)), self.w2)


class MeanLoss(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.mean = ops.ReduceMean()

    def construct(self, x):
        return self.mean(self.net(x))


@pytest.fixture(autouse=True)
def _reset():
    yield
    context.reset_auto_parallel_context()


WRITTEN = [(case, rank) for case in CASES for rank in range(8) if any((FIXTURES / case).glob(f"*_rank{rank}.*"))]


@pytest.mark.parametrize(("case", "rank"), WRITTEN)
def test_built_files_say_what_mindspores_planner_says(case, rank, tmp_path, monkeypatch) -> None:
    strategies, sharded_optimizer = CASES[case]
    suffix = ".json" if case.endswith("json") else ".ckpt"
    theirs = FIXTURES / case / f"strategy_rank{rank}{suffix}"
    their_groups = FIXTURES / case / f"group_info_rank{rank}.pb"
    ours, our_groups = tmp_path / theirs.name, tmp_path / "group_info.pb"
    monkeypatch.setenv("GROUP_INFO_FILE", str(our_groups))
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        device_num=8,
        global_rank=rank,
        full_batch=True,
        enable_parallel_optimizer=sharded_optimizer,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        strategy_ckpt_save_file=str(ours),
    )
    network = MeanLoss(TwoMatMul(strategies))
    model = Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9))
    batch = 12 if "batch12" in case else 16
    dataset = NumpySlicesDataset(np.zeros((batch, 64), np.float32), ["x"], shuffle=False).batch(batch)
    model.build(train_dataset=dataset)

    if theirs.exists():
        made, wanted = read_strategy(ours), read_strategy(theirs)
        if suffix == ".ckpt":
            # The protobuf form does not carry shapes.
            assert {name: item.tensor_shape for name, item in made.layouts.items()} == dict.fromkeys(made.layouts)
        assert made == wanted
    if their_groups.exists():
        made_groups, wanted_groups = read_group_info(our_groups), read_group_info(their_groups)
        assert made_groups.groups == wanted_groups.groups
        assert made_groups.restore_ranks == wanted_groups.restore_ranks
