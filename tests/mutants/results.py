"""What each change came to, in a file that the next call goes on from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.mutants.trying import Change


class Results:
    """A file of one result a line.

    A change that was noticed stays so while its file is the same; one that no test noticed, while the tests are too.
    """

    def __init__(self, file: Path, tests: str) -> None:
        self._file, self._tests = file, tests
        self._known: dict[str, dict[str, Any]] = {}
        if file.exists():
            for line in file.read_text().splitlines():
                one = json.loads(line)
                self._known[one["change"]] = one

    def of(self, change: Change, stage: str) -> str | None:
        """Return which test noticed a change, "" where none of a stage did, None where that was not tried yet."""
        one = self._known.get(change.name)
        if one is None:
            return None
        if one["by"]:
            return str(one["by"])
        return "" if one["tests"] == self._tests and stage in one["stages"] else None

    def forget(self, by: str) -> None:
        """Take back what a test noticed that fails on the unchanged package, too."""
        for one in [one for one in self._known.values() if one["by"] == by]:
            self._write({**one, "by": "", "stages": []})

    def add(self, change: Change, stage: str, by: str) -> None:
        known = self._known.get(change.name, {})
        stages = known["stages"] if known.get("tests") == self._tests else []
        one = {"change": change.name, "told": str(change), "by": by, "tests": self._tests, "stages": [*stages, stage]}
        self._write(one)

    def _write(self, one: dict[str, Any]) -> None:
        self._known[one["change"]] = one
        with self._file.open("a") as file:
            file.write(json.dumps(one) + "\n")


def digest(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(str(path).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()
