"""First values with a pattern: an identity, one that convolves to the identity, columns with zeros, a rotation."""

from __future__ import annotations

import math

import numpy as np

from mpiparallel.backend.counter_random import RandomBox, stream_key
from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.box import Box
from mpiparallel.nn.initializer.rule import Initializer, InitialValues


def _matrix(kind: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ConfigurationError(f"initializer {kind} fills tensors of two dims, not of shape {shape}")


class Identity(Initializer):
    """Ones on the diagonal of a matrix, zeros elsewhere.

    Parameters
    ----------
    **attributes
        What a subclass is configured by.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> initializer(Identity(), [2, 2]).asnumpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        _matrix("Identity", shape)
        rows, columns = (np.arange(start, stop) for start, stop in zip(box.start, box.stop, strict=True))
        return np.asarray(rows[:, None] == columns, np.float64)


class Dirac(Initializer):
    """A convolution's weight (out, in, ...) by which channels pass unchanged; alike in each of ``groups``.

    Parameters
    ----------
    groups : int
        Of the convolution.

    Raises
    ------
    ConfigurationError
        When a tensor of another kind is filled.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> initializer(Dirac(), [1, 1, 3]).asnumpy().tolist()
    [[[0.0, 1.0, 0.0]]]
    """

    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.groups = groups

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        if len(shape) not in (3, 4, 5) or shape[0] % self.groups:
            raise ConfigurationError(
                f"initializer Dirac fills weights of 3 to 5 dims whose first is a multiple of groups={self.groups}, "
                f"not of shape {shape}"
            )
        places = [np.arange(start, stop) for start, stop in zip(box.start, box.stop, strict=True)]
        holds = (places[0] % (shape[0] // self.groups))[:, None] == places[1]
        for extent, place in zip(shape[2:], places[2:], strict=True):
            holds = holds[..., None] & (place == extent // 2)
        return np.asarray(holds, np.float64)


class Sparse(Initializer):
    """Normal numbers of ``sigma``; in each column of a matrix ``ceil(sparsity * rows)`` of them are 0.

    Parameters
    ----------
    sparsity : float
        The share of zeros.
    sigma : float
        The standard deviation of the others.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> (initializer(Sparse(0.5), [4, 3]).asnumpy() == 0).sum(0).tolist()
    [2, 2, 2]
    """

    def __init__(self, sparsity: float, sigma: float = 0.01) -> None:
        super().__init__()
        self.sparsity, self.sigma = sparsity, sigma

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        _matrix("Sparse", shape)
        numbers = self.normal(name, shape, box, self.sigma)
        columns = Box((0, box.start[1]), (shape[0], box.stop[1]))
        drawn = RandomBox(np, shape, columns).uniform(stream_key(self.key(name), "zeros"))
        ranks = np.argsort(np.argsort(drawn, 0, kind="stable"), 0)
        numbers[ranks[box.start[0] : box.stop[0]] < math.ceil(self.sparsity * shape[0])] = 0.0
        return numbers


class Orthogonal(Initializer):
    """A random rotation times ``gain``: rows, or columns if there are fewer, are orthogonal and ``gain`` long.

    Dims after the first count as one. Every rank makes the whole, because each element depends on all others.

    Parameters
    ----------
    gain : float
        The length of a row.

    Examples
    --------
    >>> from mpiparallel.nn.initializer import initializer
    >>> rows = initializer(Orthogonal(), [2, 3]).asnumpy()
    >>> (abs(rows @ rows.T) > 1e-6).tolist()
    [[True, False], [False, True]]
    """

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> InitialValues:
        if len(shape) < 2:
            raise ConfigurationError(f"initializer Orthogonal fills tensors of at least two dims, not of shape {shape}")
        rows, columns = shape[0], math.prod(shape[1:])
        drawn = self.normal(name, (rows, columns), Box.whole((rows, columns)), 1.0)
        rotation, triangle = np.linalg.qr(drawn if rows >= columns else drawn.T)
        # Of the two signs that a factor may have, that of a positive diagonal: so all rotations are equally likely.
        rotation = rotation * np.sign(np.diag(triangle))
        whole = (rotation if rows >= columns else rotation.T).reshape(shape)
        return np.asarray(self.gain * whole[box.within(Box.whole(shape))])
