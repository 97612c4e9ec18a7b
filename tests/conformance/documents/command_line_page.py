"""The page of docs that lists every command with its options: written from the parsers, the same with every Python."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from mpiparallel.launch.cli import command_line
from mpiparallel.launch.command_line.parser import Parser

PAGE = Path(__file__).parents[3] / "docs/lookup/command_line.md"
_HEAD = """# The command line

Every command of `mpiparallel`, as `--help` tells it. `make command-line` writes this page.

Every command takes `-h` (`--help`), and `--debug`, which shows the traceback of an error of mpiparallel itself. An
error is one message on stderr and exit code 2. `--json` prints one document on stdout, and nothing else there. Colours
and progress are for terminals only; `NO_COLOR` takes the colours away. What a TAB completes is up to
[`mpiparallel completion`](#mpiparallel-completion).
"""
_EVERYWHERE = ("help", "debug")


def page() -> str:
    """Return the text of the page."""
    return _HEAD + "".join(f"\n{line}\n" for line in _sections(command_line()))


def _sections(parser: Parser) -> Iterator[str]:
    """Yield the paragraphs of a command, then those of its subcommands."""
    yield f"{'#' * parser.prog.count(' ')}## {parser.prog}"
    yield _flowing(parser.description or "")
    yield f"```text\n{_usage(parser)}\n```"
    for group in parser._action_groups:
        items = [_item(action) for action in group._group_actions if _is_listed(action)]
        if items:
            yield ", ".join(filter(None, (group.title, group.description))) + ":"
            yield "\n".join(items)
    if parser.commands:
        yield "\n".join(
            f"- [`{name}`](#{inner.prog.replace(' ', '-')}): {parser.summaries[name]}"
            for name, inner in parser.commands.items()
        )
    if parser.epilog:
        yield _flowing(parser.epilog)
    yield "```text\n" + "\n".join(parser.examples) + "\n```"
    for inner in parser.commands.values():
        yield from _sections(inner)


def _usage(parser: Parser) -> str:
    if parser.usage:
        return parser.usage
    needed = [action for action in parser._actions if action.required or not action.option_strings]
    words = [" ".join([*action.option_strings[-1:], _values(action)]) for action in needed]
    return " ".join([parser.prog, "[options]", *words])


def _is_listed(action: argparse.Action) -> bool:
    return action.dest not in _EVERYWHERE and not isinstance(action, argparse._SubParsersAction)


def _item(action: argparse.Action) -> str:
    values = _values(action)
    names = [f"`{name} {values}`".replace(" `", "`") for name in action.option_strings] or [f"`{values}`"]
    about = (action.help or "") % {**vars(action), "prog": "mpiparallel"}
    return f"- {', '.join(names)}" + (f": {_plain(about)}" if about else "")


def _values(action: argparse.Action) -> str:
    """Return what stands for the values of an argument."""
    if action.nargs == 0:
        return ""
    if isinstance(action, argparse._SubParsersAction):
        return f"{action.metavar} ..."
    name = str(action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest))
    return {"?": f"[{name}]", "+": f"{name} ...", argparse.REMAINDER: f"{name.removesuffix(' ...')} ..."}.get(
        str(action.nargs), name
    )


def _flowing(text: str) -> str:
    return "\n\n".join(_plain(" ".join(paragraph.split())) for paragraph in text.strip().split("\n\n"))


def _plain(text: str) -> str:
    """Return ``text`` with what Markdown would take for its own signs escaped, code apart."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<*])", r"\\\1", part) for part in parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
