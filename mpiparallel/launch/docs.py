"""``mpiparallel docs``: the pages of the documentation, in the terminal."""

from __future__ import annotations

import argparse
import os
import pydoc
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mpiparallel.launch.ckpt.output import answer
from mpiparallel.launch.job.terminal_text import has_colours
from mpiparallel.launch.shipped import SHIPPED, listing, named, summary

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "docs"
_FOLDER = SHIPPED / "docs"
_DESCRIPTION = """
Print a page of the documentation, or without PAGE which pages there are. They come with the package and are those of
its version. On a terminal they are laid out (by rich, where that is installed) and shown by your pager.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel docs``."""
    parser = subparsers.add_parser(
        NAME,
        help="read the documentation",
        description=_DESCRIPTION,
        examples=("mpiparallel docs", "mpiparallel docs launching", "mpiparallel docs checkpoints > checkpoints.md"),
    )
    parser.add_argument("page", metavar="PAGE", nargs="?", help="what `mpiparallel docs` lists")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def execute(arguments: argparse.Namespace) -> int:
    """Print the page that ``arguments`` name, or the list of all; return 0."""
    pages = {path.stem: path for path in sorted(_FOLDER.rglob("*.md"))}
    if arguments.page is None:
        told = [{"page": name, "title": summary(path)} for name, path in pages.items()]
        answer(told, listing(("page", "about"), [(row["page"], row["title"]) for row in told]), arguments.json)
        return 0
    path = named(arguments.page, pages, "page", "mpiparallel docs")
    text = path.read_text(encoding="utf-8")
    if arguments.json:
        answer({"page": arguments.page, "title": summary(path), "text": text}, [], True)
    elif sys.stdout.isatty():
        # As git does: less shows colours, and a page of one screen at once.
        less = os.environ.setdefault("LESS", "FRX")
        pydoc.pager(_laid_out(text, has_colours(sys.stdout) and "R" in less))
    else:
        answer(None, text.splitlines(), False)
    return 0


def _laid_out(text: str, in_colours: bool) -> str:
    if find_spec("rich") is None:
        return text
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(force_terminal=in_colours)
    with console.capture() as captured:
        console.print(Markdown(text))
    return captured.get()
