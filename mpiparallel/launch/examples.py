"""``mpiparallel examples``: programs to begin with, launchers, rank tables and hostfiles, to be read and copied."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.ckpt.output import answer
from mpiparallel.launch.command_line.argument_types import file_path
from mpiparallel.launch.shipped import SHIPPED, entries, listing, named, summary
from mpiparallel.search.machine.cluster_file import load_machine

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "examples"
_PROGRAMS = "examples"
_OTHERS = {
    "launchers": "all scripts that start a job",
    "rank_tables": "all rank tables",
    "hostfiles": "all hostfiles, in each dialect",
    "clusters": "all machines that strategies can be searched for",
}
_TOLD = {
    "rank_tables": lambda path: RankTable.load(path).summary,
    "clusters": lambda path: load_machine(path).summary,
}
_PAGE = "README.md"
_UNTOLD = "__pycache__"
_LIST = "mpiparallel examples list"
_DESCRIPTION = """
Read and copy what comes with the package to begin with: programs, scripts that launch them, rank tables, hostfiles,
clusters.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel examples``."""
    parser = subparsers.add_parser(
        NAME,
        help="programs, launchers, tables and hostfiles to begin with",
        description=_DESCRIPTION,
        examples=(_LIST, "mpiparallel examples copy translation"),
    )
    inner = parser.add_commands("subcommand", "SUBCOMMAND")
    listing = inner.add_parser("list", help="list all", description="List all.", examples=(_LIST,))
    showing = inner.add_parser(
        "show",
        help="print one",
        description="Print a file, or the page of a folder and the names of its files.",
        examples=("mpiparallel examples show arrays", "mpiparallel examples show launchers/run.sh"),
    )
    copying = inner.add_parser(
        "copy",
        help="copy one to where you can change it",
        description="Copy a file or a folder. What is there already is never written over.",
        examples=("mpiparallel examples copy translation", "mpiparallel examples copy rank_tables tables"),
    )
    for taker in (showing, copying):
        taker.add_argument("name", metavar="NAME", help=f"what `{_LIST}` lists")
    copying.add_argument(
        "target", metavar="TARGET", type=file_path, nargs="?", help="name of the copy (default: the same, here)"
    )
    for taker in (listing, showing, copying):
        taker.add_argument("--json", action="store_true", help="print JSON instead of text")


def execute(arguments: argparse.Namespace) -> int:
    """Do what ``arguments`` ask for; return 0."""
    known = dict(_known())
    if arguments.subcommand == "list":
        told = [{"name": name, "about": _about(name, path)} for name, path in known.items()]
        answer(told, listing(("name", "about"), [(row["name"], row["about"]) for row in told]), arguments.json)
        return 0
    source = named(arguments.name, known, "example", _LIST)
    if arguments.subcommand == "show":
        _show(arguments, source)
    else:
        _copy(arguments, source)
    return 0


def _known() -> Iterator[tuple[str, Path]]:
    """Yield each name and its path: programs by their own names, what else there is by folder and name."""
    for path in entries(SHIPPED / _PROGRAMS):
        if path.name != _PAGE:
            yield path.name, path
    for folder in _OTHERS:
        yield folder, SHIPPED / folder
        for path in entries(SHIPPED / folder):
            if path.name != _PAGE:
                yield f"{folder}/{path.name}", path


def _about(name: str, path: Path) -> str:
    return _OTHERS.get(name) or _TOLD.get(name.partition("/")[0], summary)(path)


def _show(arguments: argparse.Namespace, source: Path) -> None:
    page = source / _PAGE if source.is_dir() else source
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    inside = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    files = sorted(str(path) for path in inside if _UNTOLD not in path.parts)
    told = {"name": arguments.name, "text": text, "files": files}
    lines = [*text.splitlines(), *(["", f"files: {', '.join(files)}"] if files else [])]
    answer(told, lines, arguments.json)


def _copy(arguments: argparse.Namespace, source: Path) -> None:
    target: Path = arguments.target or Path(source.name)
    if target.exists() or target.is_symlink():
        raise ConfigurationError(f"{target}: is there already; give another TARGET, which is to be made")
    if not target.absolute().parent.is_dir():
        raise ConfigurationError(f"{target}: there is no folder {target.parent}; give one that exists")
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(_UNTOLD))
    else:
        shutil.copy(source, target)
    answer({"name": arguments.name, "copy": str(target)}, [f"copied to {target}"], arguments.json)
