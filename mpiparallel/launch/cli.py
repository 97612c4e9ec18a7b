"""The command ``mpiparallel``: one subcommand a module."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from mpiparallel.cluster.exit_codes import FAILED, REFUSED, SIGNALLED
from mpiparallel.cluster.json_document import shown
from mpiparallel.errors import MpiParallelError
from mpiparallel.launch.command_line.parser import Parser
from mpiparallel.launch.command_line.unusable_path import unusable
from mpiparallel.launch.job.console import Console, discard, flush_or_discard
from mpiparallel.launch.job.standard_output import StandardOutput
from mpiparallel.launch.version import VERSION

if TYPE_CHECKING:
    import argparse

    from mpiparallel.launch.command_line.parser import Subparsers


class CommandModule(Protocol):
    """A module that is one subcommand: its arguments, and what it does with them."""

    def add_parser(self, subparsers: Subparsers) -> None:
        """Add the parser of the subcommand to ``subparsers``."""

    def execute(self, arguments: argparse.Namespace) -> int:
        """Do what the parsed ``arguments`` ask for; return the exit code."""


_EXAMPLES = ("mpiparallel doctor", "mpiparallel demo", "mpiparallel run -n 4 train.py --epochs 3")
COMMANDS: Final = {
    "run": "run",
    "demo": "demo.command",
    "plan": "plan.command",
    "calibrate": "calibrate",
    "simulate": "simulate.command",
    "ckpt": "ckpt.command",
    "ranktable": "ranktable.command",
    "slurm": "slurm.command",
    "doctor": "doctor.command",
    "postmortem": "postmortem",
    "show": "show.command",
    "examples": "examples",
    "docs": "docs",
    "completion": "completion",
}
"""The names of the subcommands, in the order of the help, and their modules."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the subcommand that ``argv`` (default: the process's arguments) names; return the exit code.

    What mpiparallel refuses ends with code 2 and one message on stderr, and with its traceback after ``--debug``.
    Ctrl-C ends with code 130, a reader that goes with 141, and output that cannot be written with 1.
    """
    output = StandardOutput.taken()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path need not be UTF-8: its bytes leave as they came.
        sys.stdout.reconfigure(errors="surrogateescape")
    try:
        try:
            return _executed(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except OSError:
        if output.error is None:
            raise
        return _unprinted(output.error)
    finally:
        flush_or_discard(sys.stderr)


def _unprinted(error: OSError) -> int:
    discard(sys.stdout)
    if isinstance(error, BrokenPipeError):
        # Who read the output has seen enough, as head has.
        return SIGNALLED + signal.SIGPIPE
    Console().say(f"error: stdout: {error.strerror}; what this prints is not all there")
    return FAILED


def _executed(words: Sequence[str]) -> int:
    arguments = _parsed(words)
    try:
        return _module(arguments.command).execute(arguments)
    except MpiParallelError as error:
        if arguments.debug:
            raise
        Console().say(f"error: {error}")
        return REFUSED
    except OSError as error:
        if arguments.debug or error.filename is None:
            raise
        Console().say(f"error: {unusable(error, arguments)}")
        return REFUSED
    except KeyboardInterrupt:
        if arguments.debug:
            raise
        return SIGNALLED + signal.SIGINT


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    # The modules of all commands take several times as long to load as that of one.
    named = next((word for word in words if word != "--debug"), "")
    parser = command_line((named,) if named in COMMANDS else COMMANDS)
    for word in words:
        if "\0" in word:
            parser.error(f"{shown(word)} has a NUL, which no argument and no path can have")
    return parser.parse_args(words)


def command_line(names: Iterable[str] = COMMANDS) -> Parser:
    """Return the parser of ``mpiparallel``, with those of the subcommands ``names``."""
    parser = Parser(
        prog="mpiparallel",
        description="Train one network on many MPI ranks.",
        epilog="mpiparallel COMMAND --help tells more of each.",
        examples=_EXAMPLES,
    )
    parser.set_defaults(debug=False, make_whole_parser=command_line)
    parser.add_argument("--version", action="version", version=f"mpiparallel {VERSION}", help="print the version")
    commands = parser.add_commands("command", "COMMAND")
    for name in names:
        _module(name).add_parser(commands)
    return parser


def _module(name: str) -> CommandModule:
    return cast("CommandModule", import_module(f"mpiparallel.launch.{COMMANDS[name]}"))
