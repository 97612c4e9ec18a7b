"""What each rank has been told to be saved: a log of its own, on disk before the rank goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Log:
    """The log of one rank, to which steps are added."""

    def __init__(self, notes: Path, rank: int) -> None:
        self._descriptor = os.open(notes / f"acknowledged_{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, step: int, kept: int = 0) -> None:
        """Say that ``step`` is committed, and that no checkpoint but the newest ``kept`` need be there; 0: all."""
        os.write(self._descriptor, f"{step} {kept}\n".encode())
        os.fsync(self._descriptor)


class Acknowledged(NamedTuple):
    """All steps that any rank was told to be saved, ascending, and how many of the newest have been kept."""

    steps: list[int]
    kept: int

    def to_be_there(self, newest: int) -> list[int]:
        """Return the acknowledged steps that must still be there when ``newest`` is."""
        return [step for step in self.steps if not self.kept or step > newest - self.kept]


def read(notes: Path) -> Acknowledged:
    """Return what the logs of all ranks say. A line that was not finished says nothing."""
    lines = [
        line.split()
        for path in notes.glob("acknowledged_*")
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]
    return Acknowledged(sorted({int(step) for step, _ in lines}), max((int(kept) for _, kept in lines), default=0))
