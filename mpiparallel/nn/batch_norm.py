"""Batch normalisation as a cell."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.dense import initial_tensor


class BatchNorm2d(Cell):
    """``(x - mean) / sqrt(variance + eps) * gamma + beta`` by channel of images ``x`` (n, num_features, h, w).

    In training the statistics are those of the whole batch, however it is cut, and ``moving_mean`` and
    ``moving_variance`` keep ``momentum`` of what they were; the variance that goes into them is the unbiased one.
    Otherwise the moving ones are used. ``use_batch_statistics`` says which, whatever the mode. Without ``affine``,
    gamma and beta are not trained.

    The operators are ``bn_train`` and ``bn_infer``. Strategies may cut every dim, vectors as the channels are:
    ``cell.bn_train.shard(((2, 4, 1, 1), (4,), (4,), (4,), (4,)))``.

    Source: Ioffe and Szegedy, "Batch Normalization", 2015.
    """

    keeps_float32 = True

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones",
        use_batch_statistics: bool | None = None,
        data_format: str = "NCHW",
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        if num_features < 1 or not 0.0 <= momentum <= 1.0 or data_format != "NCHW":
            raise ConfigurationError(
                f"BatchNorm2d: num_features={num_features} must be at least 1, momentum={momentum} from 0 to 1, and "
                f"data_format={data_format!r} 'NCHW'"
            )
        self.num_features = num_features
        self.use_batch_statistics = use_batch_statistics
        shape = (num_features,)
        self.gamma = Parameter(initial_tensor("gamma", gamma_init, shape, dtype), "gamma", requires_grad=affine)
        self.beta = Parameter(initial_tensor("beta", beta_init, shape, dtype), "beta", requires_grad=affine)
        mean = initial_tensor("moving_mean", moving_mean_init, shape, dtype)
        variance = initial_tensor("moving_variance", moving_var_init, shape, dtype)
        self.moving_mean = Parameter(mean, "moving_mean", requires_grad=False)
        self.moving_variance = Parameter(variance, "moving_variance", requires_grad=False)
        self.bn_train = ops.BatchNorm(True, eps, 1.0 - momentum)
        self.bn_infer = ops.BatchNorm(False, eps)

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``; in training, update the moving statistics."""
        if x.ndim != 4 or x.shape[1] != self.num_features:
            raise ShapeError(f"BatchNorm2d: x has shape {x.shape}; it must be (n, {self.num_features}, h, w)")
        of_batch = self.training if self.use_batch_statistics is None else self.use_batch_statistics
        operator = self.bn_train if of_batch else self.bn_infer
        y: Tensor = operator(x, self.gamma, self.beta, self.moving_mean, self.moving_variance)[0]
        return y
