"""``save_graphs``: what a network became, as text."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError

RANKS = 4


def train(communicator, folder, level):
    context.set_context(save_graphs=level, save_graphs_path=str(folder))
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = nn.Dense(6, 4)
    network.matmul.shard(((2, 2), (1, 2)))
    model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.1, 0.9))
    data = NumpySlicesDataset((np.ones((8, 6), np.float32), np.ones((8, 4), np.float32)), ["x", "y"]).batch(8)
    model.train(1, data)


@pytest.mark.parametrize(
    ("level", "kinds"),
    [
        (0, []),
        (1, ["traced"]),
        (2, ["layouts", "local", "traced"]),
        (True, ["layouts", "local", "traced"]),
        (3, ["layouts", "local", "memory", "traced"]),
    ],
)
def test_the_level_says_which_graphs_are_written(tmp_path, level, kinds) -> None:
    run_world(RANKS, train, tmp_path, level)
    for rank in range(RANKS):
        names = sorted(path.name for path in (tmp_path / f"rank_{rank}").glob("*"))
        assert [name.split(".")[1] for name in names] == kinds
        assert all(re.fullmatch(r"training_8x6_8x4_[0-9a-f]{6}\.[a-z]+\.txt", name) for name in names)


def test_the_texts_say_strategy_layout_collective_and_memory(tmp_path) -> None:
    run_world(RANKS, train, tmp_path, 3)
    texts = {path.name.split(".")[1]: path.read_text() for path in (tmp_path / "rank_1").glob("*")}
    assert "MatMul(input0, weight)  at network/_backbone/MatMul  strategy ((2, 2), (1, 2))" in texts["traced"]
    # Rows of the batch over ranks (0, 1) and (2, 3), the inner dim within them: so partial sums within.
    assert "parameter weight[4, 6]:float32: [4 x 6/2] on (2, 2)" in texts["layouts"]
    assert re.search(r"MatMul:0: \[8/2 x 4\] on \(2, 2\), partial sum over axes \(1,\) -> ", texts["layouts"])
    # The term of 4 x 4 floats that rank 1 has of the product is summed with that of rank 0.
    assert re.search(r"network/_backbone/MatMul:0/reduce\w*  among ranks \[0, 1\], 64 bytes", texts["local"])
    # The rank holds half of the weight and of its moments, the bias and its moments, and two scalars and a counter.
    assert f"{4 * (2 * 4 * 3 + 2 * 4 + 2 + 1)} bytes of parameters" in texts["memory"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("")

    def on_rank(communicator):
        with pytest.raises(ConfigurationError, match=r"save_graphs_path: .* cannot be written"):
            train(communicator, tmp_path / "file", 1)

    run_world(1, on_rank)
