"""Arguments of MindSpore's that are not offered: each is refused by its name, or said once to have no effect."""

from __future__ import annotations

from typing import Any

from mpiparallel.compatibility.remark import remark
from mpiparallel.errors import ConfigurationError


def only(where: str, argument: str, value: Any, possible: Any, instead: str = "") -> None:
    """Raise ConfigurationError unless ``value`` is ``possible``; ``instead`` says how to have the other.

    >>> only("MaxPool2d", "ceil_mode", False, False)
    """
    if value is not possible and (type(value) is not type(possible) or value != possible):
        mend = f"; {instead}" if instead else ""
        raise ConfigurationError(f"{where}: {argument}={value!r} is not supported; use {possible!r}{mend}")


def no_effect(where: str, argument: str, value: Any, why: str, default: Any = None) -> None:
    """Say once that ``where`` takes ``argument`` but does nothing by it; nothing is said where it is its default.

    >>> no_effect("Conv2d", "data_format", "NCHW", "it is the only order", default="NCHW")
    """
    if value is not default and (type(value) is not type(default) or value != default):
        remark(f"{where}: {argument}={value!r} has no effect here: {why}")
