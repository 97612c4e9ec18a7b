"""Operators and cells of a network by their places: which there are, how they are cut, and in which stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import nn, ops
from mpiparallel.errors import StrategyError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.train.elastic.operator_cuts import (
    cuts_like,
    cuts_of,
    merge_stages,
    operators_of,
    set_cuts,
    set_stages,
    stages_of,
)


class Mixed(nn.Cell):
    """Operators as attributes, in a list, a tuple and a dict, beside what is none."""

    def __init__(self, strategy: Any = None) -> None:
        super().__init__()
        self.product = ops.MatMul()
        self.several = [ops.ReLU(), 3, ops.Tanh()]
        self.pair = (None, ops.Exp())
        self.named = {"sum": ops.Add(), 7: ops.Mul(), "other": "text"}
        self.inner = nn.Dense(2, 3)
        if strategy is not None:
            self.product.shard(strategy)


def test_operators_are_found_in_attributes_lists_and_dicts_by_their_places() -> None:
    found = {place: type(one).__name__ for place, one in operators_of(Mixed()).items()}
    assert found == {
        "product": "MatMul",
        "several.0": "ReLU",
        "several.2": "Tanh",
        "pair.1": "Exp",
        "named.sum": "Add",
        "named.7": "Mul",
        "inner.matmul": "MatMul",
        "inner.bias_add": "BiasAdd",
    }


def test_strategies_of_inputs_and_outputs_are_taken_over_by_their_places() -> None:
    network = Mixed(((2, 1), (1, 2)))
    network.inner.matmul.shard(((1, 2), (2, 1)), ((2, 1),))
    cuts = cuts_of(network)
    assert cuts["product"] == (((2, 1), (1, 2)), None)
    assert cuts["inner.matmul"] == (((1, 2), (2, 1)), ((2, 1),))
    assert cuts["pair.1"] == (None, None)
    other = Mixed(((4, 1), (1, 1)))
    set_cuts(other, cuts)
    assert cuts_of(other) == cuts == cuts_like(Mixed(), network)


@pytest.mark.parametrize(
    ("count", "stages"),
    [
        (1, [0, 1, 2, 3]),
        (2, [0, 0, 1, 1]),
        (3, [0, 0, 1, 2]),
        (4, [0, 1, 2, 3]),
        (8, [0, 1, 2, 3]),
    ],
)
def test_neighbours_are_put_together_into_fewer_stages(count: int, stages: list[int]) -> None:
    network = nn.SequentialCell([nn.ReLU() for _ in range(5)])
    set_stages(network, {str(place): place for place in range(4)})
    merge_stages(network, count)
    # The last one was in no stage, and stays so.
    assert stages_of(network) == {str(place): stage for place, stage in enumerate(stages)}
    set_stages(network, {"4": 1})
    assert stages_of(network) == {"4": 1}


class Other(Mixed):
    """The same with other operators in three places and one more."""

    def __init__(self) -> None:
        super().__init__()
        self.product, self.pair, self.more = ops.BatchMatMul(), (), ops.Sqrt()
        self.inner = nn.Dense(2, 3, has_bias=False)


def test_three_operators_that_differ_are_named() -> None:
    with pytest.raises(StrategyError) as caught:
        cuts_like(Mixed(), Other())
    assert str(caught.value) == (
        "Model.reshard: the network given as strategy, a Other, differs from the model's, a Mixed, in product, pair.1, "
        "inner.bias_add; make it as the model's was made, but for the cuts"
    )


def with_parameters(*shapes: tuple[int, ...]) -> nn.Cell:
    cell = nn.Cell()
    for number, shape in enumerate(shapes):
        setattr(cell, f"w{number}", Parameter(np.zeros(shape, np.float32), f"w{number}"))
    return cell


def test_three_parameters_that_differ_are_told_with_their_shapes() -> None:
    with pytest.raises(StrategyError) as caught:
        cuts_like(with_parameters((1,), (2,), (3,), (4,)), with_parameters((1, 1), (2,), (4,), (5,), (6,)))
    assert str(caught.value) == (
        "Model.reshard: the network given as strategy, a Cell, differs from the model's, a Cell, in parameter 'w0', "
        "whose shape is (1, 1), not (1,); parameter 'w2', whose shape is (4,), not (3,); parameter 'w3', whose shape "
        "is (5,), not (4,); make it as the model's was made, but for the cuts"
    )
