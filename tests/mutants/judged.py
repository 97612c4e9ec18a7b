"""Changes that no user sees, each read and judged by a person: they count neither for nor against the tests.

``equivalents`` has a file for each folder of the package. A change is written there as ``make mutants`` prints it, with
the reason in place of the line's number:

    mpiparallel/layout/cut.py: a cut has at least one shard
        - if self.shards == 1:
        + if self.shards <= 1:
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from mpiparallel.backend.products.pair_products import is_at_hand
from tests.mutants.trying import Change

_FOLDER: Final = Path(__file__).with_name("equivalents")
_OF_BFLOAT16: Final = (
    "mpiparallel/backend/products/bfloat16_",
    "mpiparallel/backend/products/pair_products.py",
    "mpiparallel/ops/images/convolution/pairs.py",
    "mpiparallel/ops/images/convolution/pair_loops.py",
)
"""What is compiled for processors with AVX512-BF16 alone."""


def reason_of(change: Change) -> str | None:
    """Return why no user can see a change, or no test on this processor; None for one that counts."""
    if change.path.startswith(_OF_BFLOAT16) and not is_at_hand():
        return "without AVX512-BF16 its tests are skipped"
    return _equivalents().get((change.path, change.before.strip(), change.after.strip()))


@cache
def _equivalents() -> dict[tuple[str, str, str], str]:
    return dict(one for file in sorted(_FOLDER.glob("*.txt")) for one in _read(file))


def _read(file: Path) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Yield the changes of a file with their reasons; several may stand below one."""
    path = reason = before = ""
    for line in file.read_text().splitlines():
        if line.startswith("    -"):
            before = line[5:].strip()
        elif line.startswith("    +"):
            yield (path, before, line[5:].strip()), reason
        elif line:
            path, _, reason = line.partition(": ")
