"""The arguments of commands that simulate a script: the script, its ranks, the machine, its inputs."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.command_line.argument_types import file_path, path_text
from mpiparallel.launch.job.script import Script
from mpiparallel.search.machine.cluster_file import load_machine
from mpiparallel.search.machine.kept import kept_machine
from mpiparallel.search.machine.machine import Machine

if TYPE_CHECKING:
    pass

_INPUT = re.compile(r"(?P<name>[^=:,]+)=(?P<shape>\d+(,\d+)*)?:(?P<dtype>[a-z]+[0-9]*)", re.ASCII)
_DTYPES = (
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool"),
)


@dataclass(frozen=True)
class InputColumn:
    """A column of a batch, as the command line gives it."""

    name: str
    shape: tuple[int, ...]
    dtype: str


def add_simulation(parser: argparse._ActionsContainer, required: bool = True) -> None:
    """Let ``parser`` take what is simulated: a script with arguments of its own, or with -m a module."""
    parser.add_argument(
        "script", nargs=None if required else "?", type=path_text, metavar="SCRIPT", help="the program, as it trains"
    )
    parser.add_argument(
        "--arguments",
        nargs=argparse.REMAINDER,
        default=[],
        metavar="...",
        help="all that follows is the program's own: --arguments --epochs 3",
    )
    parser.add_argument("-m", dest="is_module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument(
        "--cluster",
        type=file_path,
        metavar="FILE",
        help="machine to price for; see clusters/README.md (default: the one that calibrate has measured)",
    )
    parser.add_argument(
        "--input",
        type=_input,
        action="append",
        default=[],
        metavar="NAME=SHAPE:DTYPE",
        help="a column of the batch instead of data, as in image=256,3,224,224:float32; once for each column",
    )


def script_of(arguments: argparse.Namespace) -> Script:
    """Return the script that ``arguments`` name; raise LaunchError where its file is not there."""
    script = Script(arguments.script, tuple(arguments.arguments), is_module=arguments.is_module)
    script.check()
    return script


def machine_of(arguments: argparse.Namespace) -> Machine:
    """Return the machine that ``arguments`` name; raise ConfigurationError where its file is broken."""
    return kept_machine() if arguments.cluster is None else load_machine(arguments.cluster)


def columns_of(arguments: argparse.Namespace) -> tuple[InputColumn, ...]:
    """Return the columns of a batch that ``arguments`` give; raise ConfigurationError where one comes twice."""
    names = [column.name for column in arguments.input]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"--input {twice}: it is given twice; give each column once")
    return tuple(arguments.input)


def _input(text: str) -> InputColumn:
    """Return the column of a word like ``image=256,3,224,224:float32``; without a shape it is a number."""
    found = _INPUT.fullmatch(text)
    if found is None or found["dtype"] not in _DTYPES:
        raise argparse.ArgumentTypeError(
            f'"{text}" is no column of a batch; give NAME=SHAPE:DTYPE, as in image=256,3,224,224:float32 (dtypes: '
            f"{', '.join(_DTYPES)})"
        )
    shape = tuple(int(extent) for extent in (found["shape"] or "").split(",") if extent)
    return InputColumn(found["name"], shape, found["dtype"])
