"""``mpiparallel plan``: what moving a state to another strategy or number of ranks would take; it starts nothing."""

from __future__ import annotations

import argparse
import math
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.command_line.argument_types import count, file_path, path_text
from mpiparallel.launch.command_line.progress import progress_bar
from mpiparallel.launch.job.console import discard
from mpiparallel.launch.plan.picture import draw
from mpiparallel.launch.plan.report import report

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "plan"
_DESCRIPTION = """
Say what a reshard from SRC to DST would take: bytes and messages of each rank, what stays, and what moves within and
between hosts. It also says the peak memory, a guess of the time, and who sends to whom. It needs no MPI and no devices,
and starts nothing.
"""
_EPILOG = """
A strategy file (strategy_ckpt_save_file) is protobuf, or JSON where its name ends in .json. Protobuf does not say the
shapes of parameters, so one of SRC, DST and --shapes has to be JSON or a checkpoint folder. The same strategy on
another number of ranks keeps the cuts of every tensor. Its outermost axis of replicas or of optimizer shards gets as
many devices as it takes. So the number of ranks must be a multiple of what the other axes have. The seconds are a
guess: the busiest host copies each byte twice, at the rate of this machine's memory, which is measured at the time.
What passes between hosts goes at --bandwidth.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel plan``."""
    parser = subparsers.add_parser(
        NAME,
        help="say what a reshard would move, without starting anything",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "mpiparallel plan saved 4",
            "mpiparallel plan src_strategy.json dst_strategy.json --moments 2",
            "mpiparallel plan saved -n 16 --ranks-per-host 8 --bandwidth 25 --json",
        ),
    )
    parser.add_argument("source", metavar="SRC", type=path_text, help="strategy file or checkpoint folder")
    parser.add_argument("target", metavar="DST", type=path_text, nargs="?", help="the same, or a number of ranks")
    parser.add_argument("-n", "--ranks", type=count, metavar="N", help="instead of DST: the same strategy on N ranks")
    state = parser.add_argument_group("state")
    state.add_argument(
        "--shapes", metavar="FILE", type=path_text, help=".json strategy file or checkpoint that knows the shapes"
    )
    state.add_argument(
        "--dtype",
        choices=["float16", "bfloat16", "float32", "float64"],
        default="float32",
        help="of tensors in strategy files (default: %(default)s); checkpoints know theirs",
    )
    state.add_argument(
        "--moments",
        type=_count_from_zero,
        default=0,
        metavar="N",
        help="states of the optimizer besides each tensor, cut as it is: 2 for Adam (default: %(default)s)",
    )
    machine = parser.add_argument_group("machine")
    machine.add_argument("--ranks-per-host", type=count, default=8, metavar="N", help="default: %(default)s")
    machine.add_argument(
        "--bandwidth",
        type=_positive,
        metavar="GB/s",
        help="of one host to the others, each way (default: 12.5, that of 100 Gbit/s)",
    )
    machine.add_argument("--scratch", type=count, default=64, metavar="MiB", help="a rank; default: %(default)s")
    machine.add_argument(
        "--wave",
        type=count,
        default=64,
        metavar="MiB",
        help="of tensors at a time, in bounded mode; default: %(default)s",
    )
    parser.add_argument(
        "--relabel",
        action="store_true",
        help="choose which rank takes which place of the target, so that most bytes stay (needs SciPy)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON, sizes in bytes, instead of text")
    output.add_argument("--picture", type=file_path, metavar="FILE", help="draw who sends to whom: .png or .svg")


def execute(arguments: argparse.Namespace) -> int:
    """Print the plan that ``arguments`` describe; return 0."""
    _check(arguments)
    # Loads NumPy, which the other subcommands do without.
    from mpiparallel.launch.plan.job import make_forecast

    with progress_bar("working out who sends what to whom"):
        forecast = make_forecast(arguments)
    if arguments.picture is not None:
        draw(forecast, arguments.picture)
    told = forecast.as_json() if arguments.json else report(forecast, sys.stdout.encoding, arguments.picture)
    try:
        print(told, flush=True)
    except BrokenPipeError:
        # The reader, like head, has seen enough; nothing may be flushed to it at exit either.
        discard(sys.stdout)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be before anything is read."""
    for name, path in (("SRC", arguments.source), ("--shapes", arguments.shapes)):
        if path is not None and not Path(path).exists():
            missing = f"{name} {path}: cannot be read (No such file or directory)"
            raise ConfigurationError(f"{missing}; give a strategy file or a folder of checkpoints")
    if (arguments.target is None) == (arguments.ranks is None):
        raise ConfigurationError("plan: give either DST or --ranks N, as in `mpiparallel plan src.json dst.json`")
    picture: Path | None = arguments.picture
    if picture is None:
        return
    if picture.suffix not in (".png", ".svg"):
        raise ConfigurationError(f"--picture {picture}: give a name that ends in .png or .svg")
    if find_spec("matplotlib") is None:
        raise ConfigurationError(f"--picture {picture}: matplotlib is not installed; pip install mpiparallel[plot]")
    if not picture.absolute().parent.is_dir():
        raise ConfigurationError(f"--picture {picture}: there is no folder {picture.parent}; give one that exists")


def _count_from_zero(text: str) -> int:
    return 0 if text == "0" else count(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (0 < value < math.inf):
        raise argparse.ArgumentTypeError(f'"{text}" is not a bandwidth; give GB/s, like 12.5')
    return value
