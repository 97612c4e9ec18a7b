"""Pixels between pixels: how an image is read at places that are none of its own."""

from __future__ import annotations

from enum import IntEnum
from math import floor
from typing import Final

import numpy as np

from mpiparallel.dataset.stage import Array
from mpiparallel.errors import DatasetError


class Inter(IntEnum):
    """MindSpore's names of interpolations; LINEAR is BILINEAR, CUBIC is BICUBIC.

    Examples
    --------
    >>> Inter.LINEAR is Inter.BILINEAR
    True
    """

    NEAREST = 0
    ANTIALIAS = 1
    BILINEAR = 2
    LINEAR = 2
    BICUBIC = 3
    CUBIC = 3
    AREA = 4
    PILCUBIC = 5


OFFERED: Final = (Inter.NEAREST, Inter.LINEAR, Inter.CUBIC)
_CUBIC: Final = -0.75


def checked_interpolation(operation: str, given: object) -> Inter:
    """Return an interpolation that is offered; raise DatasetError for another."""
    if isinstance(given, Inter) and given in OFFERED:
        return given
    shown = f"Inter.{given.name}" if isinstance(given, Inter) else repr(given)
    raise DatasetError(
        f"{operation}: interpolation {shown} is not one of {', '.join(f'Inter.{one.name}' for one in OFFERED)}"
    )


def interpolated(image: Array, dim: int, target: int, inter: Inter) -> Array:
    """Return a floating image with ``target`` pixels along ``dim``, as OpenCV's functions of these names read it.

    Pixel x of n is centred at (x + 0.5) / n of the edge; beyond the outermost centres the outermost pixels go on. The
    nearest is that in which the left edge of the new pixel lies.
    """
    length = image.shape[dim]
    if length == target:
        return image
    if inter is Inter.NEAREST:
        places = [min(floor(x * (length / target)), length - 1) for x in range(target)]
        return np.take(image, places, axis=dim)
    centres = (np.arange(target) + 0.5) * (length / target) - 0.5
    if inter is Inter.LINEAR:
        return _linear(image, dim, np.clip(centres, 0, length - 1))
    return _cubic(image, dim, centres)


def _linear(image: Array, dim: int, centres: Array) -> Array:
    before = centres.astype(np.intp)
    after = np.minimum(before + 1, image.shape[dim] - 1)
    first = np.take(image, before, axis=dim)
    step: Array = np.take(image, after, axis=dim)
    step -= first
    step *= _along(centres - before, image, dim)
    step += first
    return step


def _cubic(image: Array, dim: int, centres: Array) -> Array:
    """Return the sum of four neighbours, weighted by Keys' kernel."""
    before = np.floor(centres).astype(np.intp)
    part = centres - before
    total: Array = np.zeros((), image.dtype)
    for offset in range(-1, 3):
        places = np.clip(before + offset, 0, image.shape[dim] - 1)
        total = total + np.take(image, places, axis=dim) * _along(_keys(np.abs(part - offset)), image, dim)
    return total


def _keys(distance: Array) -> Array:
    near = ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance**2 + 1
    far = ((_CUBIC * distance - 5 * _CUBIC) * distance + 8 * _CUBIC) * distance - 4 * _CUBIC
    return np.where(distance <= 1, near, far)


def _along(weights: Array, image: Array, dim: int) -> Array:
    return weights.astype(image.dtype).reshape([-1 if d == dim else 1 for d in range(image.ndim)])
