"""The losses that a training prints, as the tutorials show them."""

from __future__ import annotations

import re

_LINE = re.compile(r"epoch: \d+ step: \d+, loss is (\d[\d.]*(?:e[+-]\d+)?)")


def losses(text: str) -> list[float]:
    """Return the losses in ``text``, in their order, also where the lines of two ranks run into each other.

    >>> losses("epoch: 1 step: 73, loss is 6.45995epoch: 1 step: 73, loss is 1.5e-3")
    [6.45995, 0.0015]
    """
    return [float(found) for found in _LINE.findall(text)]
