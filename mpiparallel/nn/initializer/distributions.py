"""Random first values: uniform and normal, of a given scale or of one that the shape gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.box import Box
from mpiparallel.nn.initializer.rule import Initializer, InitialValues, fans


class Uniform(Initializer):
    """Uniform in [-scale, scale).

    Parameters
    ----------
    scale : float
        Above 0.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> bool(abs(initializer(Uniform(0.5), [100]).asnumpy()).max() <= 0.5)
    True
    """

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__()
        self.scale = scale

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        return self.uniform(name, shape, box, -self.scale, self.scale)


class Normal(Initializer):
    """Normal with standard deviation ``sigma`` and mean ``mean``.

    Parameters
    ----------
    sigma, mean : float
        Of the distribution.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> round(float(initializer(Normal(1.0), [10000]).asnumpy().std()), 1)
    1.0
    """

    def __init__(self, sigma: float = 0.01, mean: float = 0.0) -> None:
        super().__init__()
        self.sigma, self.mean = sigma, mean

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        return self.normal(name, shape, box, self.sigma, self.mean)


class TruncatedNormal(Initializer):
    """Normal with standard deviation ``sigma`` around ``mean``, cut off ``a`` and ``b`` of them from it.

    The numbers come from uniform ones by the inverse of the distribution.

    Parameters
    ----------
    sigma, mean : float
        Of the distribution.
    a, b : float
        The bounds, in standard deviations from the mean.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> bool(abs(initializer(TruncatedNormal(1.0), [1000]).asnumpy()).max() <= 2.0)
    True
    """

    def __init__(self, sigma: float = 0.01, mean: float = 0.0, a: float = -2.0, b: float = 2.0) -> None:
        super().__init__()
        self.sigma, self.mean, self.a, self.b = sigma, mean, a, b

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        low, high = (math.erf(bound / math.sqrt(2.0)) for bound in (self.a, self.b))
        levels = self.uniform(name, shape, box, low, high)
        return self.mean + self.sigma * math.sqrt(2.0) * _inverse_erf(levels)


def _inverse_erf(y: InitialValues) -> InitialValues:
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
    """Uniform with the variance 2 / (inputs + outputs), times ``gain`` squared (Glorot and Bengio, 2010).

    Parameters
    ----------
    gain : float
        By which the numbers are multiplied.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> round(float(initializer(XavierUniform(), [100, 100]).asnumpy().std()), 2)
    0.1
    """

    aliases = ("xavier_uniform",)

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        bound = self.gain * math.sqrt(6.0 / sum(fans(shape)))
        return self.uniform(name, shape, box, -bound, bound)


class XavierNormal(Initializer):
    """Normal with the variance 2 / (inputs + outputs), times ``gain`` squared (Glorot and Bengio, 2010).

    Parameters
    ----------
    gain : float
        By which the numbers are multiplied.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> round(float(initializer(XavierNormal(), [100, 100]).asnumpy().std()), 2)
    0.1
    """

    aliases = ("xavier_normal",)

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        return self.normal(name, shape, box, self.gain * math.sqrt(2.0 / sum(fans(shape))))


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
        _one_of("mode", mode.lower(), ("fan_in", "fan_out"))
        self.mode = mode.lower()
        self.gain = _he_gain(nonlinearity, negative_slope)

    def sigma(self, shape: tuple[int, ...]) -> float:
        """Return the standard deviation for a tensor of ``shape``."""
        inputs, outputs = fans(shape)
        return self.gain / math.sqrt(inputs if self.mode == "fan_in" else outputs)


class HeUniform(_He):
    """Uniform with the standard deviation of He and others (2015).

    Parameters
    ----------
    negative_slope : float
        Of the leaky ReLU that follows, where ``nonlinearity`` says that one does.
    mode : {"fan_in", "fan_out"}
        Whether inputs or outputs are counted.
    nonlinearity : str
        What follows.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> round(float(initializer(HeUniform(), [200, 200]).asnumpy().std()), 1)
    0.1
    """

    aliases = ("he_uniform",)

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        bound = math.sqrt(3.0) * self.sigma(shape)
        return self.uniform(name, shape, box, -bound, bound)


class HeNormal(_He):
    """Normal with the standard deviation of He and others (2015).

    Parameters
    ----------
    negative_slope : float
        Of the leaky ReLU that follows, where ``nonlinearity`` says that one does.
    mode : {"fan_in", "fan_out"}
        Whether inputs or outputs are counted.
    nonlinearity : str
        What follows.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> round(float(initializer(HeNormal(), [200, 200]).asnumpy().std()), 1)
    0.1
    """

    aliases = ("he_normal",)

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        return self.normal(name, shape, box, self.sigma(shape))


_NORMAL_WITHIN_TWO = 0.87962566103423978
"""The standard deviation of a standard normal number, given that it lies within 2 of 0."""


class VarianceScaling(Initializer):
    """Numbers with the variance ``scale / n``, n being the inputs, the outputs or their mean (He and others, 2015).

    Parameters
    ----------
    scale : float
        Above 0.
    mode : {"fan_in", "fan_out", "fan_avg"}
        What n is.
    distribution : {"truncated_normal", "untruncated_normal", "uniform"}
        The first is cut off at two standard deviations before it is scaled.

    Raises
    ------
    ConfigurationError
        For others.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> round(float(initializer(VarianceScaling(), [100, 100]).asnumpy().std()), 1)
    0.1
    """

    def __init__(self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal") -> None:
        super().__init__()
        if scale <= 0:
            raise ConfigurationError(f"VarianceScaling: scale {scale} must be above 0")
        _one_of("mode", mode, ("fan_in", "fan_out", "fan_avg"))
        _one_of("distribution", distribution, ("truncated_normal", "untruncated_normal", "uniform"))
        self.scale, self.mode, self.distribution = scale, mode, distribution

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        inputs, outputs = fans(shape)
        units = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2.0}[self.mode]
        sigma = math.sqrt(self.scale / max(1.0, units))
        if self.distribution == "untruncated_normal":
            return self.normal(name, shape, box, sigma)
        if self.distribution == "uniform":
            return self.uniform(name, shape, box, -math.sqrt(3.0) * sigma, math.sqrt(3.0) * sigma)
        cut_off = TruncatedNormal(sigma / _NORMAL_WITHIN_TWO)
        cut_off.seed, cut_off.serial = self.seed, self.serial
        return cut_off.part(name, shape, box)


def _one_of(argument: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ConfigurationError(f"initializer: {argument} {given!r} is not one of {', '.join(known)}")
