"""``mpiparallel completion``: the script by which a shell completes command lines."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mpiparallel.launch.command_line.argument_types import file_path, path_text
from mpiparallel.launch.command_line.parser import Parser, Subparsers

NAME = "completion"
_SHELLS = ("bash", "zsh", "fish")
_DESCRIPTION = """
Print the script by which bash, zsh or fish completes the commands, options and files of mpiparallel at a TAB.
"""
_EPILOG = """
bash looks for it in ~/.local/share/bash-completion/completions/mpiparallel, zsh in a file _mpiparallel in a folder of
its $fpath, fish in ~/.config/fish/completions/mpiparallel.fish; the next shell that is started has it. To try it in
this bash: source <(mpiparallel completion bash)
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel completion``."""
    parser = subparsers.add_parser(
        NAME,
        help="let TAB complete these commands in your shell",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "mpiparallel completion bash",
            "mpiparallel completion zsh > ~/.zfunc/_mpiparallel",
            "mpiparallel completion fish > ~/.config/fish/completions/mpiparallel.fish",
        ),
    )
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=f"{', '.join(_SHELLS[:-1])} or {_SHELLS[-1]}")


def execute(arguments: argparse.Namespace) -> int:
    """Print the script of the shell that ``arguments`` name, for the whole command line they are of; return 0."""
    import shtab

    parser: Parser = arguments.make_whole_parser()
    for inner in _every_command(parser):
        _describe(inner)
    print(shtab.complete(parser, arguments.shell))
    return 0


def _every_command(parser: Parser) -> Iterator[Parser]:
    yield parser
    for inner in parser.commands.values():
        yield from _every_command(inner)


def _describe(parser: Parser) -> None:
    """Tell shtab where files are to be completed, and which words of a command are short enough for a list."""
    import shtab

    for name, inner in parser.commands.items():
        inner.description = parser.summaries[name]
    for action in parser._actions:
        if action.type in (file_path, path_text) or action.dest == "script":
            places = shtab.DIRECTORY if str(action.metavar).endswith("DIR") else shtab.FILE
            action.complete = places  # type: ignore[attr-defined]
