"""The nets that MindSpore's planner was given, written with this project's names."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mpiparallel import ParameterTuple, nn, ops
from mpiparallel.graph.parameter import Parameter
from mpiparallel.nn.initializer import initializer


def weight(name, *shape):
    return Parameter(initializer("normal", list(shape)), name=name)


class TwoMatMul(nn.Cell):
    """``relu(x @ w1) @ w2``; strategies are those of the three operators, or None."""

    def __init__(self, strategies):
        super().__init__()
        self.w1, self.w2 = weight("w1", 64, 32), weight("w2", 32, 16)
        self.first, self.relu, self.second = ops.MatMul(), ops.ReLU(), ops.MatMul()
        if strategies is not None:
            for operator, strategy in zip((self.first, self.relu, self.second), strategies, strict=True):
                operator.shard(strategy)

    def construct(self, x):
        return self.second(self.relu(self.first(x, self.w1)), self.w2)


class Product(nn.Cell):
    """``(x @ w1) @ w2``, of 64 columns and as many; strategies are those of the two operators."""

    def __init__(self, first, second):
        super().__init__()
        self.w1, self.w2 = weight("w1", 64, 64), weight("w2", 64, 64)
        self.first, self.second = ops.MatMul().shard(first), ops.MatMul().shard(second)

    def construct(self, x):
        return self.second(self.first(x, self.w1), self.w2)


class TwoStages(nn.Cell):
    """Two products, each in a stage of a pipeline of its own."""

    def __init__(self, first, second):
        super().__init__()
        self.s0, self.s1 = Product(first, second), Product(first, second)
        self.s0.pipeline_stage, self.s1.pipeline_stage = 0, 1

    def construct(self, x):
        return self.s1(self.s0(x))


class ThreeMatMul(nn.Cell):
    """``relu(relu(x @ w0) @ w1) @ w2``, the weights in a tuple; ``strategies`` are those of the five operators."""

    def __init__(self, widths, strategies):
        super().__init__()
        pairs = enumerate(pairwise(widths))
        self.weights = ParameterTuple(weight(f"w{index}", *shape) for index, shape in pairs)
        operators = (ops.MatMul(), ops.ReLU(), ops.MatMul(), ops.ReLU(), ops.MatMul())
        for operator, strategy in zip(operators, strategies, strict=True):
            operator.shard(strategy)
        self.first, self.relu, self.second, self.other_relu, self.third = operators

    def construct(self, x):
        w0, w1, w2 = self.weights
        return self.third(self.other_relu(self.second(self.relu(self.first(x, w0)), w1)), w2)


class MeanLoss(nn.Cell):
    """The mean of what a net returns."""

    def __init__(self, net, strategy=None):
        super().__init__()
        self.net = net
        self.mean = ops.ReduceMean().shard(strategy)

    def construct(self, *inputs):
        return self.mean(self.net(*inputs))


class SemiAutoParallelNet(nn.Cell):
    """The tutorial's: columns of the weight are cut, and nothing is said of the sum."""

    def __init__(self):
        super().__init__()
        self.weight = weight("weight", 512, 128)
        self.fc = ops.MatMul().shard(((1, 1), (1, 2)))
        self.reduce = ops.ReduceSum()

    def construct(self, x):
        return self.reduce(self.fc(x, self.weight), -1)


class CrossEntropyOfProduct(nn.Cell):
    """The mean cross entropy of ``x @ w``; the product is cut by columns, the loss by rows."""

    def __init__(self):
        super().__init__()
        self.w = weight("w", 64, 32)
        self.matmul = ops.MatMul().shard(((2, 1), (1, 4)))
        self.loss = ops.SoftmaxCrossEntropyWithLogits().shard(((8, 1), (8, 1)))
        self.mean = ops.ReduceMean()

    def construct(self, x, labels):
        return self.mean(self.loss(self.matmul(x, self.w), labels)[0])


class SumOfProduct(nn.Cell):
    """``sum(x * w, 1)``, cut in both dims."""

    def __init__(self):
        super().__init__()
        self.w = weight("w", 16, 32)
        self.mul = ops.Mul().shard(((2, 4), (2, 4)))
        self.sum = ops.ReduceSum().shard(((2, 4),))

    def construct(self, x):
        return self.sum(self.mul(x, self.w), 1)


class Normalised(nn.Cell):
    """A layer norm, cut by rows."""

    def __init__(self):
        super().__init__()
        self.gamma, self.beta = weight("gamma", 32), weight("beta", 32)
        self.norm = ops.LayerNorm(-1, -1, 1e-7).shard(((8, 1), (1,), (1,)))

    def construct(self, x):
        return self.norm(x, self.gamma, self.beta)[0]


class ConvolutionAndNorm(nn.Cell):
    """A 3x3 convolution and the batch norm of inference, cut by images."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3)
        self.conv.conv2d.shard(((8, 1, 1, 1), (1, 1, 1, 1)))
        self.gamma, self.beta = weight("gamma", 16), weight("beta", 16)
        self.moving_mean = Parameter(np.zeros(16, np.float32), "moving_mean", requires_grad=False)
        self.moving_var = Parameter(np.ones(16, np.float32), "moving_var", requires_grad=False)
        self.norm = ops.BatchNorm().shard(((8, 1, 1, 1), (1,), (1,), (1,), (1,)))

    def construct(self, x):
        return self.norm(self.conv(x), self.gamma, self.beta, self.moving_mean, self.moving_var)[0]


class Lookup(nn.Cell):
    """Rows of a table that is cut by rows."""

    def __init__(self):
        super().__init__()
        self.table = weight("table", 64, 32)
        self.gather = ops.Gather().shard(((8, 1), (1, 1)))

    def construct(self, indices):
        return self.gather(self.table, indices, 0)
