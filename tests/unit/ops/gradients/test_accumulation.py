"""Gradients accumulated by hand, as MindSpore's samples do it, and the functions that this is written with."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError, TraceError
from mpiparallel.ops import composite as C
from mpiparallel.ops import functional as F

X = np.random.default_rng(0).normal(size=(4, 3))

add_up = C.MultitypeFuncGraph("add_up")
scale = C.MultitypeFuncGraph("scale")


@add_up.register("Tensor", "Tensor")
def _add_up(total, gradient):
    return ops.AssignAdd()(total, gradient)


@scale.register("Number", "Tensor")
def _scale(factor, gradient):
    return gradient * factor


class Accumulate(nn.Cell):
    """A step that adds the scaled gradients of a network to parameters."""

    def __init__(self):
        super().__init__(auto_prefix=False)
        self.network = nn.Dense(3, 2, weight_init="ones", dtype=ms.float64)
        self.weights = self.network.trainable_params()
        self.totals = ms.ParameterTuple(self.weights).clone("total", "zeros")
        self.gradient = ops.GradOperation(get_by_list=True)
        self.map = ops.HyperMap()

    def construct(self, x):
        gradients = self.gradient(lambda x: (self.network(x) ** 2).sum(), self.weights)(x)
        self.map(F.partial(add_up), self.totals, self.map(F.partial(scale, 0.5), gradients))
        return gradients[0]


def accumulate(_communicator):
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    cell = Accumulate()
    for _ in range(3):
        cell(ms.Tensor(X))
    return [total.asnumpy().copy() for total in cell.totals]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_hand_written_step_accumulates_gradients(ranks) -> None:
    output = X @ np.ones((3, 2))
    for weight, bias in run_world(ranks, accumulate):
        np.testing.assert_allclose(weight, 3 * 0.5 * 2 * output.T @ X)
        np.testing.assert_allclose(bias, 3 * 0.5 * 2 * output.sum(0))


def test_a_map_goes_into_nested_tuples_in_either_order() -> None:
    seen = []
    assert ops.HyperMap()(lambda x, y: x * y, [1, (2, 3)], (4, [5, 6])) == (4, (10, 18))
    assert ops.HyperMap(lambda x: seen.append(x) or -x, reverse=True)((1, 2)) == (-1, -2)
    assert seen == [2, 1]


def test_what_does_not_fit_is_refused_with_what_is_there() -> None:
    with pytest.raises(TraceError, match=r"scale: no function is registered for \(String, Tensor\); .* Number, Tensor"):
        scale("a", ms.Tensor(X))
    with pytest.raises(ConfigurationError, match="kind 'Tensors' is not known; known are Tensor, Bool"):
        scale.register("Tensors")
    with pytest.raises(ConfigurationError, match=r"have \[2, 3\] elements; give tuples that are equally long"):
        ops.HyperMap(lambda x, y: x)((1, 2), (1, 2, 3))
