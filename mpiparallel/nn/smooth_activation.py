"""Activation functions as cells, beside the common ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.initializer import initializer
from mpiparallel.ops.functions import activations


class Identity(Cell):
    """Its input; arguments are taken and not used, as by the cells that it stands for.

    Parameters
    ----------
    *arguments, **named
        Taken, and not used.

    Examples
    --------
    >>> Identity(3, factor=2)(Tensor([1.0])).asnumpy().tolist()
    [1.0]
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__()

    def construct(self, x: Any) -> Any:
        """Return ``x``."""
        return x


class LeakyReLU(Cell):
    """``x`` where it is positive, ``alpha * x`` elsewhere.

    Parameters
    ----------
    alpha : float
        The slope where it is negative.

    Examples
    --------
    >>> LeakyReLU(0.5)(Tensor([-2.0, 2.0])).asnumpy().tolist()
    [-1.0, 2.0]
    """

    def __init__(self, alpha: float = 0.2) -> None:
        super().__init__()
        self.alpha = alpha

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        return activations.leaky_relu(x, self.alpha)


class PReLU(Cell):
    """``x`` (n, c, ...) where it is positive, elsewhere times ``w``, which is trained: one number, or one a channel.

    The first values are ``w``, a number or a tensor of ``channel`` elements.

    Parameters
    ----------
    channel : int
        Elements of ``w``: 1 or c.
    w : float or Tensor
        First values.

    Examples
    --------
    >>> PReLU(2, Tensor([0.5, 0.25]))(Tensor([[-1.0, -1.0]])).asnumpy().tolist()
    [[-0.5, -0.25]]
    """

    def __init__(self, channel: int = 1, w: Any = 0.25) -> None:
        super().__init__()
        self.w = Parameter(initializer(w if np.ndim(w) == 0 else Tensor(w), (channel,)), "a")

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        return activations.prelu(x, self.w)


class ELU(Cell):
    """``x`` where it is positive, ``alpha * (exp(x) - 1)`` elsewhere; the operator is ``elu``.

    Parameters
    ----------
    alpha : float
        The limit on the left is ``-alpha``.

    Examples
    --------
    >>> ELU()(Tensor([0.0, 2.0])).asnumpy().tolist()
    [0.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.elu = ops.Elu(alpha)

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        result: Tensor = self.elu(x)
        return result


class SeLU(Cell):
    """1.0507 times ``x`` where it is positive, times ``1.6733 * (exp(x) - 1)`` elsewhere; the operator is ``selu``.

    Examples
    --------
    >>> round(float(SeLU()(Tensor(1.0))), 4)
    1.0507
    """

    def __init__(self) -> None:
        super().__init__()
        self.selu = ops.SeLU()

    def construct(self, input_x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``input_x``."""
        result: Tensor = self.selu(input_x)
        return result


class ReLU6(Cell):
    """``min(max(x, 0), 6)``.

    Examples
    --------
    >>> ReLU6()(Tensor([-1.0, 2.0, 7.0])).asnumpy().tolist()
    [0.0, 2.0, 6.0]
    """

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        return activations.relu6(x)


class SiLU(Cell):
    """``x * sigmoid(x)``; the operator is ``silu``.

    Examples
    --------
    >>> round(float(SiLU()(Tensor(1.0))), 4)
    0.7311
    """

    def __init__(self) -> None:
        super().__init__()
        self.silu = ops.SiLU()

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        result: Tensor = self.silu(x)
        return result


class Mish(Cell):
    """``x * tanh(log(1 + exp(x)))``; the operator is ``mish``.

    Examples
    --------
    >>> round(float(Mish()(Tensor(1.0))), 4)
    0.8651
    """

    def __init__(self) -> None:
        super().__init__()
        self.mish = ops.Mish()

    def construct(self, input_x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``input_x``."""
        result: Tensor = self.mish(input_x)
        return result


class LogSigmoid(Cell):
    """``log(sigmoid(x))``.

    Examples
    --------
    >>> round(float(LogSigmoid()(Tensor(0.0))), 4)
    -0.6931
    """

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        return activations.logsigmoid(x)


class Softsign(Cell):
    """``x / (1 + abs(x))``; the operator is ``softsign``.

    Examples
    --------
    >>> Softsign()(Tensor([-1.0, 3.0])).asnumpy().tolist()
    [-0.5, 0.75]
    """

    def __init__(self) -> None:
        super().__init__()
        self.softsign = ops.Softsign()

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        result: Tensor = self.softsign(x)
        return result


class HSigmoid(Cell):
    """``min(max(x + 3, 0), 6) / 6``; the operator is ``hsigmoid``.

    Examples
    --------
    >>> HSigmoid()(Tensor([-3.0, 0.0])).asnumpy().tolist()
    [0.0, 0.5]
    """

    def __init__(self) -> None:
        super().__init__()
        self.hsigmoid = ops.HSigmoid()

    def construct(self, input: Tensor) -> Tensor:
        """Return a tensor of the shape of ``input``."""
        result: Tensor = self.hsigmoid(input)
        return result


class HSwish(Cell):
    """``x * min(max(x + 3, 0), 6) / 6``; the operator is ``hswish``.

    Examples
    --------
    >>> HSwish()(Tensor([0.0, 4.0])).asnumpy().tolist()
    [0.0, 4.0]
    """

    def __init__(self) -> None:
        super().__init__()
        self.hswish = ops.HSwish()

    def construct(self, input: Tensor) -> Tensor:
        """Return a tensor of the shape of ``input``."""
        result: Tensor = self.hswish(input)
        return result


class LogSoftmax(Cell):
    """The logarithm of softmax along dim ``axis``; the operator is ``log_softmax``.

    Parameters
    ----------
    axis : int
        The dim, which is never cut.

    Examples
    --------
    >>> [round(one, 4) for one in LogSoftmax()(Tensor([0.0, 0.0])).tolist()]
    [-0.6931, -0.6931]
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.log_softmax = ops.LogSoftmax(axis)

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        result: Tensor = self.log_softmax(x)
        return result
