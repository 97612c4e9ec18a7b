"""Groups of parameters have their own learning rates and weight decay; malformed ones are refused."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import nn
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor


def made(*names):
    return [Parameter(Tensor(np.full(2, 1.0)), name) for name in names]


def test_each_group_is_trained_with_its_own_rate_and_decay():
    a, b, c, gamma = made("a", "b", "c", "gamma")
    groups = [{"params": [a], "lr": 0.5}, {"params": [b], "weight_decay": 0.0}, {"params": [c, gamma]}]
    optimizer = nn.Momentum(groups, 0.25, 0.0, weight_decay=1.0)
    assert [parameter.name for parameter in optimizer.parameters] == ["a", "b", "c", "gamma"]
    optimizer([Tensor(np.full(2, 1.0))] * 4)
    found = [parameter.asnumpy()[0] for parameter in (a, b, c, gamma)]
    assert found == [1 - 0.5 * 2, 1 - 0.25, 1 - 0.25 * 2, 1 - 0.25 * 2]


def test_the_rate_of_a_group_is_a_parameter_of_its_own():
    a, b = made("a", "b")
    optimizer = nn.SGD([{"params": [a]}, {"params": [b], "lr": [0.5, 0.25]}], 0.125)
    names = [parameter.name for parameter in optimizer.get_parameters() if "rate" in parameter.name]
    assert names == ["learning_rate", "learning_rate_group_1"]
    for _ in range(2):
        optimizer([Tensor(np.full(2, 1.0))] * 2)
    assert (a.asnumpy()[0], b.asnumpy()[0]) == (0.75, 0.25)


def test_order_params_gives_the_order_of_gradients():
    a, b, c = made("a", "b", "c")
    groups = [{"params": [c], "weight_decay": 0.5}, {"params": [a, b]}, {"order_params": [a, b, c]}]
    optimizer = nn.AdamWeightDecay(groups)
    assert [parameter.name for parameter in optimizer.parameters] == ["a", "b", "c"]
    assert optimizer.weight_decays == (0.0, 0.0, 0.5)


A, B = made("a", "b")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([], "SGD: there are no parameters"),
        (iter(()), "SGD: there are no parameters"),
        ([{"params": []}], "group 0: there are no parameters"),
        ([A, "b"], "element 1 is a str; give Parameters"),
        ([A, {"params": [B]}], "element 0 is a Parameter beside groups"),
        ([{"params": [A], "rate": 0.1}], "group 0 has the key 'rate'; known are params, lr, weight_decay"),
        ([{"lr": 0.1}], "group 0 has no 'params'"),
        ([{"params": [A], "weight_decay": -1}], "group 0 has weight_decay -1"),
        ([{"params": [A], "lr": -1.0}], "learning_rate_group_0 -1.0 must be at least 0"),
        ([A, A], "parameter 'a' is given twice"),
        ([{"params": [A]}, {"params": [B, A]}], "parameter 'a' is given twice; give it once, in one group"),
        ([A, *made("a")], "two parameters are named 'a'"),
        ([{"params": [A, B]}, {"order_params": [A]}], r"must hold each parameter of the groups once.*\['b'\]"),
        ([{"params": [A]}, {"order_params": [A, A]}], "differs in repetitions"),
        ([{"params": [A]}, {"order_params": [A]}, {"order_params": [A]}], "'order_params' is given 2 times"),
        ([{"params": [A]}, {"order_params": [A], "lr": 0.1}], r"'order_params' stands beside \['lr'\]"),
    ],
)
def test_malformed_parameters_are_refused(parameters, message):
    with pytest.raises(ConfigurationError, match=message):
        nn.SGD(parameters)
