"""The network of this example: a number in, its sine out."""

from __future__ import annotations

from mpiparallel import nn


class Sine(nn.Cell):
    """32 hidden units in ``units`` parts, numbers in ``batch`` parts."""

    def __init__(self, batch, units):
        super().__init__()
        self.first, self.second = nn.Dense(1, 32, activation="tanh"), nn.Dense(32, 1)
        self.first.matmul.shard(((batch, 1), (units, 1)))
        self.second.matmul.shard(((batch, units), (1, units)))

    def construct(self, x):
        return self.second(self.first(x))
