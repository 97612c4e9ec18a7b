"""What MindSpore's arguments can be and these cannot: refused by name, with the one value that says what is done."""

from __future__ import annotations

from typing import Any

from mpiparallel.errors import ConfigurationError


def only(where: str, argument: str, value: Any, possible: Any, instead: str = "") -> None:
    """Raise ConfigurationError unless ``value`` is ``possible``; ``instead`` says how to have the other.

    >>> only("MaxPool2d", "ceil_mode", False, False)
    """
    if value is not possible and (type(value) is not type(possible) or value != possible):
        mend = f"; {instead}" if instead else ""
        raise ConfigurationError(f"{where}: {argument}={value!r} is not supported; use {possible!r}{mend}")
