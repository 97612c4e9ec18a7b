"""The size of optimizer shards: what it cannot do is refused or said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.layout import Layout

X = np.ones((4, 12), np.float32)


class Product(nn.Cell):
    """The sum of a product with a weight of twelve rows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = ms.Parameter(np.ones((12, 2), np.float32), "weight")
        self.matmul = ops.MatMul()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return ops.ReduceSum()(self.matmul(x, self.weight))


def stored(communicator: Communicator, size: int) -> Layout:
    """Return the layout of the weight with optimizer shards of ``size`` ranks."""
    ms.reset_auto_parallel_context()
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        enable_parallel_optimizer=True,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        optimizer_weight_shard_size=size,
    )
    network = Product()
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    return step.sharded_graph(ms.Tensor(X)).stored["weight"]


@pytest.mark.parametrize(
    ("size", "shards", "said"), [(-1, 6, 0), (2, 2, 0), (3, 3, 0), (4, 1, 1), (5, 1, 1), (1, 1, 0)]
)
def test_a_size_that_does_not_divide_the_ranks_says_that_it_has_no_effect(
    size: int, shards: int, said: int, remarks: Callable[[], list[str]]
) -> None:
    layouts = run_world(6, stored, size)
    assert {12 // layout.box(rank).shape[0] for rank, layout in enumerate(layouts)} == {shards}
    assert [f"optimizer_weight_shard_size={size} has no effect here" in line for line in remarks()] == [True] * said


def test_two_do_not_share_out_what_three_hold(remarks: Callable[[], list[str]]) -> None:
    assert {layout.box(0).shape[0] for layout in run_world(3, stored, 2)} == {12}
    assert ["cannot be shared out among 2 of them each" in line for line in remarks()] == [True]


def test_a_size_above_the_number_of_ranks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="optimizer_weight_shard_size 7 is more than the 6 devices"):
        run_world(6, stored, 7)
