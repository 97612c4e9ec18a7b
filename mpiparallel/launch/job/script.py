"""The program that each rank runs: a script file or a module, with its arguments."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError


@dataclass(frozen=True)
class Script:
    """What follows ``python`` on a command line: ``train.py --epochs 2`` or ``-m package.train --epochs 2``."""

    name: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Let ``parser`` take a script or ``-m module``; all that follows it is the script's own."""
        parser.add_argument(
            "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module instead"
        )
        parser.add_argument(
            "script", nargs=argparse.REMAINDER, metavar="script.py ...", help="the script, its arguments"
        )

    @classmethod
    def parsed(cls, arguments: argparse.Namespace) -> Script:
        """Return the script of parsed ``arguments``; raise `LaunchError` if they name none."""
        words = arguments.module or arguments.script
        if words and words[0] == "--":
            words = words[1:]
        if not words:
            raise LaunchError("no script to run; give a script.py, or -m and a module, after the options")
        return cls(words[0], tuple(words[1:]), is_module=bool(arguments.module))

    @property
    def argv(self) -> tuple[str, ...]:
        """The words that make Python, or `add_arguments`, run this script."""
        return (*(("-m",) if self.is_module else ()), self.name, *self.arguments)

    def check(self) -> None:
        """Raise `LaunchError` if the script's file is not there."""
        if not self.is_module and not Path(self.name).is_file():
            raise LaunchError(f'script "{self.name}" is not a file in {Path.cwd()}; check its path')

    def run(self) -> None:
        """Run it as ``__main__`` with the ``sys.argv`` and ``sys.path[0]`` it would have under ``python``."""
        sys.argv[:] = [self.name, *self.arguments]
        if self.is_module:
            sys.path[0] = str(Path.cwd())
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(self.name).resolve().parent)
            runpy.run_path(self.name, run_name="__main__")
