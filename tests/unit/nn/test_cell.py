"""What a cell tells of the parameters and cells inside it, and what it takes, keeps and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.common.initializer import Constant
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.errors import ConfigurationError, TraceError


class Net(nn.Cell):
    """A parameter of its own, one that is not trained, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = ms.Parameter(np.ones(2, np.float32), "scale")
        self.count = ms.Parameter(np.zeros(2, np.float32), "count", requires_grad=False)
        self.dense = nn.Dense(2, 2)
        self.dense.bias.requires_grad = False

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.dense(x) * self.scale + self.count


NAMES: list[tuple[Callable[[nn.Cell], Any], str]] = [
    (lambda net: net.get_parameters(), "scale count dense.weight dense.bias"),
    (lambda net: net.get_parameters(expand=False), "scale count"),
    (lambda net: net.trainable_params(), "scale dense.weight"),
    (lambda net: net.trainable_params(recurse=False), "scale"),
    (lambda net: net.untrainable_params(), "count dense.bias"),
    (lambda net: net.untrainable_params(recurse=False), "count"),
    (lambda net: net.parameters_dict().values(), "scale count dense.weight dense.bias"),
    (lambda net: net.parameters_dict(recurse=False).values(), "scale count"),
    (lambda net: [one for _, one in net.parameters_and_names(expand=False)], "scale count"),
]


@pytest.mark.parametrize(("tell", "names"), NAMES)
def test_parameters_are_told_with_those_of_cells_inside_unless_these_are_left_out(
    tell: Callable[[nn.Cell], Any], names: str
) -> None:
    assert [one.name for one in tell(Net())] == names.split()


def test_places_of_parameters_and_cells_begin_with_a_prefix_where_one_is_given() -> None:
    net = Net()
    assert [place for place, _ in net.parameters_and_names("net")] == [
        "net.scale",
        "net.count",
        "net.dense.weight",
        "net.dense.bias",
    ]
    assert [place for place, _ in net.cells_and_names()] == ["", "dense"]
    assert [place for place, _ in net.cells_and_names(name_prefix="net")] == ["net", "net.dense"]
    assert net.name_cells() == {"dense": net.dense}
    assert list(net.parameters_dict()) == [one.name for one in net.get_parameters()]


def test_names_are_given_to_parameters_inside_unless_these_are_left_out() -> None:
    net = Net()
    net.update_parameters_name("a.")
    assert [one.name for one in net.get_parameters()] == ["a.scale", "a.count", "a.dense.weight", "a.dense.bias"]
    net.update_parameters_name("b.", recurse=False)
    assert [one.name for one in net.get_parameters()] == ["b.scale", "b.count", "a.dense.weight", "a.dense.bias"]


def test_a_parameter_that_stands_at_two_places_is_told_once_and_keeps_the_name_of_the_first() -> None:
    net = Net()
    net.tied = net.scale
    assert [one.name for one in net.get_parameters()].count("scale") == 1
    net.update_parameters_name("a.")
    assert net.scale.name == "a.scale"


def test_a_parameter_without_a_name_takes_that_of_its_place_and_another_keeps_its_own() -> None:
    cell = nn.Cell()
    cell.weight = ms.Parameter(np.ones(2))
    cell.other = ms.Parameter(np.ones(2), "mine")
    assert [one.name for one in cell.get_parameters()] == ["weight", "mine"]


def test_a_cell_that_gives_no_prefix_leaves_names_as_they_are() -> None:
    outer = nn.Cell(auto_prefix=False)
    outer.net = Net()
    assert [one.name for one in outer.get_parameters()] == ["scale", "count", "dense.weight", "dense.bias"]


def test_what_stood_at_a_place_before_is_told_no_more() -> None:
    net = Net()
    net.dense = nn.ReLU()
    net.scale = 2.0
    assert [one.name for one in net.get_parameters()] == ["count"]
    assert [type(one) for one in net.cells()] == [nn.ReLU]


def test_a_cell_is_not_in_training_until_it_is_said_and_says_so_to_all_inside() -> None:
    net = Net()
    assert (net.training, net.dense.training) == (False, False)
    assert net.set_train() is net
    assert (net.training, net.dense.training) == (True, True)
    net.set_train(False)
    assert (net.training, net.dense.training) == (False, False)


def test_gradients_of_a_cells_own_parameters_alone_are_marked_for_one_collective() -> None:
    net = Net()
    net.set_comm_fusion(2, recurse=False)
    assert [one.comm_fusion for one in net.get_parameters()] == [2, 2, 1, 1]
    net.set_comm_fusion(3)
    assert [one.comm_fusion for one in net.get_parameters()] == [3] * 4


def test_a_flag_of_single_precision_computes_in_it_and_a_false_one_does_not() -> None:
    x = ms.Tensor(np.ones((1, 2), np.float16))
    assert nn.ReLU().add_flags(fp32=True)(x).dtype == np.float32
    assert nn.ReLU().add_flags(fp32=False)(x).dtype == np.float16
    assert nn.ReLU().add_flags(fast=True).precision is None


def test_a_parameter_may_be_inserted_under_a_name_with_a_dot_where_that_is_said() -> None:
    cell, weight = nn.Cell(), ms.Parameter(np.ones(2), "w")
    cell.insert_param_to_cell("a.w", weight, check_name_contain_dot=False)
    assert list(cell.get_parameters()) == [weight]
    cell.insert_child_to_cell("relu", nn.ReLU())
    assert list(cell.name_cells()) == ["relu"]


def test_an_empty_cell_prints_its_name_and_a_full_one_a_line_for_each_inside() -> None:
    assert repr(nn.SequentialCell()) == "SequentialCell()"
    nested = nn.SequentialCell(nn.SequentialCell(nn.ReLU()))
    assert repr(nested) == "SequentialCell(\n  (0): SequentialCell(\n    (0): ReLU()\n  )\n)"


CLONES: list[tuple[Any, list[float]]] = [
    ("same", [3.0, 4.0]),
    ("Same", [3.0, 4.0]),
    ("ones", [1.0, 1.0]),
    (0.5, [0.5, 0.5]),
    (2, [2.0, 2.0]),
    (Constant(7.0), [7.0, 7.0]),
]


@pytest.mark.parametrize(("init", "wanted"), CLONES)
def test_clones_of_a_tuple_have_its_values_or_those_that_are_said(init: Any, wanted: list[float]) -> None:
    weights = ms.ParameterTuple([ms.Parameter(np.array([3.0, 4.0]), "w")])
    (clone,) = weights.clone("old", init) if init != "same" else weights.clone("old")
    assert (clone.name, clone.asnumpy().tolist()) == ("old.w", wanted)
    assert weights[0].asnumpy().tolist() == [3.0, 4.0]


def one_output(out_strategy: Any) -> list[tuple[int, ...]]:
    """Return the shapes that rank 0 of two has of what the cell's outputs are laid out as."""
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, device_num=2)
    graph = nn.ReLU().shard((None,), out_strategy).sharded_graph(np.ones((4, 6)))
    return [node.outputs[0].spec.shape for node in local_graph(graph, 0).nodes if node.operator.name == "Identity"]


def test_the_output_of_a_cell_that_returns_one_lies_as_its_strategy_says() -> None:
    assert one_output(((1, 2),)) == [(4, 3)]
    assert one_output(((2, 1),)) == [(2, 6)]
    assert one_output((None,)) == []


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: nn.Cell()(ms.Tensor([1.0])), TraceError, r"Cell has no construct; define construct\(self, \.\.\.\)"),
    (lambda: Net().to_float("int32"), ConfigurationError, r"Net\.to_float: 'int32' is not one of bfloat16, float16"),
    (lambda: Net().to_float("floot"), ConfigurationError, r"Net\.to_float: 'floot' is not one of bfloat16, float16"),
    (lambda: Net().recompute(mp_comm_recompute=False), ConfigurationError, "mp_comm_recompute=False is not offered"),
    (lambda: Net().add_flags(a=[1]), ConfigurationError, r"Net: flag a=\[1\] must be a number or a text"),
    (
        lambda: nn.ReLU().shard(((1, 1), (1, 1)))(ms.Tensor(np.ones((2, 2)))),
        ConfigurationError,
        r"ReLU\.shard: in_strategy \(\(1, 1\), \(1, 1\)\) has 2 entries for 1 tensors",
    ),
    (
        lambda: nn.ReLU().shard((None,), (None, None))(ms.Tensor(np.ones((2, 2)))),
        ConfigurationError,
        r"ReLU\.shard: out_strategy \(None, None\) has 2 entries for 1 tensors",
    ),
]


@pytest.mark.parametrize(("call", "error", "said"), REFUSED)
def test_what_a_cell_cannot_do_is_refused_by_its_name(
    call: Callable[[], Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        call()


def test_a_cell_that_sets_something_before_it_is_made_is_told_what_to_call() -> None:
    class Early(nn.Cell):
        def __init__(self) -> None:
            self.scale = 2.0

    with pytest.raises(ConfigurationError, match=r"Early: call super\(\).__init__\(\) before setting 'scale'"):
        Early()
