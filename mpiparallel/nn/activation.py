"""Activation functions as cells; the operator of each is an attribute, so that it can be sharded."""

from __future__ import annotations

from mpiparallel import ops
from mpiparallel.compatibility.remark import remark
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn import smooth_activation as smooth
from mpiparallel.nn.cell import Cell


class ReLU(Cell):
    """``max(x, 0)``; the operator is ``relu``.

    Examples
    --------
    >>> ReLU()(Tensor([-1.0, 2.0])).asnumpy().tolist()
    [0.0, 2.0]
    """

    def __init__(self) -> None:
        super().__init__()
        self.relu = ops.ReLU()

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        result: Tensor = self.relu(x)
        return result


class GELU(Cell):
    """``x * Phi(x)`` by its tanh form, also without ``approximate``, as a remark says; the operator is ``gelu``.

    Parameters
    ----------
    approximate : bool
        True asks for that form.

    Examples
    --------
    >>> GELU()(Tensor([0.0, 10.0])).asnumpy().tolist()
    [0.0, 10.0]
    """

    def __init__(self, approximate: bool = True) -> None:
        super().__init__()
        if not approximate:
            remark(f"GELU: approximate={approximate!r} is computed by the tanh form, which is off by less than 0.0005")
        self.gelu = ops.GeLU()

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        result: Tensor = self.gelu(x)
        return result


class Tanh(Cell):
    """The hyperbolic tangent; the operator is ``tanh``.

    Examples
    --------
    >>> Tanh()(Tensor([0.0])).asnumpy().tolist()
    [0.0]
    """

    def __init__(self) -> None:
        super().__init__()
        self.tanh = ops.Tanh()

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        result: Tensor = self.tanh(x)
        return result


class Sigmoid(Cell):
    """``1 / (1 + exp(-x))``; the operator is ``sigmoid``.

    Examples
    --------
    >>> Sigmoid()(Tensor([0.0])).asnumpy().tolist()
    [0.5]
    """

    def __init__(self) -> None:
        super().__init__()
        self.sigmoid = ops.Sigmoid()

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        result: Tensor = self.sigmoid(x)
        return result


class Softmax(Cell):
    """``exp(x) / sum(exp(x))`` along dim ``axis``; the operator is ``softmax``.

    Parameters
    ----------
    axis : int
        The dim, which is never cut.

    Examples
    --------
    >>> Softmax()(Tensor([0.0, 0.0])).asnumpy().tolist()
    [0.5, 0.5]
    """

    def __init__(self, axis: int | tuple[int] = -1) -> None:
        super().__init__()
        self.softmax = ops.Softmax(axis)

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        result: Tensor = self.softmax(x)
        return result


_ACTIVATIONS: dict[str, type[Cell]] = {
    "relu": ReLU,
    "gelu": GELU,
    "tanh": Tanh,
    "sigmoid": Sigmoid,
    "softmax": Softmax,
    "elu": smooth.ELU,
    "hsigmoid": smooth.HSigmoid,
    "hswish": smooth.HSwish,
    "leakyrelu": smooth.LeakyReLU,
    "logsigmoid": smooth.LogSigmoid,
    "logsoftmax": smooth.LogSoftmax,
    "mish": smooth.Mish,
    "prelu": smooth.PReLU,
    "relu6": smooth.ReLU6,
    "silu": smooth.SiLU,
    "softsign": smooth.Softsign,
}


def get_activation(name: str, prim_name: str | None = None) -> Cell:
    """Return the activation cell of this name.

    Parameters
    ----------
    name : str
        Such as "relu" or "gelu".
    prim_name : str, optional
        Who asks, for the error.

    Returns
    -------
    Cell
        A new one.

    Raises
    ------
    ConfigurationError
        For an unknown name.

    Examples
    --------
    >>> type(get_activation("relu")).__name__
    'ReLU'
    """
    kind = _ACTIVATIONS.get(name.lower())
    if kind is None:
        where = f"{prim_name}: " if prim_name else ""
        raise ConfigurationError(f"{where}activation {name!r} is not one of {', '.join(sorted(_ACTIVATIONS))}")
    return kind()
