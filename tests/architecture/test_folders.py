"""A folder of the package, or of its tests, reads like a table of contents."""

from __future__ import annotations

from pathlib import Path

import pytest

import mpiparallel

PACKAGE = Path(mpiparallel.__file__).parent
MOST_ENTRIES = 25
TESTS = Path(__file__).parents[1]
FOLDERS = sorted(
    {path.parent for place in (PACKAGE, TESTS) for path in place.rglob("*.py") if "shipped" not in path.parts}
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(PACKAGE.parent)))
def test_a_folder_can_be_seen_at_once(folder: Path) -> None:
    entries = [path.name for path in folder.iterdir() if path.name not in ("__init__.py", "__pycache__", "py.typed")]
    assert len(entries) <= MOST_ENTRIES, f"{len(entries)} entries; group those of one subject in a folder"
