"""What is wrong with a file: every problem of it, each with its place, its value and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

from mpiparallel.errors import RankTableError

_MOST_KEPT = 1000


class FileProblem(NamedTuple):
    """One problem: the JSON path of the value, "" for the whole file; what is wrong and the mend; the line if known."""

    path: str
    text: str
    line: int | None = None

    def __str__(self) -> str:
        """Return the path and the text as one line."""
        return f"{self.path}: {self.text}" if self.path else self.text


class FileProblems:
    """The problems of one file. A thousand of them are kept, the others only counted.

    >>> problems = FileProblems()
    >>> problems.add("status", '"x" is not usable; write "completed"')
    >>> len(problems), str(problems.kept[0])
    (1, 'status: "x" is not usable; write "completed"')
    """

    def __init__(self) -> None:
        """Begin with no problem."""
        self.kept: list[FileProblem] = []
        self._count = 0

    def __len__(self) -> int:
        """Return how many problems there are."""
        return self._count

    @property
    def is_full(self) -> bool:
        """Tell whether further problems are only counted."""
        return self._count >= _MOST_KEPT

    def add(self, path: str, text: str, line: int | None = None) -> None:
        """Add a problem of the value at ``path``, or of ``line``."""
        self._count += 1
        if len(self.kept) < _MOST_KEPT:
            self.kept.append(FileProblem(path, text, line))


class MalformedFileError(RankTableError):
    """A rank table or a hostfile is malformed: ``lines`` are its problems, ``count`` says how many there are."""

    def __init__(self, source: str, lines: tuple[str, ...], count: int, most_shown: int = 20) -> None:
        """Keep the ``lines`` of the file ``source``; the message shows ``most_shown`` of them."""
        self.source, self.lines, self.count = source, lines, count
        shown = [*([f"{source}: {count} problems"] if count > 1 else []), *lines[:most_shown]]
        if count > len(lines[:most_shown]):
            shown.append(f"and {count - len(lines[:most_shown])} more")
        super().__init__("\n".join(shown))


def refuse(source: str, problems: FileProblems, line_of: Callable[[list[str]], dict[str, int]] | None = None) -> None:
    """Raise MalformedFileError if there are ``problems``.

    ``line_of`` finds the lines of JSON paths. Problems come in the order of their lines; each begins with
    ``source:line:``.
    """
    if not problems:
        return
    found = line_of([problem.path for problem in problems.kept if problem.path]) if line_of else {}
    lines = [problem.line or found.get(problem.path, 0) for problem in problems.kept]
    told = (
        f"{source}:{line}: {problem}" if line else f"{source}: {problem}"
        for line, problem in sorted(zip(lines, problems.kept, strict=True), key=itemgetter(0))
    )
    raise MalformedFileError(source, tuple(told), len(problems))
