"""The mean loss."""

from __future__ import annotations

from typing import Any

from mpiparallel.nn.metrics.metric import Ratio, as_array


class Loss(Ratio):
    """The mean loss of all samples.

    Examples
    --------
    >>> import numpy as np
    >>> metric = Loss()
    >>> metric.update(np.array(2.0), 4)
    >>> metric.update(np.array(1.0), 1)
    >>> metric.eval()
    1.8
    """

    def update(self, *inputs: Any) -> None:
        """Take the loss of a batch, a number or an array whose mean counts, and its number of samples, 1 if not given.

        A smaller batch at the end counts for as many samples as it has.
        """
        rows = int(inputs[1]) if len(inputs) > 1 else 1
        self.add(float(as_array(inputs[0]).mean()) * rows, rows)
