"""``mpiparallel simulate``: what a training would take on any number of ranks, worked out by one process."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.command_line.argument_types import rank_count
from mpiparallel.launch.command_line.progress import progress_bar
from mpiparallel.launch.job.terminal_text import fitted, printable, terminal_width
from mpiparallel.launch.simulate.arguments import add_simulation, columns_of, machine_of, script_of

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers
    from mpiparallel.launch.job.script import Script

NAME = "simulate"
_MOST = 1024
_DESCRIPTION = """
Run a script up to the first step of its training, as one process without MPI or devices. Then say what that step would
take on any number of ranks: strategies, memory of a rank, communication, time and what bounds it. No file is written,
parameters get no values, and CIFAR-10 and MNIST need not be there.
"""
_EPILOG = """
Times are those of the cost model, for the machine that mpiparallel calibrate has measured here or --cluster describes.
Memory is that of the plan by which a rank would run.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel simulate``."""
    parser = subparsers.add_parser(
        NAME,
        help="forecast what a training would take on any number of ranks",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "mpiparallel simulate train.py --ranks 4096 --cluster 64_hosts_8.json",
            "mpiparallel simulate train.py -n 64 --input tokens=256,1024:int32",
            "mpiparallel simulate train.py -n 8 --compare batch batch+optimizer",
            "mpiparallel simulate train.py --find --most 256 --arguments --layers 96",
        ),
    )
    add_simulation(parser)
    parser.add_argument("-n", "--ranks", type=rank_count, metavar="N", help="how many ranks")
    parser.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="STRATEGY",
        help="other ways to cut the network, side by side: batch, a search as recursive_programming, a schedule of "
        "pipeline stages as 1f1b, or a strategy file; with +optimizer behind it weights and states are cut too",
    )
    parser.add_argument(
        "--find", action="store_true", help="instead of --ranks: the cheapest power of two that fits into memory"
    )
    parser.add_argument(
        "--most", type=rank_count, metavar="N", help=f"ranks that --find tries at most (default: {_MOST})"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, sizes in bytes and times in seconds")


def execute(arguments: argparse.Namespace) -> int:
    """Print what ``arguments`` ask for; return 0."""
    _check(arguments)
    script, machine = script_of(arguments), machine_of(arguments)
    if arguments.find:
        return _find(arguments, script)
    # What follows loads NumPy, which other commands do without.
    from mpiparallel.launch.simulate.comparison import compared, comparison_text
    from mpiparallel.launch.simulate.job import forecast_of, simulated
    from mpiparallel.launch.simulate.json_output import document
    from mpiparallel.launch.simulate.report import report

    with progress_bar("compiling for one rank of each stage"):
        network = simulated(script, arguments.ranks, machine, columns_of(arguments), arguments.cluster)
    if arguments.compare:
        with progress_bar("comparing"):
            rows = compared(network, arguments.compare, machine)
        told = (
            json.dumps({row.name: document(row.forecast) for row in rows}) if arguments.json else comparison_text(rows)
        )
    else:
        with progress_bar("pricing"):
            forecast = forecast_of(network, machine)
        told = json.dumps(document(forecast)) if arguments.json else report(forecast, Path(script.name).name)
    print(printable(told) if arguments.json else fitted(printable(told), terminal_width()))
    return 0


def _find(arguments: argparse.Namespace, script: Script) -> int:
    from mpiparallel.launch.simulate.rank_count_search import cheapest, find, finding_text

    words = ["-m"] if script.is_module else []
    words += [f"--cluster={arguments.cluster}"] if arguments.cluster else []
    for column in columns_of(arguments):
        words.append(f"--input={column.name}={','.join(map(str, column.shape))}:{column.dtype}")
    with progress_bar("trying numbers of ranks"):
        tried = find([*words, script.name, "--arguments", *script.arguments], 1, arguments.most or _MOST)
    best = cheapest(tried)
    if arguments.json:
        print(json.dumps({"cheapest": best.ranks, "tried": {one.ranks: one.found or one.problem for one in tried}}))
    else:
        print(fitted(printable(finding_text(tried, best)), terminal_width()))
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be before anything is run."""
    if (arguments.ranks is None) != arguments.find:
        raise ConfigurationError("simulate: give either --ranks N or --find")
    if arguments.find and arguments.compare:
        raise ConfigurationError("--compare: goes with --ranks; --find has the script's strategies")
    if arguments.most is not None and not arguments.find:
        raise ConfigurationError("--most: goes with --find")
