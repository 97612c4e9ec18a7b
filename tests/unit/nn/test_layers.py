"""Layers compute their formulas, and their parameters are named after their places."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpiparallel import nn
from mpiparallel.context import PYNATIVE_MODE, set_context
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.layout.box import Box
from mpiparallel.nn.initializer import Normal, initializer

GENERATOR = np.random.default_rng(3)


def values(*shape):
    return GENERATOR.normal(size=shape)


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 5, 3), (2, 2, 5, 3)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_dense_is_x_times_weight_transposed_plus_bias(shape, has_bias):
    x, weight, bias = values(*shape), values(4, 3), values(4)
    dense = nn.Dense(3, 4, Tensor(weight), Tensor(bias), has_bias, dtype=np.float64)
    np.testing.assert_allclose(dense(Tensor(x)).asnumpy(), x @ weight.T + bias * has_bias, rtol=1e-12)


def test_dense_applies_its_activation_given_by_name_or_as_a_cell():
    x, weight = values(5, 3), values(4, 3)
    for activation in ("relu", nn.ReLU()):
        dense = nn.Dense(3, 4, Tensor(weight), activation=activation, dtype=np.float64)
        np.testing.assert_allclose(dense(Tensor(x)).asnumpy(), np.maximum(x @ weight.T, 0), rtol=1e-12)


def test_dense_refuses_first_values_of_another_shape():
    with pytest.raises(ConfigurationError, match=r"weight is given first values of shape \(3, 4\).*\(4, 3\)"):
        nn.Dense(3, 4, Tensor(values(3, 4)))


@pytest.mark.parametrize(("begin", "axes"), [(-1, (-1,)), (1, (1, 2)), (2, (2,))])
def test_layer_norm_normalises_from_its_first_axis_on(begin, axes):
    x = values(2, 5, 4)
    layer = nn.LayerNorm(x.shape[begin:], begin, begin, "ones", "zeros", 1e-5, dtype=np.float64)
    gamma, beta = values(*layer.gamma.shape), values(*layer.beta.shape)
    layer.gamma.set_data(gamma)
    layer.beta.set_data(beta)
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    wanted = (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta
    np.testing.assert_allclose(layer(Tensor(x)).asnumpy(), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("use_one_hot", [True, False])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_embedding_picks_rows(use_one_hot, shape):
    table, ids = values(7, 4), GENERATOR.integers(0, 7, shape).astype(np.int32)
    layer = nn.Embedding(7, 4, use_one_hot, Tensor(table), np.float64)
    np.testing.assert_allclose(layer(Tensor(ids)).asnumpy(), table[ids], rtol=1e-15)


@pytest.mark.parametrize("table", ["normal", Tensor(np.ones((7, 4), np.float32))])
def test_embedding_starts_with_a_row_of_zeros_at_padding_idx(table):
    found = nn.Embedding(7, 4, embedding_table=table, padding_idx=2).embedding_table.asnumpy()
    assert not found[2].any()
    assert found[[0, 1, 3, 4, 5, 6]].all()


@pytest.mark.parametrize("row", [8, 9, -1])
def test_embedding_refuses_a_padding_idx_out_of_range(row):
    with pytest.raises(ConfigurationError, match=f"padding_idx {row} is out of range for 8 rows; give 0 to 7$"):
        nn.Embedding(8, 4, padding_idx=row)


@pytest.mark.parametrize("row", [0, 2, 6])
def test_each_rank_has_its_part_of_a_table_with_a_row_of_zeros(row):
    wanted = np.ones((7, 4))
    wanted[row] = 0
    first = nn.Embedding(7, 4, embedding_table="ones", padding_idx=row).embedding_table.initial
    for start, stop in (((0, 0), (7, 4)), ((0, 1), (3, 4)), ((1, 0), (4, 2)), ((2, 3), (7, 4)), ((3, 0), (6, 4))):
        found = first.part("table", (7, 4), Box(start, stop))
        np.testing.assert_array_equal(found, wanted[start[0] : stop[0], start[1] : stop[1]])


def test_dropout_scales_what_it_keeps_in_training_and_is_the_identity_otherwise():
    x = np.ones((200, 50))
    layer = nn.Dropout(0.8)
    np.testing.assert_array_equal(layer(Tensor(x)).asnumpy(), x)
    kept = layer.set_train()(Tensor(x)).asnumpy()
    assert set(np.unique(kept)) == {0.0, 1.25}
    assert abs((kept > 0).mean() - 0.8) < 0.02


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"p": 1.0}, "Dropout: p=1.0 must be at least 0 and below 1"),
        ({"p": 1.5}, "Dropout: p=1.5 must be at least 0 and below 1"),
        ({"p": -0.1}, "Dropout: p=-0.1 must be at least 0 and below 1"),
        ({"keep_prob": 0.0}, "0.0"),
        ({"keep_prob": 1.5}, "1.5"),
    ],
)
def test_dropout_refuses_a_probability_out_of_range(arguments, said):
    with pytest.raises(ConfigurationError, match=said):
        nn.Dropout(**arguments)


def gelu(x):
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    exponential = np.exp(x - x.max(-1, keepdims=True))
    return exponential / exponential.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("GELU", gelu),
        ("tanh", np.tanh),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("softmax", softmax),
    ],
)
def test_activation_computes_its_formula(name, function):
    x = values(4, 6)
    np.testing.assert_allclose(nn.get_activation(name)(Tensor(x)).asnumpy(), function(x), rtol=1e-12)


def test_an_unknown_activation_is_refused():
    with pytest.raises(ConfigurationError, match=r"'swishy' is not one of .*gelu, .*relu"):
        nn.get_activation("swishy")


def test_sequential_cell_applies_its_cells_in_order():
    x, weight = values(5, 3), values(4, 3)
    dense = nn.Dense(3, 4, Tensor(weight), dtype=np.float64)
    wanted = np.tanh(x @ weight.T)
    for network in (nn.SequentialCell(dense, nn.Tanh()), nn.SequentialCell([dense, nn.Tanh()])):
        np.testing.assert_allclose(network(Tensor(x)).asnumpy(), wanted, rtol=1e-12)
    assert [p.name for p in nn.SequentialCell({"a": dense, "b": nn.Tanh()}).get_parameters()] == ["a.weight", "a.bias"]


def test_containers_refuse_what_is_no_cell():
    with pytest.raises(ConfigurationError, match="element 1 is a int"):
        nn.CellList([nn.Tanh(), 3])


def test_a_list_of_cells_is_extended_at_its_end():
    blocks = nn.CellList([nn.Tanh()])
    assert blocks.extend([nn.ReLU(), nn.Sigmoid()]) is blocks
    assert [(name, type(cell).__name__) for name, cell in blocks.name_cells().items()] == [
        ("0", "Tanh"),
        ("1", "ReLU"),
        ("2", "Sigmoid"),
    ]
    with pytest.raises(ConfigurationError, match="a int"):
        blocks.extend([3])


class Nested(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(initializer("ones", (2,)), "first")
        self.dense = nn.Dense(3, 4)
        self.blocks = nn.CellList([nn.LayerNorm((3,)), nn.SequentialCell(nn.Dense(1, 1, has_bias=False))])
        self.tied = self.dense


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.net = Nested()


def test_parameters_of_inner_cells_are_named_after_their_places():
    assert [parameter.name for parameter in Nested().get_parameters()] == [
        "first",
        "tied.weight",
        "tied.bias",
        "blocks.0.gamma",
        "blocks.0.beta",
        "blocks.1.0.weight",
    ]
    assert [parameter.name for parameter in Outer().get_parameters()] == [
        "net.w",
        "net.dense.weight",
        "net.dense.bias",
        "net.blocks.0.gamma",
        "net.blocks.0.beta",
        "net.blocks.1.0.weight",
    ]


def test_first_values_depend_on_the_place_and_not_on_the_order_of_making():
    one, other = Outer(), Outer()
    np.testing.assert_array_equal(one.net.dense.weight.asnumpy(), other.net.dense.weight.asnumpy())
    same = nn.CellList([nn.Dense(4, 4, Normal(1.0)), nn.Dense(4, 4, Normal(1.0))])
    assert not np.array_equal(same[0].weight.asnumpy(), same[1].weight.asnumpy())


def test_layers_compute_the_same_in_pynative_mode():
    x = values(5, 3).astype(np.float32)
    network = nn.SequentialCell(nn.Dense(3, 4, Normal(1.0), activation="gelu"), nn.LayerNorm((4,)))
    traced = network(Tensor(x)).asnumpy()
    set_context(mode=PYNATIVE_MODE)
    try:
        np.testing.assert_array_equal(network(Tensor(x)).asnumpy(), traced)
    finally:
        set_context(mode=0)


@pytest.mark.parametrize(("axis", "axes"), [(None, (0, 1, 2)), (1, 1), ((0, 2), (0, 2)), (-1, -1)])
@pytest.mark.parametrize("bound", [0.5, 2.0, 100.0])
def test_what_is_clipped_by_norm_keeps_its_direction_and_has_the_bound_as_its_longest(axis, axes, bound):
    x = values(2, 3, 4)
    norm = np.sqrt((x**2).sum(axes, keepdims=True))
    found = nn.ClipByNorm(axis)(Tensor(x), bound).asnumpy()
    np.testing.assert_allclose(found, np.where(norm > bound, x * bound / norm, x), rtol=1e-12)


def test_dropout_that_keeps_all_is_the_identity_in_training_too():
    x = values(3, 4)
    for layer in (nn.Dropout(1.0), nn.Dropout(p=0.0)):
        np.testing.assert_array_equal(layer.set_train()(Tensor(x)).asnumpy(), x)
