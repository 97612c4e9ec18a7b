"""Batch normalisation as cells."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mpiparallel import ops
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.dense import initial_tensor


class _BatchNorm(Cell):
    """``(x - mean) / sqrt(variance + eps) * gamma + beta`` by channel; subclasses say which shapes ``x`` may have."""

    keeps_float32 = True
    shapes: ClassVar[tuple[str, ...]] = ()

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
        counted = isinstance(num_features, int) and num_features >= 1
        if not counted or not 0.0 <= momentum <= 1.0 or data_format != "NCHW":
            raise ConfigurationError(
                f"{type(self).__name__}: num_features={num_features!r} must be an integer of at least 1, "
                f"momentum={momentum} from 0 to 1, and data_format={data_format!r} 'NCHW'"
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
        ranks = [len(shape.split(", ")) for shape in self.shapes]
        if x.ndim not in ranks or x.shape[1] != self.num_features:
            wanted = " or ".join(f"({shape})" for shape in self.shapes).replace("c", str(self.num_features))
            raise ShapeError(f"{type(self).__name__}: x has shape {x.shape}; it must be {wanted}")
        of_batch = self.training if self.use_batch_statistics is None else self.use_batch_statistics
        operator = self.bn_train if of_batch else self.bn_infer
        y: Tensor = operator(x, self.gamma, self.beta, self.moving_mean, self.moving_variance)[0]
        return y


class BatchNorm1d(_BatchNorm):
    """BatchNorm2d of vectors ``x`` (n, num_features), or of sequences (n, num_features, length).

    Strategies cut the dims of ``x`` as they are: ``cell.bn_train.shard(((2, 4), (4,), (4,), (4,), (4,)))``.

    Parameters
    ----------
    num_features, eps, momentum, affine, gamma_init, beta_init, moving_mean_init, moving_var_init
        As of BatchNorm2d.
    use_batch_statistics, data_format, dtype
        As of BatchNorm2d.

    Examples
    --------
    >>> from mpiparallel import Tensor
    >>> BatchNorm1d(2).set_train()(Tensor([[1.0, 5.0], [3.0, 5.0]])).asnumpy().round(2).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    shapes = ("n, c", "n, c, length")


class BatchNorm2d(_BatchNorm):
    """``(x - mean) / sqrt(variance + eps) * gamma + beta`` by channel of images ``x`` (n, num_features, h, w).

    In training the statistics are those of the whole batch, however it is cut; otherwise ``moving_mean`` and
    ``moving_variance`` are used.

    The operators are ``bn_train`` and ``bn_infer``. Strategies may cut every dim, vectors as the channels are:
    ``cell.bn_train.shard(((2, 4, 1, 1), (4,), (4,), (4,), (4,)))``.

    Source: Ioffe and Szegedy, "Batch Normalization", 2015.

    Parameters
    ----------
    num_features : int
        Channels.
    eps : float
        What is added to the variance.
    momentum : float
        The share of the moving statistics that stays in a step; the variance that goes into them is the unbiased one.
    affine : bool
        Whether gamma and beta are trained.
    gamma_init, beta_init, moving_mean_init, moving_var_init : str, Initializer or Tensor
        First values, all of shape (num_features,).
    use_batch_statistics : bool, optional
        Which statistics are used, whatever the mode.
    data_format : str
        "NCHW".
    dtype : dtype
        Of the parameters.

    Examples
    --------
    >>> from mpiparallel import Tensor
    >>> BatchNorm2d(1).set_train()(Tensor([[[[1.0, 3.0]]]])).asnumpy().round(2).tolist()
    [[[[-1.0, 1.0]]]]
    """

    shapes = ("n, c, h, w",)
