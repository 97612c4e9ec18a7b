"""The tutorial's expanded softmax cross entropy, used as its text has it, on one rank and cut."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel.nn as nn
import mpiparallel.ops as ops
from mpiparallel import Tensor, context
from mpiparallel import dtype as mstype
from mpiparallel.communication.threads import run_world


class ExpandedCrossEntropy(nn.Cell):
    """Small operators only, with the names and calls of the parallel training tutorial."""

    def __init__(self, cut=(1, 1)):
        super().__init__()
        rows, classes = cut
        both, kept = (rows, classes), (rows, 1)
        self.max = ops.ReduceMax(keep_dims=True).shard((both,))
        self.sub = ops.Sub().shard((both, kept))
        self.exp = ops.Exp().shard((both,))
        self.sum = ops.ReduceSum(keep_dims=True).shard((both,))
        self.div = ops.Div().shard((both, kept))
        self.log = ops.Log().shard((both,))
        self.onehot = ops.OneHot().shard((both, (), ()))
        self.mul = ops.Mul().shard((both, both))
        self.sum_cross_entropy = ops.ReduceSum(keep_dims=False).shard((both,))
        self.mul2 = ops.Mul().shard(((), (rows,)))
        self.mean = ops.ReduceMean(keep_dims=False).shard(((rows,),))
        self.on_value = Tensor(1.0, mstype.float64)
        self.off_value = Tensor(0.0, mstype.float64)

    def construct(self, logit, label):
        exp = self.exp(self.sub(logit, self.max(logit, -1)))
        softmax_result = self.div(exp, self.sum(exp, -1))
        label = self.onehot(label, ops.shape(logit)[1], self.on_value, self.off_value)
        loss = self.sum_cross_entropy(self.mul(self.log(softmax_result), label), -1)
        return self.mean(self.mul2(ops.scalar_to_array(-1.0), loss), -1)


LOGITS = np.random.default_rng(4).normal(size=(7, 10))
LABELS = np.random.default_rng(5).integers(0, 10, 7).astype(np.int32)


def expected():
    shifted = LOGITS - LOGITS.max(1, keepdims=True)
    softmax = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    rows = np.arange(len(LABELS))
    gradient = softmax.copy()
    gradient[rows, LABELS] -= 1
    return -np.log(softmax[rows, LABELS]).mean(), gradient / len(LABELS)


@pytest.mark.parametrize(("ranks", "cut"), [(1, (1, 1)), (2, (1, 2)), (3, (3, 1)), (6, (2, 3)), (8, (2, 2))])
def test_loss_and_gradient_are_those_of_the_formula(ranks, cut) -> None:
    def on_rank(_communicator):
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        loss = ExpandedCrossEntropy(cut)
        value, gradient = ops.value_and_grad(lambda logit: loss(logit, Tensor(LABELS)))(Tensor(LOGITS))
        return value.asnumpy(), gradient.asnumpy()

    loss, gradient = expected()
    for found, of_logits in run_world(ranks, on_rank):
        np.testing.assert_allclose(found, loss, rtol=1e-12)
        np.testing.assert_allclose(of_logits, gradient, rtol=1e-9, atol=1e-15)
