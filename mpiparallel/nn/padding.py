"""Elements around a tensor, as a layer."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel import ops
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell


class Pad(Cell):
    """The tensor with zeros around it. The operator is ``pad``; its strategy cuts dims without padding.

    Parameters
    ----------
    paddings : sequence of (int, int)
        Zeros before and after, for each dim.
    mode : str
        "CONSTANT".

    Raises
    ------
    ConfigurationError
        For another ``mode``.

    Examples
    --------
    >>> Pad(((0, 0), (1, 2)))(Tensor([[5.0]])).asnumpy().tolist()
    [[0.0, 5.0, 0.0, 0.0]]
    """

    def __init__(self, paddings: Sequence[Sequence[int]], mode: str = "CONSTANT") -> None:
        super().__init__()
        if mode != "CONSTANT":
            raise ConfigurationError(f"Pad: mode {mode!r} is not supported; use 'CONSTANT'")
        self.pad = ops.Pad(paddings)

    def construct(self, x: Tensor) -> Tensor:
        """Return the larger tensor."""
        padded: Tensor = self.pad(x)
        return padded
