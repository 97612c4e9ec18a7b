"""The parser of each command: one line of usage, examples in its help, and the nearest name for a wrong one."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import IO, Any, NoReturn, TypeAlias, TypeVar

from mpiparallel.cluster.exit_codes import REFUSED
from mpiparallel.cluster.json_document import shown
from mpiparallel.launch.command_line.nearest import nearest
from mpiparallel.launch.job.terminal_text import Colour, painted, printable

Subparsers: TypeAlias = "argparse._SubParsersAction[Parser]"
_Namespace = TypeVar("_Namespace")

_WIDEST = 100
_NARROWEST = 40
_HELP_COLUMN = 28
_HEADING = re.compile(r"^(usage:|[a-z][^:\n]*:$)", re.MULTILINE)


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with ``examples``, whole command lines, and which says what a wrong word may mean.

    Options are never abbreviated: a script's line must not change its meaning when an option is added.
    """

    def __init__(self, *words: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*words, **{"formatter_class": HelpFormatter, "allow_abbrev": False, **settings})
        # Ours are the same with every Python; argparse has its own from 3.14 on.
        self.color = False
        self.examples = tuple(examples)
        self._commands: Subparsers | None = None
        self.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the traceback of an error of mpiparallel itself",
        )

    def add_commands(self, destination: str, metavar: str) -> Subparsers:
        """Return what the parsers of this command's subcommands are added to; one of them must be given."""
        self._commands = self.add_subparsers(
            dest=destination, metavar=metavar, title=f"{metavar.lower()}s", prog=self.prog, required=False
        )
        return self._commands

    @property
    def commands(self) -> dict[str, Parser]:
        """The parsers of its subcommands, by name."""
        return {} if self._commands is None else dict(self._commands.choices)

    @property
    def summaries(self) -> dict[str, str]:
        """What the list of its subcommands says of each."""
        listed = [] if self._commands is None else self._commands._get_subactions()
        return {action.dest: action.help or "" for action in listed}

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: _Namespace | None = None
    ) -> tuple[argparse.Namespace | _Namespace, list[str]]:
        """Parse ``args``; a word that this command does not know is an error of this command, not of the outermost."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown)
        if self._commands is not None and getattr(found, self._commands.dest) is None:
            self.print_help(sys.stderr)
            self._end(f"which {self._commands.metavar}? give one of those above")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Show the usage of this command and ``message``, and end with code 2."""
        self.print_usage(sys.stderr)
        self._end(message)

    def format_help(self) -> str:
        """Return the help, the examples last."""
        lines = [f"  {example}\n" for example in self.examples]
        return super().format_help() + ("".join(["\nexamples:\n", *lines]) if lines else "")

    def print_help(self, file: Any = None) -> None:
        """Print the help to ``file``, by default stdout; on a terminal its headings stand out."""
        self._show(self.format_help(), file or sys.stdout)

    def print_usage(self, file: Any = None) -> None:
        """Print the line of usage to ``file``, by default stdout."""
        self._show(self.format_usage(), file or sys.stdout)

    def _show(self, text: str, stream: IO[str]) -> None:
        stream.write(_HEADING.sub(lambda found: painted(found[0], Colour.BOLD, stream), text))

    def _end(self, message: str) -> NoReturn:
        self.exit(REFUSED, f"{self.prog}: {painted('error:', Colour.RED, sys.stderr)} {printable(message)}\n")

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        word = next((word for word in unknown if word.startswith("-")), unknown[0])
        name = word.partition("=")[0]
        if not word.startswith("-"):
            self.error(f"{shown(word)} is one word too many; {self.prog} --help shows what it takes")
        listed = [action for action in self._actions if action.help != argparse.SUPPRESS]
        options = [option for action in listed for option in action.option_strings]
        self.error(f"there is no option {shown(name)}; {self._meant(name, options)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        if action is self._commands:
            self.error(f"there is no command {shown(str(value))}; {self._meant(str(value), names)}")
        meant = nearest(str(value), names)
        guess = f"; did you mean {meant}?" if meant else ""
        raise argparse.ArgumentError(action, f"{shown(str(value))} is none of {', '.join(names)}{guess}")

    def _meant(self, word: str, names: Iterable[str]) -> str:
        meant = nearest(word, names)
        return f"did you mean {meant}?" if meant else f"{self.prog} --help lists all"


class HelpFormatter(argparse.HelpFormatter):
    """Help as wide as the terminal, within limits, whose usage leaves what may be left out to the list of options."""

    def __init__(self, prog: str, **settings: Any) -> None:
        width = max(_NARROWEST, min(shutil.get_terminal_size().columns - 2, _WIDEST))
        super().__init__(prog, **{"width": width, "max_help_position": _HELP_COLUMN, **settings})

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        """Add ``usage``, or a line of the command, "[options]" and what else it needs."""
        options = argparse.Action([], "options", metavar="[options]")
        others = [action for action in actions if action.required or not action.option_strings]
        super().add_usage(usage, [options, *others], [], prefix)

    def add_argument(self, action: argparse.Action) -> None:
        """Add ``action``; the names of subcommands are indented more than those of options are."""
        super().add_argument(action)
        if action.help is not argparse.SUPPRESS and isinstance(action, argparse._SubParsersAction):
            longest = max(map(len, action.choices))
            self._action_max_length = max(self._action_max_length, longest + 2 * self._indent_increment)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(
            textwrap.fill(paragraph, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
            for paragraph in paragraphs
        )
