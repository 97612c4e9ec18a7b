"""The time lines of pipeline stages: what each of them would do when, before anything runs."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any, Final

from mpiparallel.errors import ConfigurationError, ScheduleError
from mpiparallel.launch.command_line.argument_types import count, file_path
from mpiparallel.launch.command_line.output_file import write_output
from mpiparallel.launch.job.terminal_text import has_colours, printable
from mpiparallel.pipeline import (
    SCHEDULES,
    Costs,
    Panel,
    Report,
    Schedule,
    check,
    drawn_text,
    make_schedule,
    picture,
    read_schedule,
    schedule_name,
)

_ALL: Final = "all"
_STAGES: Final = 4
_MICRO_BATCHES: Final = 8
_WIDTH: Final = (120, 24)


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Let ``parser`` take a schedule, and what it is drawn for."""
    parser.add_argument(
        "--pipeline",
        metavar="SCHEDULE",
        help=f"{', '.join(SCHEDULES)}, a name of MindSpore's for one, {_ALL}, or a file with one's own",
    )
    parser.add_argument("--stages", type=count, metavar="P", help=f"number of stages (default: {_STAGES})")
    parser.add_argument(
        "--micro-batches", type=count, metavar="M", help=f"micro-batches of a step (default: {_MICRO_BATCHES})"
    )
    parser.add_argument("--chunks", type=count, metavar="V", help="chunks of each stage, for interleaved_1f1b")
    parser.add_argument(
        "--times",
        type=_times,
        default=(1.0, 1.0, 1.0, 0.0),
        metavar="F,I,W,S",
        help="time of a micro-batch's forward pass, input gradient and weight gradient on a stage, and of a message "
        "(default: 1,1,1,0)",
    )
    parser.add_argument(
        "--merged-backward", action="store_true", help="send an input gradient only after the weight gradient behind it"
    )
    parser.add_argument("--list", action="store_true", help="print the actions of each stage, as a file has them")
    parser.add_argument("--svg", type=file_path, metavar="FILE", help="draw the time lines into this file as well")


def show_pipeline(arguments: argparse.Namespace) -> None:
    """Draw the schedules that ``arguments`` name."""
    width = shutil.get_terminal_size(_WIDTH).columns
    panels, documents = [], []
    for schedule in _schedules(arguments):
        costs = Costs.even(schedule.stages, *arguments.times)
        family = SCHEDULES.get(schedule.name)
        title = family.title if family else printable(schedule.name)
        panels.append(Panel.planned(title, schedule, costs))
        found = check(schedule, costs)
        documents.append(_document(schedule, found))
        if not arguments.json:
            lines = drawn_text(panels[-1], width, has_colours(sys.stdout))
            print(printable(str(schedule)) if arguments.list else lines)
            print(printable(str(found)), end="\n\n")
    if arguments.svg is not None:
        write_output("--svg", arguments.svg, picture(panels).encode())
    if arguments.json:
        print(json.dumps({"schedules": documents, "picture": arguments.svg and str(arguments.svg)}))
    elif arguments.svg is not None:
        print(printable(f"picture: {arguments.svg}"))


def _document(schedule: Schedule, found: Report) -> dict[str, Any]:
    """Return a schedule and what it costs as values of JSON; ``actions`` has those of each stage, in order."""
    return {
        "name": schedule.name,
        "stages": schedule.stages,
        "micro_batches": schedule.micro_batches,
        **asdict(found),
        "actions": [[str(one) for one in actions] for actions in schedule.actions],
    }


def _schedules(arguments: argparse.Namespace) -> list[Schedule]:
    """Return the schedule of this name, or of this file, or all that there are of these sizes; say which are not."""
    name: str = arguments.pipeline
    sizes = {"--stages": arguments.stages, "--micro-batches": arguments.micro_batches, "--chunks": arguments.chunks}
    if Path(name).is_file():
        given = [option for option, value in sizes.items() if value is not None]
        if given or arguments.merged_backward:
            raise ConfigurationError(
                f"--pipeline {name}: the file says stages, chunks and actions; leave "
                f"{', '.join(given) or '--merged-backward'} out"
            )
        return [read_schedule(name)]
    stages, micro_batches = arguments.stages or _STAGES, arguments.micro_batches or _MICRO_BATCHES
    found = []
    for one in SCHEDULES if name == _ALL else [_known(name)]:
        # Only the interleaved one has chunks to choose.
        chunks = arguments.chunks if name != _ALL or SCHEDULES[one].chunks is None else None
        try:
            found.append(make_schedule(one, stages, micro_batches, chunks, merged_backward=arguments.merged_backward))
        except ScheduleError as error:
            if name != _ALL:
                raise
            print(printable(f"left out: {error}"), end="\n\n", file=sys.stderr if arguments.json else sys.stdout)
    return found


def _known(name: str) -> str:
    try:
        return schedule_name(name)
    except ScheduleError as error:
        raise ConfigurationError(f"--pipeline {name}: there is no such file, and {error}") from error


def _times(text: str) -> tuple[float, ...]:
    """Return four times; the last, of a message, may be left out."""
    try:
        times = tuple(map(float, text.split(",")))
    except ValueError:
        times = ()
    if len(times) not in (3, 4) or not all(isfinite(time) and time >= 0 for time in times):
        raise argparse.ArgumentTypeError(f'"{text}" is not three or four times of 0 or more; write 1,1.2,0.8,0.1')
    return times
