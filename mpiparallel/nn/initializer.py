"""First values of parameters: the same numbers whatever the cut, each rank makes only its own slice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.counter_random import RandomBox, stream_key
from mpiparallel.context.settings import get_seed
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.layout.box import Box

Values = np.ndarray[Any, Any]


class Initializer:
    """A rule for first values. Random ones depend on the seed, the tensor's name and an element's index."""

    alias: ClassVar[str] = ""

    def __init__(self) -> None:
        self.seed = get_seed()

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> Values:
        """Return the values of ``box`` of the tensor ``name`` of ``shape``."""
        raise NotImplementedError(type(self).__name__)

    def _uniform(self, name: str, shape: tuple[int, ...], box: Box, low: float, high: float) -> Values:
        numbers = RandomBox(np, shape, box).uniform(stream_key(self.seed, name))
        return low + (high - low) * np.asarray(numbers)

    def _normal(self, name: str, shape: tuple[int, ...], box: Box, sigma: float, mean: float = 0.0) -> Values:
        numbers = RandomBox(np, shape, box).normal(stream_key(self.seed, name))
        return mean + sigma * np.asarray(numbers)


def _fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return how many inputs and outputs each unit has; dim 0 counts outputs, dim 1 inputs (MindSpore's order)."""
    if len(shape) < 2:
        raise ConfigurationError(
            f"a fan-based initializer needs a shape of at least two dims, not {shape}; use Normal or Zero"
        )
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


class Constant(Initializer):
    """Every element is ``value``."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> Values:
        return np.full(box.shape, self.value)


class Zero(Constant):
    """Every element is 0."""

    alias = "zeros"

    def __init__(self) -> None:
        super().__init__(0.0)


class One(Constant):
    """Every element is 1."""

    alias = "ones"

    def __init__(self) -> None:
        super().__init__(1.0)


class Uniform(Initializer):
    """Uniform in [-scale, scale)."""

    alias = "uniform"

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__()
        self.scale = scale

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> Values:
        return self._uniform(name, shape, box, -self.scale, self.scale)


class Normal(Initializer):
    """Normal with standard deviation ``sigma`` and mean ``mean``."""

    alias = "normal"

    def __init__(self, sigma: float = 0.01, mean: float = 0.0) -> None:
        super().__init__()
        self.sigma, self.mean = sigma, mean

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> Values:
        return self._normal(name, shape, box, self.sigma, self.mean)


class TruncatedNormal(Initializer):
    """Normal with standard deviation ``sigma``, cut off at two of them by the inverse of its distribution."""

    alias = "truncatedNormal"

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__()
        self.sigma = sigma

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> Values:
        bound = math.erf(2.0 / math.sqrt(2.0))
        levels = self._uniform(name, shape, box, -bound, bound)
        return self.sigma * math.sqrt(2.0) * _inverse_erf(levels)


def _inverse_erf(y: Values) -> Values:
    """Return x with erf(x) = y, by Winitzki's approximation and two Newton steps."""
    a = 0.147
    logarithm = np.log1p(-y * y)
    middle = 2.0 / (math.pi * a) + logarithm / 2.0
    x = np.sign(y) * np.sqrt(np.sqrt(middle * middle - logarithm / a) - middle)
    erf = np.vectorize(math.erf, otypes=[float])
    for _ in range(2):
        x = x - (erf(x) - y) * (math.sqrt(math.pi) / 2.0) * np.exp(x * x)
    return np.asarray(x)


class XavierUniform(Initializer):
    """Uniform with the variance 2 / (inputs + outputs), times ``gain`` squared (Glorot and Bengio, 2010)."""

    alias = "xavier_uniform"

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> Values:
        bound = self.gain * math.sqrt(6.0 / sum(_fans(shape)))
        return self._uniform(name, shape, box, -bound, bound)


class XavierNormal(Initializer):
    """Normal with the variance 2 / (inputs + outputs), times ``gain`` squared (Glorot and Bengio, 2010)."""

    alias = "xavier_normal"

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> Values:
        return self._normal(name, shape, box, self.gain * math.sqrt(2.0 / sum(_fans(shape))))


def _he_gain(nonlinearity: str, negative_slope: float) -> float:
    gains = {"relu": math.sqrt(2.0), "linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + negative_slope**2))
    if nonlinearity not in gains:
        raise ConfigurationError(f"nonlinearity {nonlinearity!r} is not one of {', '.join([*gains, 'leaky_relu'])}")
    return gains[nonlinearity]


class _He(Initializer):
    """What HeUniform and HeNormal share: the standard deviation of He and others (2015)."""

    def __init__(self, negative_slope: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> None:
        super().__init__()
        if mode not in ("fan_in", "fan_out"):
            raise ConfigurationError(f"mode {mode!r} is neither 'fan_in' nor 'fan_out'")
        self.mode = mode
        self.gain = _he_gain(nonlinearity, negative_slope)

    def sigma(self, shape: tuple[int, ...]) -> float:
        """Return the standard deviation for a tensor of ``shape``."""
        inputs, outputs = _fans(shape)
        return self.gain / math.sqrt(inputs if self.mode == "fan_in" else outputs)


class HeUniform(_He):
    """Uniform with the standard deviation of He and others (2015)."""

    alias = "he_uniform"

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> Values:
        bound = math.sqrt(3.0) * self.sigma(shape)
        return self._uniform(name, shape, box, -bound, bound)


class HeNormal(_He):
    """Normal with the standard deviation of He and others (2015)."""

    alias = "he_normal"

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> Values:
        return self._normal(name, shape, box, self.sigma(shape))


_ALIASES = {
    kind.alias: kind
    for kind in (Zero, One, Uniform, Normal, TruncatedNormal, XavierUniform, XavierNormal, HeUniform, HeNormal)
}


def initializer(init: Any, shape: int | Sequence[int] | None = None, dtype: Any = np.float32) -> Tensor:
    """Return a tensor that is filled when its parameter is placed; each rank fills only its slice.

    ``init`` is an Initializer, the name of one ("zeros", "ones", "normal", "uniform", "xavier_uniform", "he_normal",
    ...), a number, or a tensor, which is returned. Raises ConfigurationError for an unknown name.

    >>> initializer("ones", [2, 2]).asnumpy().tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if isinstance(init, Tensor):
        return init
    if isinstance(init, str):
        if init not in _ALIASES:
            raise ConfigurationError(f"initializer {init!r} is not one of {', '.join(sorted(_ALIASES))}")
        init = _ALIASES[init]()
    elif isinstance(init, (int, float)):
        init = Constant(float(init))
    extents = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    return Tensor(shape=extents, dtype=dtype, init=init)
