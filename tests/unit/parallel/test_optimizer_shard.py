"""The size of optimizer shards: what it cannot do is refused or said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.optimizer_shard import storage_layout

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


def used(matrix: tuple[int, ...], *axes: tuple[int, ...], rows: int = 24) -> Layout:
    """Return the layout in which operators use a weight."""
    return Layout((rows, 8)[: len(axes)], DeviceMatrix(matrix), axes)


def shards(layout: Layout, parameter: Parameter | None = None, **settings: Any) -> list[int]:
    """Return with which row each rank's part begins, where it is stored."""
    weight = parameter if parameter is not None else Parameter(np.zeros(layout.global_shape, np.float32), "weight")
    given = {"enable_parallel_optimizer": True, "optimizer_threshold": 0, **settings}
    stored_as = storage_layout(layout, weight, ParallelConfiguration("semi_auto_parallel", 8, **given))
    assert stored_as.global_shape == layout.global_shape
    return [stored_as.box(rank).start[0] for rank in range(layout.devices.size)]


@pytest.mark.parametrize(
    ("layout", "size", "starts"),
    [
        # Eight replicas: all of them, or the ranks that lie beside each other.
        (used((8,), (), ()), -1, [0, 3, 6, 9, 12, 15, 18, 21]),
        (used((8,), (), ()), 8, [0, 3, 6, 9, 12, 15, 18, 21]),
        (used((8,), (), ()), 4, [0, 6, 12, 18] * 2),
        (used((8,), (), ()), 2, [0, 12] * 4),
        (used((8,), (), ()), 1, [0] * 8),
        (used((2, 4), (), ()), 8, [0, 3, 6, 9, 12, 15, 18, 21]),
        (used((2, 4), (), ()), 4, [0, 6, 12, 18] * 2),
        (used((2, 4), (), ()), 2, [0, 12] * 4),
        (used((4, 2), (), ()), 4, [0, 6, 12, 18] * 2),
        # Halves of the rows, each of which four ranks hold: on the inner axis, or on the outer one.
        (used((2, 4), (0,), ()), -1, [0, 3, 6, 9, 12, 15, 18, 21]),
        (used((2, 4), (0,), ()), 2, [0, 6] * 2 + [12, 18] * 2),
        (used((4, 2), (1,), ()), -1, [0, 12, 3, 15, 6, 18, 9, 21]),
        (used((4, 2), (1,), ()), 2, [0, 12, 6, 18] * 2),
        # The columns are cut on an axis between the replicas.
        (used((2, 2, 2), (), (1,)), -1, [0, 6, 0, 6, 12, 18, 12, 18]),
        (used((2, 2, 2), (), (1,)), 2, [0, 12, 0, 12] * 2),
        # More than there are replicas, and as many as no axes make up.
        (used((2, 4), (0,), (), rows=32), 8, [0] * 4 + [16] * 4),
        (used((2, 3), (), ()), 2, [0] * 6),
        # Two replicas, beside each other or not.
        (used((4, 2), (0,), ()), -1, [0, 3, 6, 9, 12, 15, 18, 21]),
        (used((2, 4), (1,), ()), -1, [0, 6, 12, 18, 3, 9, 15, 21]),
        # Rows that do not divide evenly stay as they are.
        (used((8,), (), (), rows=20), -1, [0] * 8),
        (used((8,), (), (), rows=20), 4, [0, 5, 10, 15] * 2),
        (used((2, 4), (0,), (), rows=12), -1, [0] * 4 + [6] * 4),
    ],
)
def test_shards_lie_with_replicas_that_follow_each_other(layout: Layout, size: int, starts: list[int]) -> None:
    assert shards(layout, optimizer_shard_size=size) == starts


@pytest.mark.parametrize(("threshold", "is_cut"), [(0, True), (1, True), (2, False), (64, False)])
def test_a_weight_below_the_threshold_of_kibibytes_is_not_shared_out(threshold: int, is_cut: bool) -> None:
    # 32 rows of 8 numbers of 4 bytes are a KiB.
    starts = shards(used((8,), (), (), rows=32), optimizer_threshold=threshold)
    assert starts == ([0, 4, 8, 12, 16, 20, 24, 28] if is_cut else [0] * 8)
    assert shards(used((8,), (), (), rows=24), optimizer_threshold=1) == [0] * 8
    # Two bytes less than two KiB.
    almost = Parameter(np.zeros(1023, np.float16), "weight")
    assert shards(used((3,), (), rows=1023), almost, optimizer_threshold=2) == [0] * 3
    assert shards(used((3,), (), rows=1023), almost, optimizer_threshold=1) == [0, 341, 682]


def test_what_does_not_take_part_has_no_replicas_or_is_a_scalar_stays_as_it_is_used() -> None:
    def weight(**settings: Any) -> Parameter:
        return Parameter(np.zeros((24, 8), np.float32), "weight", **settings)

    layout = used((8,), (), ())
    assert shards(layout, enable_parallel_optimizer=False) == [0] * 8
    assert shards(layout, weight(requires_grad=False)) == [0] * 8
    assert shards(layout, weight(parallel_optimizer=False)) == [0] * 8
    assert shards(used((8,), (0,), ())) == [3 * rank for rank in range(8)]
    by_hand = used((2, 4), (0,), ()).with_bounds((((0, 10), (10, 24)), ()))
    assert shards(by_hand) == [0] * 4 + [10] * 4
    scalar = Layout((), DeviceMatrix((8,)), ())
    stored_as = storage_layout(
        scalar, Parameter(np.float32(1), "scale"), ParallelConfiguration(enable_parallel_optimizer=True)
    )
    assert stored_as == scalar


@pytest.mark.parametrize(
    ("layout", "common", "starts"),
    [
        (used((8,), (), ()), 8, [0, 3, 6, 9, 12, 15, 18, 21]),
        (used((8,), (), ()), 2, [0, 12] * 4),
        (used((8,), (), ()), 1, [0] * 8),
        # Halves use up a factor of 2 of the ranks that the stages have in common.
        (used((2, 4), (0,), ()), 8, [0, 3, 6, 9, 12, 15, 18, 21]),
        (used((2, 4), (0,), ()), 4, [0, 6] * 2 + [12, 18] * 2),
        (used((2, 4), (0,), ()), 2, [0] * 4 + [12] * 4),
    ],
)
def test_what_stages_of_unequal_size_share_has_as_many_shards_in_each(
    layout: Layout, common: int, starts: list[int]
) -> None:
    assert shards(layout, ranks_in_common=(("weight", common), ("other", 3))) == starts


def test_where_stages_leave_no_shards_nothing_is_said_of_a_size_that_nobody_has_set(
    remarks: Callable[[], list[str]],
) -> None:
    assert shards(used((2, 3), (), ()), ranks_in_common=(("weight", 2),)) == [0] * 6
    assert remarks() == []
