"""What cannot be converted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mpiparallel.errors import CheckpointError, StrategyFileError


class TransformError(CheckpointError):
    """Files cannot be converted: one is missing, or it does not fit the strategy that it should have."""


@contextmanager
def about_parameter(name: str) -> Iterator[None]:
    """Put the name of a parameter before the message of an error about it."""
    try:
        yield
    except (TransformError, StrategyFileError) as error:
        raise type(error)(f'parameter "{name}": {error}') from error
