"""``mpiparallel show``: the network of a program with its cuts, or a schedule of pipeline stages; nothing is run."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.command_line.argument_types import file_path, rank_count
from mpiparallel.launch.command_line.output_file import write_output
from mpiparallel.launch.command_line.progress import progress_bar
from mpiparallel.launch.job.terminal_text import fitted, printable, terminal_width
from mpiparallel.launch.show.pipeline import add_arguments, show_pipeline
from mpiparallel.launch.simulate.arguments import add_simulation, columns_of, machine_of, script_of

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "show"
_PAGE_SECONDS = 10.0
_WHY_SECONDS = 60.0
_DESCRIPTION = """
Show the network of a script as it would be cut over ranks, in the terminal or as an HTML page. It has the cells, the
strategy of each operator, and who holds what of each parameter. The communication that the planner puts in has its
bytes and seconds. Or check a schedule of pipeline stages, and draw its time lines. No training is run.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel show``."""
    parser = subparsers.add_parser(
        NAME,
        help="show how a network is cut, what moves and why; or draw a schedule of pipeline stages",
        description=_DESCRIPTION,
        examples=(
            "mpiparallel show train.py -n 8",
            "mpiparallel show train.py -n 64 --html network.html",
            "mpiparallel show train.py -n 8 --why attention/projection/MatMul",
            "mpiparallel show train.py -n 8 --parameter '*.dense.weight'",
            "mpiparallel show --pipeline 1f1b",
            "mpiparallel show --pipeline all --stages 4 --micro-batches 16",
        ),
    )
    network = parser.add_argument_group("a network")
    add_simulation(network, required=False)
    network.add_argument("-n", "--ranks", type=rank_count, metavar="N", help="how many ranks")
    network.add_argument("--html", type=file_path, metavar="FILE", help="write a page to look at instead")
    network.add_argument(
        "--why",
        action="append",
        default=[],
        metavar="OPERATOR",
        help="say what decided on its cut and what others would cost; a name, its end, or a pattern as '*/MatMul'",
    )
    network.add_argument(
        "--parameter", action="append", default=[], metavar="NAME", help="say who holds what of it; likewise"
    )
    add_arguments(parser.add_argument_group("a schedule"))
    parser.add_argument("--json", action="store_true", help="print JSON, sizes in bytes and times in seconds")


def execute(arguments: argparse.Namespace) -> int:
    """Show what ``arguments`` name; return 0."""
    if (arguments.script is None) == (arguments.pipeline is None):
        raise ConfigurationError("show: give either a script, as in `mpiparallel show train.py -n 8`, or --pipeline")
    if arguments.pipeline is not None:
        show_pipeline(arguments)
        return 0
    if arguments.ranks is None:
        raise ConfigurationError("show: for how many ranks? give -n N")
    _show_network(arguments)
    return 0


def _show_network(arguments: argparse.Namespace) -> None:
    # This loads NumPy, which other commands do without.
    from mpiparallel.launch.show.network import holders_text, network_text
    from mpiparallel.launch.show.page import page
    from mpiparallel.launch.show.reasons import asked, heaviest, reason_text, reasons_of
    from mpiparallel.launch.show.stages import stages_text
    from mpiparallel.launch.simulate.job import forecast_of, simulated
    from mpiparallel.launch.simulate.json_output import document

    script, machine = script_of(arguments), machine_of(arguments)
    name = Path(script.name).name
    with progress_bar("compiling for one rank of each stage"):
        network = simulated(script, arguments.ranks, machine, columns_of(arguments), arguments.cluster)
    nodes = asked(network, arguments.why)
    with progress_bar("pricing"):
        reasons = reasons_of(network, nodes, machine, _WHY_SECONDS)
        asked_alone = reasons and not (arguments.html or arguments.parameter or arguments.json)
        asked_alone = asked_alone and len(network.staged.stages) == 1
        forecast = None if asked_alone else forecast_of(network, machine)
    told = [reason_text(reason) for reason in reasons]
    if forecast is not None:
        told += [holders_text(forecast, parameter) for parameter in arguments.parameter]
        if arguments.html is not None:
            others = [node for node in heaviest(network) if node not in nodes]
            with progress_bar("trying alternatives"):
                answers = [*reasons, *(one for one in reasons_of(network, others, machine, _PAGE_SECONDS) if one.tried)]
            write_output("--html", arguments.html, page(forecast, name, answers).encode())
            told.append(f"page: {arguments.html}")
        elif not told:
            told.append(network_text(forecast, name))
        if arguments.html is None:
            told += filter(None, [stages_text(forecast)])
    if arguments.json and forecast is not None:
        why = [asdict(reason) for reason in reasons]
        print(json.dumps({**document(forecast), "why": why, "page": arguments.html and str(arguments.html)}))
    else:
        print(fitted(printable("\n\n".join(told)), terminal_width()))
