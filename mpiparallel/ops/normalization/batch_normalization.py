"""Batch normalisation as one operator made of steps."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.operator import Operator, Strategy
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.images.window import image_format
from mpiparallel.ops.normalization.batch_norm_steps import BNInfer, BNTrainingUpdate
from mpiparallel.ops.normalization.batch_statistics import BNMoments, BNTrainingReduce
from mpiparallel.ops.normalization.moving_average import AssignMovingAverage


class BatchNorm(Operator):
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` by channel of ``x`` (n, c, ...).

    With ``is_training`` the statistics are those of the whole batch, however it is cut. The parameters ``mean`` and
    ``variance`` move towards them by ``momentum``; ``variance`` moves towards the unbiased one. Returns y, the mean and
    the variance used, and these two once more, where MindSpore has reserved space.

    It is recorded as its steps. A strategy may cut every dim, vectors as the channels are:
    ``((2, 4, 1, 1), (4,), (4,), (4,), (4,))``; an out_strategy is that of y alone.

    Source: Ioffe and Szegedy, "Batch Normalization", 2015.

    Parameters
    ----------
    is_training : bool
        Whether the statistics are those of the batch.
    epsilon : float
        What is added to the variance.
    momentum : float
        How far ``mean`` and ``variance`` move.
    data_format : str
        "NCHW".

    Examples
    --------
    >>> y, *_ = BatchNorm(epsilon=0.0)(Tensor([[1.0], [3.0]]), [2.0], [1.0], [1.0], [4.0])
    >>> y.tolist()
    [[1.0], [3.0]]
    """

    def __init__(
        self, is_training: bool = False, epsilon: float = 1e-5, momentum: float = 0.1, data_format: str = "NCHW"
    ) -> None:
        self.is_training = is_training
        self.epsilon = epsilon
        self.momentum = momentum
        self.data_format = image_format(self.name, data_format)

    def __call__(self, input_x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
        x = input_x if isinstance(input_x, Tensor) else Tensor(input_x)
        strategy = _without_added_dims(self.strategy, x.ndim)
        if not self.is_training:
            infer = BNInfer(self.epsilon).configured(strategy=strategy, out_strategy=self.out_strategy)
            return infer(x, scale, bias, mean, variance), mean, variance, mean, variance
        whole = self.configured(strategy=strategy)
        reduce = BNTrainingReduce().configured(strategy=strategy and strategy[:1], step_of=whole)
        sums = reduce(x)
        count = x.size // max(x.shape[1], 1)
        used = BNMoments(count)(*sums)
        update = BNTrainingUpdate(self.epsilon).configured(
            strategy=strategy, out_strategy=self.out_strategy, step_of=whole
        )
        y = update(x, scale, bias, *used)
        AssignMovingAverage(1.0 - self.momentum)(mean, used[0])
        AssignMovingAverage(1.0 - self.momentum, count / max(count - 1, 1))(variance, used[1])
        return y, *used, *used


def _without_added_dims(strategy: Strategy | None, rank: int) -> Strategy | None:
    """Return a strategy without the cuts into 1 of dims that ``x`` lacks: MindSpore infers from four dims always."""
    if not strategy or any(cut != 1 for cut in strategy[0][rank:]):
        return strategy
    first = strategy[0][:rank]
    return (first, *strategy[1:])
