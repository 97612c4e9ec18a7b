"""Dropout as a cell."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell


class Dropout(Cell):
    """In training, ``x / keep_prob`` at each element with probability ``keep_prob`` and 0 elsewhere; otherwise ``x``.

    The operator is ``dropout``, so that ``cell.dropout.shard(((2, 1),))`` cuts it. Which elements are kept depends on
    seed, draw and place in the whole tensor, never on the cut.

    Parameters
    ----------
    keep_prob : float
        Above 0 and at most 1.
    p : float, optional
        The probability of 0, instead.
    dtype : dtype
        MindSpore's; the output has the dtype of ``x``.

    Raises
    ------
    ConfigurationError
        When a probability is out of range.

    Examples
    --------
    >>> Dropout(0.9)(Tensor([1.0, 2.0])).asnumpy().tolist()
    [1.0, 2.0]
    """

    def __init__(self, keep_prob: float = 0.5, p: float | None = None, dtype: Any = np.float32) -> None:
        super().__init__()
        no_effect("Dropout", "dtype", np.dtype(dtype), "the output has the dtype of the input", np.dtype(np.float32))
        if p is not None and not 0.0 <= p < 1.0:
            raise ConfigurationError(f"Dropout: p={p} must be at least 0 and below 1")
        self.keep_prob = keep_prob if p is None else 1.0 - p
        self.dropout = ops.Dropout(self.keep_prob)

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        if not self.training or self.keep_prob == 1.0:
            return x
        kept: Tensor = self.dropout(x)[0]
        return kept
