"""``mpiparallel run`` as srun or a bare mpirun starts it: this process is a rank already, and becomes the worker."""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.exit_codes import COMPLETED, REFUSED, REQUEUE
from mpiparallel.cluster.processor import threads_per_rank
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import LaunchError, MpiParallelError
from mpiparallel.launch.job import msrun
from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.installation import library_text, shortened, vendor_of
from mpiparallel.launch.job.on_failure import ABORT
from mpiparallel.launch.job.output_selection import OutputSelection
from mpiparallel.launch.job.rank_settings import rank_settings
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.rank.standalone import Standalone
from mpiparallel.launch.rank.starter import Starter
from mpiparallel.launch.rank.task_order import task_order
from mpiparallel.launch.rank.worker import WorkerSettings, run_rank

_SPEAKING_SECONDS = 2.0
# What only a launcher that starts the ranks can do, and who does it here.
_LAUNCHERS_OWN: Mapping[str, str] = {
    "hostfile": "srun or mpirun has placed the ranks already; leave --hostfile out",
    "timeout": "give srun --time, or mpirun --timeout, instead of --timeout",
}


def execute(arguments: argparse.Namespace, starter: Starter) -> int:
    """Run the script of ``arguments`` as the rank that ``starter`` started; return 0 if it ended well.

    Raises
    ------
    LaunchError
        The MPI library cannot use what ``starter`` offers, or another number of ranks is asked for. Or an option is
        given that only a launcher can follow. Only the first rank of each host says so.
    """
    environment = Environment.read()
    # srun -K ends the other tasks by it as soon as one has been refused, and would then not tell the code of refusal.
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        settings = _worker_settings(arguments, starter, environment)
    except MpiParallelError:
        if environment.local_rank:
            # mpirun ends the others as soon as one has left: the first rank of the host must have spoken by then.
            time.sleep(_SPEAKING_SECONDS)
            return REFUSED
        raise
    if arguments.dry_run:
        return COMPLETED
    signal.signal(signal.SIGTERM, former)
    try:
        run_rank(settings)
    except SystemExit as end:
        if end.code == REQUEUE:
            # All ranks leave with this code, and srun -K ends the rest by SIGTERM as soon as one is gone. What still
            # chains to the handler of before would bring that back while the interpreter ends.
            faulthandler.unregister(signal.SIGTERM)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise
    return COMPLETED


def _worker_settings(arguments: argparse.Namespace, starter: Starter, environment: Environment) -> WorkerSettings:
    for line in msrun.adopt(arguments, os.environ):
        if environment.rank == 0:
            Console().say(line)
    _check_options(arguments, starter)
    library = library_text()
    starter.check(library, environment.size)
    if arguments.mpi not in (None, vendor_of(library)):
        raise LaunchError(f"--mpi {arguments.mpi}: mpi4py of {sys.executable} loads {shortened(library)}; leave it out")
    path = _rank_table(arguments, os.environ)
    table = RankTable.load(path) if path else None
    _check_ranks(arguments.ranks, environment, starter, table)
    script = Script.parsed(arguments)
    script.check()
    set_defaults(os.environ, environment, starter, vendor_of(library))
    os.environ.update(rank_settings(arguments, os.environ))
    log_dir = arguments.log_dir.absolute()
    if environment.rank == 0:
        Console().say(f"{environment.size} ranks by {starter}, {shortened(library)}, logs in {log_dir}/device<rank>/")
    return WorkerSettings(
        ranks=environment.size,
        log_dir=log_dir,
        script=script,
        rank_table=path.absolute() if path else None,
        order=_order(table, starter, environment),
        debug=arguments.debug,
        standalone=_standalone(arguments, environment),
        keeps_children=arguments.keep_children,
    )


def set_defaults(
    variables: MutableMapping[str, str], environment: Environment, starter: Starter, vendor: str | None
) -> None:
    """Set in ``variables`` what the launcher would give this rank; what is set already stays.

    BLAS gets the processors that srun gave to this task, or this rank's share of the host.
    """
    threads = variables.get("SLURM_CPUS_PER_TASK") if starter.pmi else None
    cores = len(os.sched_getaffinity(0))
    threads = threads or str(threads_per_rank(cores, environment.local_size))
    defaults = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    if vendor == "openmpi":
        # osc/ucx prints errors for each window where there is no UCX device.
        defaults["OMPI_MCA_osc"] = "^ucx"
        if environment.local_size >= cores:
            defaults["OMPI_MCA_mpi_yield_when_idle"] = "1"
        if starter.pmi:
            # SLURM's PMIx asks for a module that the Open MPI of the wheel does not have, and each rank would say so.
            defaults["PMIX_MCA_psec"] = "native"
    for name, value in defaults.items():
        variables.setdefault(name, value)


def _check_options(arguments: argparse.Namespace, starter: Starter) -> None:
    for name, mend in _LAUNCHERS_OWN.items():
        if getattr(arguments, name) is not None:
            raise LaunchError(f"--{name}: {starter} has started this rank; {mend}")
    if (arguments.on_failure or ABORT) != ABORT:
        raise LaunchError(
            f"--on-failure {arguments.on_failure}: {starter} has started this rank, and ends the job with its first "
            "failure; leave it out, or use mpiparallel run -n instead"
        )


def _check_ranks(asked: int | None, environment: Environment, starter: Starter, table: RankTable | None) -> None:
    if asked not in (None, environment.size):
        raise LaunchError(
            f"-n {asked}: {starter} has started {environment.size} ranks; leave -n out, or give it the same"
        )
    if table and table.rank_count != environment.size:
        raise LaunchError(
            f"the rank table has {table.rank_count} ranks, {starter} has started {environment.size}; start as many"
        )


def _rank_table(arguments: argparse.Namespace, variables: Mapping[str, str]) -> Path | None:
    named = arguments.rank_table or variables.get("RANK_TABLE_FILE")
    return Path(named) if named else None


def _standalone(arguments: argparse.Namespace, environment: Environment) -> Standalone:
    if arguments.tee_ranks is not None:
        shown = OutputSelection.parse(arguments.tee_ranks, environment.size)
        return Standalone(shows=environment.rank in shown.ranks, prefix=f"[{environment.rank}] ")
    if arguments.tee:
        return Standalone(shows=True, prefix=f"[{environment.rank}] ")
    return Standalone(shows=environment.rank == 0)


def _order(table: RankTable | None, starter: Starter, environment: Environment) -> RankOrder | None:
    """Return which rank each task of srun is by ``table``; mpirun's ranks are those of the table by their numbers."""
    if table is None or table.is_local or not starter.pmi:
        return None
    order = task_order(table, os.environ, environment)
    return None if order.is_identity else order
