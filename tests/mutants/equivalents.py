"""Changes that no user sees, each read and judged by a person: they count neither for nor against the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EQUIVALENTS: Final[Mapping[tuple[str, str, str], str]] = {}
"""By the file below ``mpiparallel``, and the line before and after: why nobody can see a difference."""
