"""What the message of an error is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mpiparallel.errors import StrategyFileError


@contextmanager
def about(subject: str) -> Iterator[None]:
    """Put ``subject`` before the message of a ``StrategyFileError``."""
    try:
        yield
    except StrategyFileError as error:
        raise StrategyFileError(f"{subject}: {error}") from error
