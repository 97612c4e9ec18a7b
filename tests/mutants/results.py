"""What each change came to, in a file that the next call goes on from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.mutants.trying import Change


class Results:
    """A file of one result a line: which test noticed a change, or which tests did not.

    A change that was noticed stays so while its file is the same. One that no test noticed is tried by those tests
    alone that are new, or have changed.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, dict[str, Any]] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            self._know(json.loads(line))

    def of(self, change: Change) -> str | None:
        """Return which test noticed a change, "" where none did, None where that was not tried yet."""
        one = self._known.get(change.name)
        return None if one is None else str(one["by"])

    def counted(self, change: Change) -> str:
        """Return how many tests have tried a change, of how many that reach it."""
        return str(self._known[change.name]["counted"])

    def tried(self, change: Change) -> set[str]:
        """Return the ``test_key`` of all tests that have tried a change in vain."""
        return set(self._known.get(change.name, {}).get("tried", ()))

    def unchecked(self) -> set[str]:
        """Return the tests that noticed something, but were not run on the unchanged package since."""
        return {one["by"] for one in self._known.values() if "::" in one["by"] and not one.get("checked")}

    def forget(self, by: str, key: str) -> None:
        """Take back what a test noticed that fails on the unchanged package, too."""
        for one in [one for one in self._known.values() if one["by"] == by]:
            self._write({**one, "by": "", "tried": [*one["tried"], key]})

    def check(self, by: str) -> None:
        """Write down that a test passes on the unchanged package."""
        for one in [one for one in self._known.values() if one["by"] == by]:
            self._write({**one, "checked": True})

    def add(self, change: Change, by: str, counted: str, tried: Iterable[str]) -> None:
        """Write down what noticed a change; where that is "", the keys of the tests that did not."""
        known = [] if by else sorted(tried)
        self._write({"change": change.name, "told": str(change), "by": by, "counted": counted, "tried": known})

    def _know(self, one: dict[str, Any]) -> None:
        before = self._known.get(one["change"], {"tried": []})
        self._known[one["change"]] = {**one, "tried": sorted({*before["tried"], *one["tried"]})}

    def _write(self, one: dict[str, Any]) -> None:
        self._know(one)
        with self._file.open("a") as file:
            file.write(json.dumps(one) + "\n")


def test_key(test: str, file: str) -> str:
    """Return what a test is called while it stays the same, and what it is made of, of which ``file`` is the digest."""
    return hashlib.sha256(f"{test}\0{file}".encode()).hexdigest()[:12]


def digest(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(str(path).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()
