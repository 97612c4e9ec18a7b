"""``mpiparallel slurm make``."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mpiparallel.errors import LaunchError
from mpiparallel.launch.ckpt.output import answer
from mpiparallel.launch.command_line.output_file import EXECUTABLE, write_output
from mpiparallel.launch.job.installation import mpi_library, vendor_of
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.slurm.batch_script import BatchScript

_PMI = {"openmpi": "pmix", "mpich": "pmi2"}
_REQUEUE_SIGNAL_SECONDS = 120
_WORD = re.compile(r"[\w.,:/+@%=\[\]-]+", re.ASCII)
_OPTIONS = (
    "job_name",
    "partition",
    "account",
    "nodes",
    "ntasks_per_node",
    "cpus_per_task",
    "gpus_per_node",
    "time",
)


def execute(arguments: argparse.Namespace) -> int:
    """Write the batch script that ``arguments`` describe, to stdout or into a file; return 0."""
    text = _batch_script(arguments).text
    if arguments.output is not None:
        write_output("--output", arguments.output, os.fsencode(text), EXECUTABLE)
    if arguments.json:
        answer({"output": arguments.output and str(arguments.output), "text": text}, [], True)
    elif arguments.output is None:
        sys.stdout.write(text)
    return 0


def _batch_script(arguments: argparse.Namespace) -> BatchScript:
    seconds = arguments.signal or (_REQUEUE_SIGNAL_SECONDS if arguments.requeue else None)
    given = Script.parsed(arguments).argv if arguments.script or arguments.module else ()
    return BatchScript(
        name=arguments.output.name if arguments.output else Path("job.sh").name,
        title=_title(arguments.nodes, arguments.requeue),
        directives=tuple(_directives(arguments, seconds)),
        launcher=_launcher(arguments.launcher),
        python=_word("python", arguments.python),
        script=given,
        is_signalled=seconds is not None,
        requeues=arguments.requeue,
    )


def _directives(arguments: argparse.Namespace, seconds: int | None) -> Iterator[str]:
    for name in _OPTIONS:
        value = getattr(arguments, name)
        if value is not None:
            yield f"--{name.replace('_', '-')}={_word(name, str(value))}"
    yield "--output=%x-%j.out"
    if seconds is not None:
        yield f"--signal=B:USR1@{seconds}"
    if arguments.requeue:
        yield "--requeue"
        yield "--open-mode=append"


def _title(nodes: int, requeues: bool) -> str:
    where = "one node" if nodes == 1 else f"{nodes} nodes"
    return f"Run a script on {where}" + (", and go on after a preemption or the loss of a node" if requeues else "")


def _launcher(asked: str) -> str:
    if asked != "srun":
        return asked
    library = mpi_library()
    vendor = vendor_of(library)
    if vendor is None:
        raise LaunchError(
            f"--launcher srun: mpi4py of {sys.executable} loads {library}, whose way under srun is not known; give "
            "pmix or pmi2"
        )
    return _PMI[vendor]


def _word(name: str, value: str) -> str:
    """Return ``value``, which is to stand in a comment or between quotes; raise LaunchError if it cannot."""
    if not _WORD.fullmatch(value):
        raise LaunchError(f'--{name.replace("_", "-")} "{value}": has characters that no such value of sbatch has')
    return value
