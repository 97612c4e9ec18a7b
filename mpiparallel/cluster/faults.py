"""What is wrong with a file: every fault of it, each with its place, its value and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

from mpiparallel.errors import RankTableError

_MOST_KEPT = 1000


class Fault(NamedTuple):
    """One fault: the JSON path of the value, "" for the whole file; what is wrong and the mend; the line if known."""

    path: str
    text: str
    line: int | None = None

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

    @property
    def is_full(self) -> bool:
        """Tell whether further faults are only counted."""
        return self._count >= _MOST_KEPT

    def add(self, path: str, text: str, line: int | None = None) -> None:
        """Add a fault of the value at ``path``, or of ``line``."""
        self._count += 1
        if len(self.kept) < _MOST_KEPT:
            self.kept.append(Fault(path, text, line))


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

    ``line_of`` finds the lines of JSON paths. Faults are in the order of their lines, and begin with ``source:line:``.
    """
    if not faults:
        return
    found = line_of([fault.path for fault in faults.kept if fault.path]) if line_of else {}
    lines = [fault.line or found.get(fault.path, 0) for fault in faults.kept]
    told = (
        f"{source}:{line}: {fault}" if line else f"{source}: {fault}"
        for line, fault in sorted(zip(lines, faults.kept, strict=True), key=itemgetter(0))
    )
    raise FaultyFileError(source, tuple(told), len(faults))
