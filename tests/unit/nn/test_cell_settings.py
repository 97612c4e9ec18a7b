"""Settings of cells and of parameters: where inputs lie, clones, what is printed, and what has no effect here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.common.initializer import initializer
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.cell_attributes import attributes_of

X = np.random.default_rng(3).normal(size=(4, 6))
W = np.random.default_rng(4).normal(size=(6, 2))


class Product(nn.Cell):
    """A product of two inputs, whose layouts its user says."""

    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(W, "w")

    def construct(self, x: Any, scale: Any) -> Any:
        return ops.tanh(x) @ self.w * scale, x.sum()


class Whole(nn.Cell):
    def __init__(self, in_strategy: Any, out_strategy: Any) -> None:
        super().__init__()
        self.product = Product().shard(in_strategy, out_strategy)

    def construct(self, x: Any) -> Any:
        y, total = self.product(x, 2.0)
        return y.sum() + total


STRATEGIES: list[tuple[Any, Any]] = [
    (((2, 1), None), None),
    (((1, 2), None), None),
    (((1, 2), None), ((1, 2), None)),
    (((2, 1), ()), ((2, 1), ())),
]


def value_and_gradient(communicator: Any, in_strategy: Any, out_strategy: Any) -> Any:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = Whole(in_strategy, out_strategy)
    value, gradient = ops.value_and_grad(network, 0)(ms.Tensor(X))
    return float(value), gradient.asnumpy()


@pytest.mark.parametrize(("in_strategy", "out_strategy"), STRATEGIES)
def test_a_cell_whose_inputs_are_laid_out_computes_what_it_did(in_strategy: Any, out_strategy: Any) -> None:
    wanted = 2 * (np.tanh(X) @ W).sum() + X.sum()
    slope = 2 * (1 - np.tanh(X) ** 2) * W.sum(1) + 1
    for value, gradient in run_world(2, value_and_gradient, in_strategy, out_strategy):
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient, slope, rtol=1e-12)


def test_operators_inside_take_the_layout_of_the_inputs() -> None:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, device_num=2)
    sharded = Whole(((1, 2), None), None).sharded_graph(X)
    (laid,) = [node for node in local_graph(sharded, 0).nodes if node.operator.name == "Identity"][:1] or [None]
    cuts = [sharded.layouts[node.outputs[0]].cuts for node in sharded.graph.nodes if node.operator.name == "Identity"]
    assert cuts == [(1, 2)]
    assert laid is None or laid.outputs[0].spec.shape == (4, 3)


def test_strategies_of_a_cell_fit_its_inputs() -> None:
    with pytest.raises(ConfigurationError, match=r"in_strategy .* has 1 entries for 2 tensors"):
        Product().shard(((2, 1),))(ms.Tensor(X), ms.Tensor(2.0))
    with pytest.raises(ConfigurationError, match="parameter_plan is not offered"):
        Product().shard(((2, 1), None), parameter_plan={"w": (1, 2)})


def test_cells_print_as_mindspores_do() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.d = nn.Dense(2, 3)
            self.r = nn.ReLU()

    # As MindSpore 2.10 prints them.
    wanted = "Net(\n  (d): Dense(input_channels=2, output_channels=3, has_bias=True)\n  (r): ReLU()\n)"
    assert str(Net()) == repr(Net()) == wanted


def test_a_function_is_applied_to_the_cells_inside_first() -> None:
    network = nn.SequentialCell([nn.Dense(2, 2), nn.ReLU()])
    seen: list[Any] = []
    assert network.apply(seen.append) is network
    assert [type(one).__name__ for one in seen] == ["Dense", "ReLU", "SequentialCell"]


def test_parameters_know_their_places_and_are_filled_on_demand() -> None:
    network = nn.SequentialCell([nn.Dense(2, 2)])
    assert network.param_prefix == ""
    assert network[0].param_prefix == "0"
    assert nn.SequentialCell([nn.Dense(2, 2, has_bias=False)])[0].param_prefix == "0"
    assert all(one.has_init for one in network.get_parameters())
    filled = network.init_parameters_data()
    assert list(filled) == list(filled.values()) == list(network.get_parameters())
    assert not any(one.has_init for one in network.get_parameters())
    network.add_flags(fast=True)
    assert network.get_flags() == {"fast": True}
    network.set_comm_fusion(3)
    assert {one.comm_fusion for one in network.get_parameters()} == {3}


def test_the_parameters_of_all_stages_are_trained_by_one_optimizer(remarks: Any) -> None:
    network = nn.SequentialCell(nn.Dense(2, 3), nn.Dense(3, 1))
    network[0].pipeline_stage, network[1].pipeline_stage = 0, 1
    network[1].bias.requires_grad = False
    found = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), 2).infer_param_pipeline_stage()
    assert [one.name for one in found] == [one.name for one in network.trainable_params()]
    assert sum("infer_param_pipeline_stage" in line for line in remarks()) == 1


@pytest.mark.parametrize("first", [np.arange(4.0), initializer("normal", (4,))], ids=["array", "initializer"])
def test_a_clone_has_the_values_of_its_own(first: Any) -> None:
    weight = ms.Parameter(first, "w", layerwise_parallel=True)
    twin = weight.clone()
    np.testing.assert_array_equal(twin.asnumpy(), weight.asnumpy())
    twin[0] = 99
    assert weight.asnumpy()[0] != 99
    assert (twin.name, twin.layerwise_parallel) == ("w", True)
    assert ms.ParameterTuple([weight]).clone("old")[0].name == "old.w"
    assert ms.ParameterTuple([weight]).clone("zero", "zeros")[0].asnumpy().tolist() == [0, 0, 0, 0]
    assert weight.clone(initializer("ones", (4,))).asnumpy().tolist() == [1, 1, 1, 1]


def test_settings_of_parameters_are_kept_or_refused(remarks: Any) -> None:
    weight = ms.Parameter(X, "w")
    assert (weight.comm_fusion, weight.cache_enable, weight.sliced, weight.inited_param is weight) == (
        1,
        False,
        False,
        True,
    )
    assert weight.init_data() is weight
    weight.add_pipeline_stage(0)
    assert remarks() == [
        "parameter 'w': add_pipeline_stage(0) has no effect here: it is in the stages of the cells that use it"
    ]
    with pytest.raises(ConfigurationError, match="set_param_ps needs parameter servers, which are not offered"):
        weight.set_param_ps()
    with pytest.raises(ConfigurationError, match=r"init_data\(layout\) is not offered"):
        weight.init_data(layout=((1, 2),))


def test_what_has_no_effect_on_a_cell_says_so(remarks: Any) -> None:
    network = nn.Dense(2, 2)
    assert (
        network.set_boost("O1").set_jit_config("config").set_inputs(1).set_broadcast_flag().set_auto_parallel()
        is network
    )
    assert [line.split("(")[0] for line in remarks()] == [
        "Dense.set_boost",
        "Dense.set_jit_config",
        "Dense.set_inputs",
        "Dense.set_broadcast_flag",
        "Dense.set_auto_parallel",
    ]


def test_a_cell_of_many_parts_is_as_it_was_until_one_of_them_is_another() -> None:
    cell = nn.Cell()
    cell.parts = [object() for _ in range(300)]
    before = attributes_of(cell)
    assert attributes_of(cell) == before
    cell.parts[299] = object()
    assert attributes_of(cell) != before
    cell.parts.pop()
    assert attributes_of(cell) != before


def test_only_a_parameter_whose_name_has_no_dot_is_inserted_as_one() -> None:
    cell = nn.Cell()
    with pytest.raises(ConfigurationError, match="insert_param_to_cell: 'w' is a ndarray, no Parameter"):
        cell.insert_param_to_cell("w", W)
    with pytest.raises(ConfigurationError, match=r"insert_param_to_cell: param_name 'a\.w' has a dot; leave it out"):
        cell.insert_param_to_cell("a.w", ms.Parameter(W, "w"))
    cell.insert_param_to_cell("w", ms.Parameter(W, "w"))
    assert [one.name for one in cell.get_parameters()] == ["w"]


ARRAY = np.zeros(2)
ALIKE: list[tuple[Any, Any]] = [
    (1, 1),
    (0.5, 0.5),
    ("a", "".join(["a"])),
    (None, None),
    (b"a", b"a"),
    (np.float32(1), np.float32(1)),
    (np.dtype("f4"), np.dtype(np.float32)),
    ([1, [2, "x"]], [1, [2, "x"]]),
    ((1, ARRAY), (1, ARRAY)),
    ({"a": [1], "b": ARRAY}, {"a": [1], "b": ARRAY}),
    ([], []),
    ([ARRAY, ARRAY], [ARRAY, ARRAY]),
]
OTHERWISE: list[tuple[Any, Any]] = [
    (1, 2),
    (1, True),
    (1, 1.0),
    (0, None),
    ("a", b"a"),
    (np.float32(1), np.float64(1)),
    ([1], (1,)),
    ([1, 2], [2, 1]),
    ([1], [1, 1]),
    ([[1]], [[True]]),
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, {"a": 2}),
    (ARRAY, np.zeros(2)),
    ([ARRAY], [np.zeros(2)]),
    ([ARRAY], [ARRAY, ARRAY]),
    ([1, ARRAY], [1, np.zeros(2)]),
]


@pytest.mark.parametrize(("pairs", "equal"), [(ALIKE, True), (OTHERWISE, False)])
def test_attributes_are_compared_by_value_content_or_identity(pairs: list[tuple[Any, Any]], equal: bool) -> None:
    cell = nn.Cell()
    for first, second in pairs:
        cell.held = first
        before = attributes_of(cell)
        cell.held = second
        assert (attributes_of(cell) == before) == equal, (first, second)
    assert attributes_of(cell) != attributes_of(nn.Cell())
