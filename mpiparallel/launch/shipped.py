"""What comes with the package to be read and copied: the repository's pages, examples, launchers, tables, hostfiles."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mpiparallel.cluster.json_document import shown
from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.command_line.nearest import nearest
from mpiparallel.launch.job.terminal_text import terminal_width

_PACKAGE = Path(__file__).parents[1]
_IN_WHEEL = _PACKAGE / "shipped"
# In a checkout the repository's folders lie beside the package.
SHIPPED = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parent
_UNTOLD = "__pycache__"
_NARROWEST = 30


def entries(folder: Path) -> Iterator[Path]:
    """Yield what is to be read in ``folder``, by name."""
    yield from sorted(path for path in folder.iterdir() if path.name != _UNTOLD and not path.name.startswith("."))


def summary(path: Path) -> str:
    """Return what a page, a program or a folder with a page says it is, in a line; empty where it does not say."""
    if path.is_dir():
        page = path / "README.md"
        return summary(page) if page.is_file() else ""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".md":
        return _first(lines, "# ")
    if path.suffix == ".py":
        told = ast.get_docstring(ast.parse("\n".join(lines))) or ""
        return told.partition("\n")[0]
    # Below the line that names the shell.
    return _first(lines[1:] if lines[:1] and lines[0].startswith("#!") else lines[:1], "# ")


def named(name: str, known: Mapping[str, Path], noun: str, where: str) -> Path:
    """Return which of ``known`` is called ``name``.

    Raises ConfigurationError, which tells the nearest name, or by which command they are listed (``where``).
    """
    if name in known:
        return known[name]
    meant = nearest(name, known)
    raise ConfigurationError(
        f"there is no {noun} {shown(name)}; " + (f"did you mean {meant}?" if meant else f"{where} lists all")
    )


def listing(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return names and what each is as lines of two columns; on a terminal none is wider than that."""
    width = max(len(name) for name, _ in (head, *rows)) + 2
    room = max(terminal_width() - width, _NARROWEST)
    lines = []
    for name, about in (head, *rows):
        first, *more = textwrap.wrap(about, room, break_on_hyphens=False) or [""]
        lines += [f"{name:<{width}}{first}".rstrip(), *(f"{'':<{width}}{line}" for line in more)]
    return lines


def _first(lines: Iterable[str], mark: str) -> str:
    return next((line[len(mark) :].strip(" :") for line in lines if line.startswith(mark)), "")
