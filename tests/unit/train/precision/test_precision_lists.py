"""Lists say which cells and operators compute in 16 bits; everything else, and what a network returns, is float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import amp, nn, ops
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.operator import OPERATORS
from mpiparallel.train import mixed_precision

X = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
NARROW = [np.float16, ml_dtypes.bfloat16]


class Layers(nn.Cell):
    """A product of its own, a dense layer, a norm, an exponential and a sum; it writes down which types it sees."""

    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(np.random.default_rng(2).normal(size=(6, 6)).astype(np.float32), "weight")
        self.dense = nn.Dense(6, 6)
        self.norm = nn.LayerNorm((6,))
        self.product = ops.MatMul()
        self.seen = {}

    def construct(self, x):
        found = {"product": self.product(x, self.weight)}
        found["dense"] = self.dense(found["product"])
        found["norm"] = self.norm(found["dense"])
        found["exponential"] = ops.exp(found["product"] * 0.1)
        found["sum"] = found["norm"] + found["product"]
        self.seen = {name: one.dtype for name, one in found.items()}
        return found["sum"] + found["exponential"]


class Product(Layers):
    def construct(self, x):
        return self.product(x, self.weight)


def float32_beside(narrow, *names):
    return {
        name: narrow if name in names else np.float32 for name in ("product", "dense", "norm", "exponential", "sum")
    }


ALL = ("product", "dense", "norm", "exponential", "sum")
SEEN = {
    "O0": (lambda network, dtype: network, ()),
    "O1": (lambda network, dtype: amp.auto_mixed_precision(network, "O1", dtype), ()),
    "O2": (lambda network, dtype: amp.auto_mixed_precision(network, "O2", dtype), ALL),
    "O3": (lambda network, dtype: amp.auto_mixed_precision(network, "O3", dtype), ALL),
    "auto": (lambda network, dtype: amp.auto_mixed_precision(network, "auto", dtype), ("product",)),
    "white": (lambda network, dtype: amp.custom_mixed_precision(network, white_list=[nn.Dense], dtype=dtype), ()),
    "black": (lambda network, dtype: amp.custom_mixed_precision(network, black_list=[nn.Dense], dtype=dtype), ALL),
}


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("lists", SEEN)
def test_each_value_has_the_type_that_the_lists_give_it_and_the_result_is_float32(lists, dtype, mode) -> None:
    ms.set_context(mode=mode)
    change, narrow = SEEN[lists]
    network = change(Layers(), dtype)
    assert network(ms.Tensor(X)).dtype == np.float32
    assert {name: np.dtype(one) for name, one in network.seen.items()} == float32_beside(np.dtype(dtype), *narrow)
    assert {str(one.dtype) for one in network.get_parameters()} == {"Float32"}


@pytest.mark.parametrize("dtype", NARROW)
def test_a_listed_operator_rounds_its_inputs_and_its_output_to_16_bits(dtype) -> None:
    network = amp.custom_mixed_precision(Product(), white_list=[ops.MatMul], dtype=dtype)
    rounded = X.astype(dtype).astype(np.float64) @ network.weight.asnumpy().astype(dtype).astype(np.float64)
    found = network(ms.Tensor(X)).asnumpy()
    np.testing.assert_allclose(found, rounded, rtol=4 * float(ml_dtypes.finfo(dtype).eps), atol=1e-6)
    np.testing.assert_array_equal(found, found.astype(dtype).astype(np.float32))


def weighted_sum(network):
    weights = ms.Tensor(np.random.default_rng(3).normal(size=X.shape).astype(np.float32))
    return lambda x: (network(x) * weights).sum()


def test_the_gradient_of_a_network_with_listed_operators_is_float32_and_near_that_of_float32() -> None:
    gradients = []
    for level in ("O0", "O1", "auto"):
        ms.set_seed(4)
        network = amp.auto_mixed_precision(Layers(), level, ms.bfloat16)
        forward = ms.value_and_grad(weighted_sum(network), None, network.trainable_params())
        gradients.append(forward(ms.Tensor(X))[1])
    for level in gradients[1:]:
        for found, wanted in zip(level, gradients[0], strict=True):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), atol=0.05 * np.abs(wanted.asnumpy()).max())


def test_a_cell_keeps_what_to_float_has_said_for_it_under_a_white_list() -> None:
    network = Layers()
    network.dense.to_float(np.float32)
    amp.auto_mixed_precision(network, "O1", ms.bfloat16)
    product = network.weight.asnumpy()
    found = network.dense(ms.Tensor(product)).asnumpy()
    assert not np.array_equal(found, found.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_the_operators_of_the_lists_are_there() -> None:
    names = mixed_precision.AUTO_NARROW | mixed_precision.AUTO_WIDE | mixed_precision.AUTO_COMMON
    assert names <= set(OPERATORS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give white_list or black_list, one of both"),
        ({"white_list": [nn.Dense], "black_list": []}, "give white_list or black_list, one of both"),
        ({"white_list": ["Dense"]}, "'Dense' of white_list is no class of a Cell or Operator"),
        ({"black_list": [ops.MatMul]}, "of black_list is no class of a Cell"),
        ({"white_list": [nn.Dense], "dtype": np.float64}, "dtype float64 is neither float16 nor bfloat16"),
    ],
)
def test_lists_that_say_nothing_clear_are_refused(options, said) -> None:
    with pytest.raises(ConfigurationError, match=said):
        amp.custom_mixed_precision(nn.Dense(2, 3), **options)


class Parts(Layers):
    def construct(self, x):
        product = self.product(x, self.weight)
        return product, [product.sum(), ops.argmax(product, 1)]


@pytest.mark.parametrize("dtype", NARROW)
def test_floats_in_tuples_and_lists_that_a_network_returns_are_float32_too(dtype) -> None:
    product, (total, places) = amp.auto_mixed_precision(Parts(), "O2", dtype)(ms.Tensor(X))
    assert [np.dtype(one.dtype) for one in (product, total, places)] == [np.float32, np.float32, np.int64]
    np.testing.assert_array_equal(product.asnumpy(), product.asnumpy().astype(dtype).astype(np.float32))


@pytest.mark.parametrize("level", ["O1", "auto"])
def test_cells_keep_what_to_float_has_said_for_them_and_norms_are_float32_by_operators(level) -> None:
    norm, dense, other = nn.LayerNorm((6,)), nn.Dense(6, 6), nn.LayerNorm((6,))
    norm.to_float(np.float16)
    dense.to_float(np.float32)
    before = norm.precision, dense.precision
    network = amp.auto_mixed_precision(nn.SequentialCell([norm, dense, other]), level)
    assert (norm.precision, dense.precision) == before
    assert before[0] != before[1]
    if level == "auto":
        assert other.precision == nn.LayerNorm((6,)).to_float(np.float32).precision
    assert network(ms.Tensor(X)).dtype == np.float32
