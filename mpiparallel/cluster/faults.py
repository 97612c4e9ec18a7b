"""What is wrong with a file: every fault of it, each with its place, its value and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mpiparallel.errors import RankTableError

_MOST_KEPT = 1000


class Fault(NamedTuple):
    """One fault: the JSON path of the value, "" for the whole document, and what is wrong and how to mend it."""

    path: str
    text: str

    def __str__(self) -> str:
        """Return the path and the text as one line."""
        return f"{self.path}: {self.text}" if self.path else self.text


class Faults:
    """The faults of one file. A thousand of them are kept, the others only counted.

    >>> faults = Faults()
    >>> faults.add("status", '"x" is not usable; write "completed"')
    >>> len(faults), str(faults.kept[0])
    (1, 'status: "x" is not usable; write "completed"')
    """

    def __init__(self) -> None:
        """Begin with no fault."""
        self.kept: list[Fault] = []
        self._count = 0

    def __len__(self) -> int:
        """Return how many faults there are."""
        return self._count

    def add(self, path: str, text: str) -> None:
        """Add a fault of the value at ``path``."""
        self._count += 1
        if len(self.kept) < _MOST_KEPT:
            self.kept.append(Fault(path, text))


class FaultyFileError(RankTableError):
    """A rank table or a hostfile is malformed: ``lines`` are its faults, ``count`` says how many there are."""

    def __init__(self, source: str, lines: tuple[str, ...], count: int, most_shown: int = 20) -> None:
        """Keep the ``lines`` of the file ``source``; the message shows ``most_shown`` of them."""
        self.source, self.lines, self.count = source, lines, count
        shown = [*([f"{source}: {count} faults"] if count > 1 else []), *lines[:most_shown]]
        if count > len(lines[:most_shown]):
            shown.append(f"and {count - len(lines[:most_shown])} more")
        super().__init__("\n".join(shown))


def refuse(source: str, faults: Faults, line_of: Callable[[list[str]], dict[str, int]] | None = None) -> None:
    """Raise FaultyFileError if there are ``faults``.

    ``line_of`` finds the lines of JSON paths, by which the faults are then ordered and named: ``source:line:``.
    """
    if not faults:
        return
    lines = line_of([fault.path for fault in faults.kept]) if line_of else {}
    ordered = sorted(faults.kept, key=lambda fault: lines.get(fault.path, 0))
    told = (f"{source}:{lines[fault.path]}: {fault}" if fault.path in lines else f"{source}: {fault}" for fault in ordered)
    raise FaultyFileError(source, tuple(told), len(faults))
