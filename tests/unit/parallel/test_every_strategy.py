"""Each operator under every strategy that is legal on 1 to 4 ranks, and on 6 and 8; and errors for those that are not.

On 6 and 8 ranks some are drawn of those that have many; ``make soak`` tries all of them. One that does not fit gets an
error that names operator, input, dim, cut and mend.
"""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel.ops as ops
from mpiparallel import context, nn
from mpiparallel.errors import StrategyError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.testing.case_strategies import check_strategies_of
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_cases import CASES
from tests.reliability.counts import share

MOST = None if share() else 4
"""How many are drawn on each of the larger numbers of ranks."""


@pytest.mark.parametrize("case", [case for case in CASES if case.every_strategy], ids=lambda case: case.name)
def test_value_and_gradient_are_those_of_one_rank_under_every_strategy(case: OperatorCase) -> None:
    check_strategies_of(case, (1, 2, 3, 4), rtol=1e-11, atol=1e-12)
    check_strategies_of(case, (6, 8), rtol=1e-11, atol=1e-12, most=MOST)


X = np.zeros((8, 6), np.float32)


class Product(nn.Cell):
    def __init__(self, strategy, other=None):
        super().__init__()
        self.w = Parameter(np.zeros((6, 4), np.float32), "w")
        self.first = ops.MatMul().shard(strategy)
        self.second = ops.MatMul() if other is None else ops.MatMul().shard(other)

    def construct(self, x):
        return self.first(x, self.w) + self.second(x, self.w)


class Rows(nn.Cell):
    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def construct(self, x):
        return self.operator(x)


@pytest.fixture(autouse=True)
def _eight_devices():
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8, full_batch=True)
    yield
    context.reset_auto_parallel_context()


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (((2, 1),), r"MatMul: strategy \(\(2, 1\),\) has 1 entries for 2 inputs; give each input one"),
        (((2,), (1, 4)), r"MatMul: input 0 has 2 dims, but its strategy \(2,\) has 1 cuts"),
        (((4, 1), (1, 4)), r"cuts into 16 parts, but there are 8 devices; make the product of the cuts at most 8"),
        (((3, 1), (1, 1)), r"cuts into 3 parts, which does not divide the 8 devices"),
        (((1, 2), (4, 1)), r"dim 1 of input 0 is cut 2 ways and dim 0 of input 1 4 ways.*must be cut alike"),
    ],
)
def test_a_strategy_that_does_not_fit_is_refused(strategy, message) -> None:
    with pytest.raises(StrategyError, match=message):
        Product(strategy, strategy).sharded_graph(X)


def test_a_dim_that_must_stay_whole_is_refused() -> None:
    message = r"Softmax: dim 1 of input 0 must stay whole, but is cut 2 ways; give it cut 1"
    with pytest.raises(StrategyError, match=message):
        Rows(ops.Softmax(-1).shard(((1, 2),))).sharded_graph(X)


@pytest.mark.parametrize(
    ("group", "strategy", "message"),
    [
        (1, ((1, 1, 2, 1), (1, 1, 2, 1)), r"dim 2 of input 1 must stay whole, but is cut 2 ways; give it cut 1"),
        (1, ((1, 2, 1, 1), (1, 1, 1, 1)), r"dim 1 of input 0 is cut 2 ways and dim 1 of input 1 1 ways.*cut alike"),
        (2, ((1, 4, 1, 1), (4, 1, 1, 1)), r"dim 1 of input 0 can be cut only into a number .* divides 2, not 4"),
        (2, ((1, 2, 1, 1), (2, 2, 1, 1)), r"dim 1 of input 1 must stay whole, but is cut 2 ways; give it cut 1"),
    ],
)
def test_a_convolution_refuses_cuts_of_kernels_and_of_channels_within_a_group(group, strategy, message) -> None:
    layer = nn.Conv2d(4, 8, 3, group=group)
    layer.conv2d.shard(strategy)
    with pytest.raises(StrategyError, match=f"Conv2D: {message}"):
        layer.sharded_graph(np.zeros((2, 4, 8, 8), np.float32))


def test_a_parameter_used_under_two_layouts_is_refused_with_both_users() -> None:
    message = r"parameter 'w' of shape \(6, 4\) is used under two layouts: .*MatMul.* and .*MatMul-1"
    with pytest.raises(StrategyError, match=message):
        Product(((2, 1), (1, 4)), ((8, 1), (1, 1))).sharded_graph(X)


@pytest.mark.parametrize("strategy", [[(1, 2)], ((1, 0),), ((1, "2"),), (2, 1)])
def test_what_is_no_strategy_is_refused_at_once(strategy) -> None:
    with pytest.raises(StrategyError, match="strategy"):
        ops.ReLU().shard(strategy)


@pytest.mark.parametrize(
    ("build", "call"),
    [
        (ops.TopK, lambda operator, x: operator(x, 2)[0]),
        (ops.CumSum, lambda operator, x: operator(x, 1)),
        (lambda: ops.Pad(((0, 0), (1, 0))), lambda operator, x: operator(x)),
        (ops.StridedSlice, lambda operator, x: operator(x, (slice(None), slice(0, 4)))),
        (lambda: ops.Unstack(1), lambda operator, x: operator(x)[0]),
    ],
)
def test_a_dim_that_an_operator_must_see_whole_is_named(build, call) -> None:
    class Applied(Rows):
        def construct(self, x):
            return call(self.operator, x)

    with pytest.raises(StrategyError, match="dim 1 of input 0 must stay whole, but is cut 2 ways; give it cut 1"):
        Applied(build().shard(((2, 2),))).sharded_graph(X)


def test_what_is_repeated_is_cut_into_a_divisor_of_how_often() -> None:
    class Repeated(Rows):
        def construct(self, x):
            return self.operator(x, (1, 6))

    with pytest.raises(StrategyError, match="dim 1 of input 0 can be cut only into a number of parts that divides 6"):
        Repeated(ops.Tile().shard(((1, 4),))).sharded_graph(X)
