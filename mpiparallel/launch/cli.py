"""The command ``mpiparallel``: one subcommand a module."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mpiparallel.cluster.exit_codes import REFUSED, SIGNALLED
from mpiparallel.errors import MpiParallelError
from mpiparallel.launch import postmortem, run
from mpiparallel.launch.ckpt import command as ckpt
from mpiparallel.launch.demo import command as demo
from mpiparallel.launch.doctor import command as doctor
from mpiparallel.launch.plan import command as plan
from mpiparallel.launch.ranktable import command as ranktable
from mpiparallel.launch.slurm import command as slurm
from mpiparallel.version import VERSION

if TYPE_CHECKING:
    from mpiparallel.launch.subparsers import Subparsers


class Command(Protocol):
    """A module that is one subcommand: its name, its arguments, and what it does with them."""

    NAME: str

    def add_parser(self, subparsers: Subparsers) -> None:
        """Add the parser of the subcommand ``NAME`` to ``subparsers``."""

    def execute(self, arguments: argparse.Namespace) -> int:
        """Do what the parsed ``arguments`` ask for; return the exit code."""


COMMANDS: tuple[Command, ...] = (run, demo, plan, ckpt, ranktable, slurm, doctor, postmortem)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the subcommand that ``argv`` (default: the process's arguments) names; return the exit code.

    What mpiparallel refuses ends with code 2 and one message on stderr, and with its traceback after ``--debug``.
    Ctrl-C ends with code 130.
    """
    arguments = _parser().parse_args(argv)
    commands = {command.NAME: command for command in COMMANDS}
    try:
        code = commands[arguments.command].execute(arguments)
        sys.stdout.flush()
        return code
    except MpiParallelError as error:
        if arguments.debug:
            raise
        print(f"mpiparallel: error: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        if arguments.debug:
            raise
        return SIGNALLED + signal.SIGINT
    except BrokenPipeError:
        # Who read the output has gone, as head does; Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SIGNALLED + signal.SIGPIPE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mpiparallel", description="Train one network on many MPI ranks.")
    parser.add_argument("--version", action="version", version=f"mpiparallel {VERSION}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error of mpiparallel itself")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser
