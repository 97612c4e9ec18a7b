"""``mpiparallel ranktable``: the parser of its subcommands."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING

from mpiparallel.launch.command_line.argument_types import file_path

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "ranktable"
_DESCRIPTION = """
Make, merge, show and check rank tables: JSON of HCCL, version 1.0, that says which device of which host each rank owns.
"""
_MAKE = """
Write a rank table. Its hosts are those of --hostfile or --slurm, else this machine. Their devices are --device-num, the
GPUs that --nvidia-smi lists here, --tasks-per-node, or the slots of the hostfile. Ranks are numbered host by host, as
the hosts are given.
"""
_EPILOG = """
Exit codes: 0 all is well; 1 check found problems; 2 refused, and nothing was written.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel ranktable``."""
    parser = subparsers.add_parser(
        NAME,
        help="make, merge, show and check rank tables",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            'mpiparallel ranktable make --device-num "[0,8)" -o table.json',
            "mpiparallel ranktable check table.json",
        ),
    )
    inner = parser.add_commands("subcommand", "SUBCOMMAND")
    _add_make(inner)
    _add_merge(inner)
    _add_show(inner)
    _add_check(inner)


def execute(arguments: argparse.Namespace) -> int:
    """Do what ``arguments`` ask for; return 0, or 1 where problems were found."""
    code: int = importlib.import_module(f"mpiparallel.launch.ranktable.{arguments.subcommand}").execute(arguments)
    return code


def _add_make(inner: Subparsers) -> None:
    parser = inner.add_parser(
        "make",
        help="write a table of hosts and devices",
        description=_MAKE,
        examples=(
            'mpiparallel ranktable make --device-num "[0,8)" -o table.json',
            "mpiparallel ranktable make --hostfile hosts --sort",
            'mpiparallel ranktable make --slurm "node[01-03,7]" --tasks-per-node 8',
        ),
    )
    hosts = parser.add_argument_group("hosts").add_mutually_exclusive_group()
    hosts.add_argument("--hostfile", type=file_path, metavar="FILE", help="hosts and slots, in any dialect")
    hosts.add_argument(
        "--slurm",
        nargs="?",
        const="",
        metavar="LIST",
        help='SLURM node list such as "node[01-03,7]" (default: that of the allocation around)',
    )
    hosts.add_argument(
        "--server-ip",
        "--server_ip",
        metavar="ADDRESS",
        help="this machine's address or name, for server_id (default: its host name)",
    )
    devices = parser.add_argument_group("devices").add_mutually_exclusive_group()
    devices.add_argument(
        "--device-num", "--device_num", metavar="RANGE", help='of each host: "[0,8)" for 0 to 7, as in hccl_tools, or 8'
    )
    devices.add_argument("--nvidia-smi", action="store_true", help="this machine's GPUs, as nvidia-smi -L lists them")
    devices.add_argument(
        "--tasks-per-node", metavar="COUNTS", help='"8", or "2(x3),1" (default: that of the allocation, or 1)'
    )
    parser.add_argument(
        "--visible-devices",
        "--visible_devices",
        metavar="IDS",
        help='device_id of each device of --device-num, as in "4,5,6,7"',
    )
    parser.add_argument(
        "--hccn",
        type=file_path,
        metavar="FILE",
        help="where address_0=... give this machine's device_ip (default: /etc/hccn.conf, if it is there)",
    )
    _add_output(parser)


def _add_merge(inner: Subparsers) -> None:
    parser = inner.add_parser(
        "merge",
        help="join the tables of several hosts",
        description="Join rank tables into one. Ranks are numbered anew, server by server, as the files are given.",
        examples=("mpiparallel ranktable merge host1.json host2.json -o table.json",),
    )
    parser.add_argument("tables", nargs="+", type=file_path, metavar="FILE", help="rank tables, each of other hosts")
    _add_output(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sort", action="store_true", help="number ranks in the order of server_id, as HCCL wants them"
    )
    parser.add_argument("-o", "--output", type=file_path, metavar="FILE", help="write here (default: to stdout)")
    parser.add_argument("--json", action="store_true", help="print JSON: where it was written, and the table")


def _add_show(inner: Subparsers) -> None:
    parser = inner.add_parser(
        "show",
        help="show hosts, devices and ranks",
        description="Show which rank owns which device of which host.",
        examples=("mpiparallel ranktable show table.json", "mpiparallel ranktable show table.json --svg table.svg"),
    )
    parser.add_argument("table", type=file_path, metavar="FILE", help="a rank table")
    parser.add_argument("--svg", type=file_path, metavar="FILE", help="draw it into this file as well")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_check(inner: Subparsers) -> None:
    parser = inner.add_parser(
        "check",
        help="say everything that is wrong with tables",
        description="Say everything that is wrong with rank tables, and where HCCL would refuse what runs here.",
        examples=("mpiparallel ranktable check table.json --strict",),
    )
    parser.add_argument("tables", nargs="+", type=file_path, metavar="FILE", help="rank tables")
    parser.add_argument("--strict", action="store_true", help="count as a problem what HCCL would refuse, too")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
