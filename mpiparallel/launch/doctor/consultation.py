"""What ``mpiparallel doctor`` does with its arguments."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time

from mpiparallel.cluster.exit_codes import COMPLETED, FAILED
from mpiparallel.cluster.hostfile import Host, Hostfile
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.launch.command_line.progress import progress_bar
from mpiparallel.launch.doctor.examination import examine
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.host_facts import facts_of
from mpiparallel.launch.doctor.json_output import document
from mpiparallel.launch.doctor.other_hosts import examine_hosts, is_here
from mpiparallel.launch.doctor.registry import CHECKS
from mpiparallel.launch.doctor.report import coloured, report
from mpiparallel.launch.job.terminal_text import printable


def consult(arguments: argparse.Namespace) -> int:
    """Examine what ``arguments`` name and print it; return 1 if jobs would fail, else 0."""
    start = time.monotonic()
    hosts = _hosts(arguments)
    machine = _machine(arguments, hosts)
    with progress_bar("checking this machine", str) as progress:
        findings = examine(machine, CHECKS, progress=progress)
    if hosts:
        with progress_bar(f"looking at {len(hosts)} hosts"):
            findings += examine_hosts(hosts, machine)
    if arguments.json:
        print(document(findings, facts_of(machine), machine.ranks, time.monotonic() - start))
    else:
        text = printable(report(findings, shutil.get_terminal_size().columns, arguments.fix_hints))
        print(coloured(text, sys.stdout))
    return FAILED if any(finding.state == "error" for finding in findings) else COMPLETED


def _hosts(arguments: argparse.Namespace) -> tuple[Host, ...]:
    if arguments.hostfile:
        return Hostfile.load(arguments.hostfile).hosts
    if arguments.rank_table:
        return Hostfile.of_table(RankTable.load(arguments.rank_table)).hosts
    return ()


def _machine(arguments: argparse.Namespace, hosts: tuple[Host, ...]) -> ExaminedMachine:
    slots = sum(host.slots for host in hosts if is_here(host))
    log_dir = arguments.log_dir.absolute()
    return ExaminedMachine(
        variables=os.environ,
        ranks=arguments.ranks or slots or len(os.sched_getaffinity(0)),
        log_dir=log_dir,
        checkpoint_dir=arguments.checkpoint_dir.absolute() if arguments.checkpoint_dir else log_dir,
    )
