"""``mpiparallel ckpt``: the parser of its subcommands, each of which is a module of ``subcommands``."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mpiparallel.launch.ckpt import arguments as takes

if TYPE_CHECKING:
    from mpiparallel.launch.subparsers import Subparsers

NAME = "ckpt"
_DESCRIPTION = """
Look at checkpoints, mend them and convert them, without MPI and without a GPU. A checkpoint is named by its folder (the
newest in it), by folder/name as in saved/resnet-1_77, or by the file of its manifest. show, cat, diff, merge and export
also take one file of arrays: .h5, .ckpt, .safetensors or .npz.
"""
_EPILOG = """
Exit codes: 0 all is well; 1 verify found damage, diff found differences, or recover left some; 2 refused or
failed, and what was there is as it was.
"""


class Subcommand(NamedTuple):
    """A subcommand: its module under ``subcommands``, what help says of it, and what adds its arguments."""

    module: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]


SUBCOMMANDS: Final = {
    "ls": Subcommand("ls", "list the checkpoints of a folder", takes.ls),
    "show": Subcommand("show", "show the tensors, how they are cut and who holds what", takes.show),
    "verify": Subcommand("verify", "read every byte and say what is damaged or lost", takes.verify),
    "diff": Subcommand("diff", "compare two states tensor by tensor, however they are cut", takes.diff),
    "cat": Subcommand("cat", "print the values of a tensor, or write them to a .npy file", takes.cat),
    "transform": Subcommand(
        "transform", "write a checkpoint anew for other ranks or another strategy", takes.transform
    ),
    "merge": Subcommand("export", "write the whole tensors to one HDF5 file", takes.merge),
    "export": Subcommand("export", "write the whole tensors to one file of any format", takes.export),
    "recover": Subcommand("recover", "rebuild lost and damaged shards from replicas", takes.recover),
    "prune": Subcommand("prune", "delete old checkpoints, and what killed saves have left", takes.prune),
}


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel ckpt``."""
    parser = subparsers.add_parser(
        NAME,
        help="look at checkpoints, mend them and convert them",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    inner = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
    for name, subcommand in SUBCOMMANDS.items():
        words: dict[str, Any] = {"help": subcommand.help, "description": f"{subcommand.help.capitalize()}."}
        taker = inner.add_parser(name, **words, allow_abbrev=False)
        subcommand.add_arguments(taker)
        taker.add_argument("--json", action="store_true", help="print JSON, sizes in bytes, instead of text")


def execute(arguments: argparse.Namespace) -> int:
    """Do what ``arguments`` ask for; return 0, or 1 where damage or differences were found."""
    module = SUBCOMMANDS[arguments.subcommand].module
    code: int = importlib.import_module(f"mpiparallel.launch.ckpt.subcommands.{module}").execute(arguments)
    return code
