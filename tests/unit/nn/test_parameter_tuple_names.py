"""The names of parameters in tuples of nested cells: what MindSpore 2.10 printed for the same cells."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn


def parameter(name):
    return ms.Parameter(np.zeros(2, np.float32), name)


class Weights(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weights = ms.ParameterTuple([parameter("w0"), parameter("w1")])
        self.bias = parameter("bias")


class Outer(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net


class Trained(nn.Cell):
    """A cell that also has the weights of the one inside it, as training cells do."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        self.all = ms.ParameterTuple(net.trainable_params())


def training():
    net = Weights()
    return nn.TrainOneStepCell(net, nn.Momentum(net.trainable_params(), 0.1, 0.9))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (Weights, "w0 w1 bias"),
        (lambda: Outer(Weights()), "net.w0 net.w1 net.bias"),
        (lambda: Outer(Outer(Weights())), "net.net.w0 net.net.w1 net.net.bias"),
        (lambda: Trained(Weights()), "net.w0 net.w1 net.bias"),
        (lambda: Outer(Trained(Weights())), "net.net.w0 net.net.w1 net.net.bias"),
        (training, "w0 w1 bias global_step learning_rate momentum moments.w0 moments.w1 moments.bias"),
    ],
)
def test_names_are_mindspores(make, expected) -> None:
    assert {one.name for one in make().get_parameters() if not one.transient} == set(expected.split())


def test_a_tuple_of_what_another_cell_holds_changes_no_name() -> None:
    net = Weights()
    Outer(Outer(net))
    names = [one.name for one in net.get_parameters()]

    class Watcher(nn.Cell):
        def __init__(self):
            super().__init__()
            self.watched = ms.ParameterTuple(net.trainable_params())

    Outer(Watcher())
    assert [one.name for one in net.get_parameters()] == names
