"""``mpiparallel doctor``: look at what would hinder a job."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.cluster.exit_codes import COMPLETED, FAILED
from mpiparallel.cluster.hostfile import Host, Hostfile
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.launch.doctor.document import document
from mpiparallel.launch.doctor.examination import examine
from mpiparallel.launch.doctor.facts import facts_of
from mpiparallel.launch.doctor.hosts import examine_hosts, is_here
from mpiparallel.launch.doctor.machine import Machine
from mpiparallel.launch.doctor.registry import CHECKS
from mpiparallel.launch.doctor.report import report

if TYPE_CHECKING:
    from mpiparallel.launch.cli import Subparsers

NAME = "doctor"
_DESCRIPTION = """
Look at what would hinder a job on this machine, and on those of a hostfile or a rank table: MPI and its launcher,
libraries, processor, limits, folders, network, SLURM, GPUs. Two ranks are really started. What is wrong is shown with
the line that mends it. Nothing is changed.
"""
_EPILOG = """
Exit codes: 0 no errors, though there may be warnings; 1 errors, with which jobs fail; 2 refused.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel doctor``."""
    parser = subparsers.add_parser(
        NAME, help="look at what would hinder a job", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False
    )
    hosts = parser.add_mutually_exclusive_group()
    hosts.add_argument("--hostfile", type=Path, metavar="FILE", help="look at its hosts too, over ssh")
    hosts.add_argument("--rank-table", type=Path, metavar="FILE", help="look at its servers too, over ssh")
    parser.add_argument(
        "-n", "--ranks", type=_count, metavar="N", help="ranks that this host is to run (default: its slots, or cores)"
    )
    parser.add_argument(
        "--log-dir", type=Path, default=Path(), metavar="DIR", help="where logs are to go (default: here)"
    )
    parser.add_argument(
        "--checkpoint-dir", type=Path, metavar="DIR", help="where checkpoints are to go (default: where logs go)"
    )
    parser.add_argument("--fix-hints", action="store_true", help="show the mending lines of notes, too")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def execute(arguments: argparse.Namespace) -> int:
    """Examine what ``arguments`` name and print it; return 1 if jobs would fail, else 0."""
    start = time.monotonic()
    hosts = _hosts(arguments)
    machine = _machine(arguments, hosts)
    findings = examine(machine, CHECKS)
    if hosts:
        findings += examine_hosts(hosts, machine)
    if arguments.json:
        print(document(findings, facts_of(machine), machine.ranks, time.monotonic() - start))
    else:
        print(report(findings, shutil.get_terminal_size().columns, arguments.fix_hints))
    return FAILED if any(finding.state == "error" for finding in findings) else COMPLETED


def _hosts(arguments: argparse.Namespace) -> tuple[Host, ...]:
    if arguments.hostfile:
        return Hostfile.load(arguments.hostfile).hosts
    if arguments.rank_table:
        return Hostfile.of_table(RankTable.load(arguments.rank_table)).hosts
    return ()


def _machine(arguments: argparse.Namespace, hosts: tuple[Host, ...]) -> Machine:
    slots = sum(host.slots for host in hosts if is_here(host))
    log_dir = arguments.log_dir.absolute()
    return Machine(
        variables=os.environ,
        ranks=arguments.ranks or slots or len(os.sched_getaffinity(0)),
        log_dir=log_dir,
        checkpoint_dir=arguments.checkpoint_dir.absolute() if arguments.checkpoint_dir else log_dir,
    )


def _count(text: str) -> int:
    if not (text.isascii() and len(text) < 8 and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of ranks; give a whole number from 1')
    return int(text)
