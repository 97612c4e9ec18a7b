"""ARCHITECTURE.md leads to files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ARCHITECTURE.md"


def test_each_file_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE.read_text(encoding="utf-8")))
    files = [
        f"/{path.relative_to(ROOT)}" for place in ("mpiparallel", "tests") for path in (ROOT / place).rglob("*.py")
    ]
    files += [f"/{path.name}" for path in ROOT.glob("*.py")]
    assert sorted(name for name in named if not any(file.endswith(f"/{name}") for file in files)) == []
