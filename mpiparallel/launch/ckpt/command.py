"""``mpiparallel ckpt``: the parser of its subcommands, each of which is a module of ``subcommands``."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from mpiparallel.launch.ckpt import arguments as takes

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "ckpt"
_DESCRIPTION = """
Look at checkpoints, mend them and convert them, without MPI and without a GPU. A checkpoint is named by its folder (the
newest in it), by folder/name as in saved/resnet-1_77, or by the file of its manifest. show, cat, diff, merge and export
also take one file of arrays: .h5, .ckpt, .safetensors or .npz; show takes strategy and group files, too.
"""
_EPILOG = """
Exit codes: 0 all is well; 1 verify found damage, diff found differences, or recover left some; 2 refused or
failed, and what was there is as it was.
"""


class Subcommand(NamedTuple):
    """A subcommand: its module under ``subcommands``, what help says of it, what adds its arguments, and examples."""

    module: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    examples: Sequence[str]


SUBCOMMANDS: Final = {
    "ls": Subcommand("ls", "list the checkpoints of a folder", takes.ls, ("saved",)),
    "show": Subcommand(
        "show",
        "show the tensors, how they are cut and who holds what",
        takes.show,
        ("saved", "saved/resnet-1_77 --only 'moments.*' --svg held.svg", "weights.safetensors", "src_strategy.ckpt"),
    ),
    "verify": Subcommand("verify", "read every byte and say what is damaged or lost", takes.verify, ("saved",)),
    "diff": Subcommand(
        "diff",
        "compare two states tensor by tensor, however they are cut",
        takes.diff,
        ("saved/resnet-1_76 saved/resnet-1_77", "saved whole.safetensors --json"),
    ),
    "cat": Subcommand(
        "cat",
        "print the values of a tensor, or write them to a .npy file",
        takes.cat,
        ("saved head.weight", "saved head.weight --box 0:2,3:5", "saved head.weight -o weight.npy"),
    ),
    "transform": Subcommand(
        "transform",
        "write a checkpoint anew for other ranks or another strategy",
        takes.transform,
        ("saved for_4 --ranks 4", "saved for_inference --strategy dst_strategy.json"),
    ),
    "merge": Subcommand("export", "write the whole tensors to one HDF5 file", takes.merge, ("saved whole.h5",)),
    "export": Subcommand(
        "export",
        "write the whole tensors to one file of any format",
        takes.export,
        ("saved whole.safetensors", "saved whole.ckpt --only 'net.*'"),
    ),
    "recover": Subcommand("recover", "rebuild lost and damaged shards from replicas", takes.recover, ("saved",)),
    "prune": Subcommand(
        "prune",
        "delete old checkpoints, and what killed saves have left",
        takes.prune,
        ("saved --keep 3 --dry-run", "saved --leftovers"),
    ),
}


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel ckpt``."""
    parser = subparsers.add_parser(
        NAME,
        help="look at checkpoints, mend them and convert them",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        examples=("mpiparallel ckpt ls saved", "mpiparallel ckpt show saved", "mpiparallel ckpt verify saved"),
    )
    inner = parser.add_commands("subcommand", "SUBCOMMAND")
    for name, subcommand in SUBCOMMANDS.items():
        taker = inner.add_parser(
            name,
            help=subcommand.help,
            description=f"{subcommand.help[0].upper()}{subcommand.help[1:]}.",
            examples=[f"mpiparallel ckpt {name} {example}" for example in subcommand.examples],
        )
        subcommand.add_arguments(taker)
        taker.add_argument("--json", action="store_true", help="print JSON, sizes in bytes, instead of text")


def execute(arguments: argparse.Namespace) -> int:
    """Do what ``arguments`` ask for; return 0, or 1 where damage or differences were found."""
    module = SUBCOMMANDS[arguments.subcommand].module
    code: int = importlib.import_module(f"mpiparallel.launch.ckpt.subcommands.{module}").execute(arguments)
    return code
