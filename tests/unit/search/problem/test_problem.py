"""The tables of a search add up to what runs, or to a bound on it where sums are counted apart."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import nn, ops
from mpiparallel.errors import StrategyError
from mpiparallel.search.problem.choices import choices_of
from mpiparallel.search.problem.clock import Clock
from mpiparallel.search.problem.problem import pricing_of, problem_of
from tests.conformance.searched_networks import Drawn, Moved, Transformer, task_of, weight


def problem(task):
    return problem_of(task, choices_of(task.graph, task.given, task.configuration.device_num), Clock())


class Tied(nn.Cell):
    """One weight on both sides of a non-linear operator."""

    def __init__(self):
        super().__init__()
        self.rows, self.width = 24, 16
        self.weight = weight(16, 64)
        self.first, self.second, self.relu = ops.MatMul(), ops.MatMul(transpose_b=True), ops.ReLU()

    def construct(self, x):
        return self.second(self.relu(self.first(x, self.weight)), self.weight).sum()


class Images(nn.Cell):
    """Convolutions, of which windows reach over cuts."""

    def __init__(self):
        super().__init__()
        self.rows, self.width = 4, 3 * 8 * 8
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3, stride=2)
        self.norm, self.relu = nn.BatchNorm2d(8), nn.ReLU()

    def construct(self, x):
        return self.second(self.relu(self.norm(self.first(x.reshape((4, 3, 8, 8)))))).sum()


class Summed(nn.Cell):
    """Sums whose gradients are the same number everywhere: of weights, and of the largest of each row."""

    def __init__(self):
        super().__init__()
        self.rows, self.width = 24, 16
        self.weight, self.bias = weight(16, 64), weight(64)
        self.product, self.largest = ops.MatMul(), ops.TopK()

    def construct(self, x):
        y = self.product(x, self.weight)
        return self.largest(y, 2)[0].sum() + ops.logsumexp(y, 1).sum() + self.weight.mean() + self.bias.sum()


class InputGradient(nn.Cell):
    """The gradient of a sum of squares, which is spread over rows, and is what the network returns."""

    def __init__(self):
        super().__init__()
        self.rows, self.width = 24, 16
        self.relu, self.sum = ops.ReLU(), ops.ReduceSum()

    def construct(self, x):
        return ops.grad(lambda rows: (self.sum(rows, 1) ** 2).sum())(self.relu(x))


class Cast(nn.Cell):
    """A product that is rounded, and then taken by two others."""

    def __init__(self):
        super().__init__()
        self.rows, self.width = 24, 16
        self.weight, self.one, self.other = weight(16, 64), weight(64, 32), weight(64, 32)
        self.product, self.left, self.right = ops.MatMul(), ops.MatMul(), ops.MatMul()

    def construct(self, x):
        rounded = self.product(x, self.weight).astype(np.float16).astype(np.float32)
        return (self.left(rounded, self.one) * self.right(rounded, self.other)).sum()


class Returned(nn.Cell):
    """A network that goes on with a gradient, which is a sum of two."""

    def __init__(self):
        super().__init__()
        self.rows, self.width = 24, 16
        self.weight, self.table, self.product = weight(16, 64), weight(24, 64), ops.MatMul()

    def construct(self, x):
        gradient = ops.grad(lambda rows: (rows * rows).sum())(self.product(x, self.weight))
        return (gradient * self.table).sum()


NETWORKS = {
    "drawn": lambda: Drawn(3, 5),
    "tied": Tied,
    "transformer": lambda: Transformer(1),
    "layers": lambda: Transformer(5),
    "images": Images,
    "sums": Summed,
    "moved": Moved,
    "gradient": InputGradient,
    "cast": Cast,
}


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        *(("drawn", ranks) for ranks in (6, 8)),
        *((name, 4) for name in ("tied", "transformer", "layers", "sums", "gradient")),
        ("images", 2),
        ("moved", 8),
        # Where the ranks are no power of a prime, layouts that hold the same may be apart by more than one step.
        *(("gradient", ranks) for ranks in (1, 6)),
        ("layers", 1),
    ],
)
def test_the_tables_add_up_to_the_price_of_what_the_first_rank_runs(name, ranks) -> None:
    """Truth is a walk over the local graph that the compiler makes of these strategies."""
    task = task_of(NETWORKS[name](), ranks)
    found = problem(task)
    draw = np.random.default_rng(ranks)
    assert found.exact
    for _ in range(24 if name == "gradient" else 4):
        options = [int(draw.integers(count)) for count in found.counts]
        if name == "layers":
            assert len({id(table.values) for table in found.seconds}) < len(found.seconds) / 2
        if np.isfinite(found.cost(options)):
            assert found.cost(options) == pytest.approx(task.cost(found.strategies(options)).seconds, rel=1e-9)


def test_strategies_that_cut_one_weight_otherwise_are_refused_as_they_are_without_a_search() -> None:
    network = Tied()
    network.first.shard(((4, 1), (1, 1)))
    network.second.shard(((2, 2), (1, 2)))
    said = (
        r"parameter 'weight' of shape \(16, 64\) is used under two layouts: .* by network/MatMul and .* cut it alike$"
    )
    with pytest.raises(StrategyError, match=said):
        problem(task_of(network, 4))


@pytest.mark.parametrize("name", ["drawn", "transformer", "images", "cast"])
def test_what_is_counted_apart_is_never_above_what_runs_and_comes_nearer_at_plans(name) -> None:
    task = task_of(NETWORKS[name](), 4)
    choices = choices_of(task.graph, task.given, 4)
    pricing = pricing_of(task, choices, Clock(), most_cells=1)
    found = pricing.problem()
    assert found.bounds
    assert not found.exact
    draw = np.random.default_rng(5)
    below, nearer = 0, 0
    for _ in range(4):
        options = [int(draw.integers(count)) for count in found.counts]
        told, real = found.cost(options), task.cost(found.strategies(options)).seconds
        again = pricing.problem([options]).cost(options)
        assert max(told, again) <= real * (1 + 1e-9)
        below += told < real * (1 - 1e-9)
        nearer += again > told
    assert below
    assert nearer


def test_where_the_network_goes_on_with_a_sum_that_is_counted_apart_there_is_no_bound() -> None:
    task = task_of(Returned(), 4)
    choices = choices_of(task.graph, task.given, 4)
    exact, apart = (pricing_of(task, choices, Clock(), most_cells=cells).problem() for cells in (1 << 10, 1))
    assert (exact.exact, exact.bounds) == (True, True)
    assert (apart.exact, apart.bounds) == (False, False)


def test_what_is_counted_apart_is_all_of_what_runs_where_operators_that_take_one_value_are_cut_alike() -> None:
    task = task_of(Transformer(1), 4)
    choices = choices_of(task.graph, task.given, 4)
    pricing = pricing_of(task, choices, Clock(), most_cells=200)
    draw = np.random.default_rng(5)
    apart = 0
    for products in (((1, 1), (1, 4)), ((2, 1), (1, 2)), ((1, 4), (4, 1))):
        drawn_options = {choice.options: int(draw.integers(len(choice.options))) for choice in choices}
        drawn_options[choices[1].options] = choices[1].options.index(products)
        options = [drawn_options[choice.options] for choice in choices]
        found = pricing.problem([options])
        real = task.cost(found.strategies(options)).seconds
        assert found.cost(options) == pytest.approx(real, rel=1e-9)
        apart += pricing.problem().cost(options) < real * (1 - 1e-9)
    assert apart
