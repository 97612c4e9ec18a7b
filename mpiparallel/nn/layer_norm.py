"""Layer normalisation as a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.dense import initial_tensor


class LayerNorm(Cell):
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` over the dims of ``x`` from ``begin_norm_axis`` on.

    ``gamma`` and ``beta`` have shape ``normalized_shape``, that of ``x`` from ``begin_params_axis`` on. The operator is
    ``layer_norm``; its strategy leaves the normalised dims whole, ``((2, 1), (1,), (1,))``.

    Parameters
    ----------
    normalized_shape : sequence of int
        The shape of ``gamma`` and ``beta``.
    begin_norm_axis, begin_params_axis : int
        The first dim that is normalised, and the first that ``gamma`` and ``beta`` have.
    gamma_init, beta_init : str, Initializer or Tensor
        Their first values.
    epsilon : float
        What is added to the variance.
    dtype : dtype
        Of the parameters.

    Examples
    --------
    >>> [round(one, 4) for one in LayerNorm((2,))(Tensor([[1.0, 3.0]])).tolist()[0]]
    [-1.0, 1.0]
    """

    keeps_float32 = True

    def __init__(
        self,
        normalized_shape: Sequence[int],
        begin_norm_axis: int = -1,
        begin_params_axis: int = -1,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        epsilon: float = 1e-7,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        shape = tuple(normalized_shape)
        self.gamma = Parameter(initial_tensor("gamma", gamma_init, shape, dtype), "gamma")
        self.beta = Parameter(initial_tensor("beta", beta_init, shape, dtype), "beta")
        self.layer_norm = ops.LayerNorm(begin_norm_axis, begin_params_axis, epsilon)

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        normalised: Tensor = self.layer_norm(x, self.gamma, self.beta)[0]
        return normalised
