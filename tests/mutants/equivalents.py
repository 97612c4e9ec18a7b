"""Changes that no user sees, each read and judged by a person: they count neither for nor against the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.mutants.trying import Change

EQUIVALENTS: Final[Mapping[tuple[str, str, str], str]] = {
    ("backend/freed_memory.py", "trim(0)", "trim( 1)"): "one byte more is kept",
    (
        "dataset/vision/flip.py",
        "return array[:, ::-1] if generator.random() < self.prob else array",
        "return array[:, ::-1] if generator.random() <= self.prob else array",
    ): "they differ once in 2 ** 53 draws",
    (
        "search/cost/moves.py",
        "left = np.where(scattered > 0, 0, changed)",
        "left = np.where(scattered > 0, -1, changed)",
    ): "it is asked only whether it is 1, and whether it is above 0",
}
"""By the file below ``mpiparallel``, and the line before and after: why nobody can see a difference."""


def reason_of(change: Change) -> str | None:
    """Return why no user can see a change; None for one that counts."""
    return EQUIVALENTS.get((change.path.removeprefix("mpiparallel/"), change.before, change.after))
