"""The names of msrun's options, MindSpore's launcher, as other names of ``mpiparallel run``'s."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError
from mpiparallel.launch.command_line.argument_types import file_path, rank_count, seconds

_ALL_RANKS = "-1"


@dataclass(frozen=True)
class Alias:
    """An option of msrun that sets the value ``target`` of one of ours, or is read and then explained.

    ``note`` says what becomes of it, where it does not do what it does in msrun; ``{value}`` stands for what was given.
    ``is_silent`` tells for which values there is nothing to say.
    """

    name: str
    ours: str = ""
    target: str = ""
    type: Callable[[str], Any] = str
    note: str = ""
    is_silent: Callable[[str], bool] = lambda value: False
    is_refused: bool = False

    @property
    def destination(self) -> str:
        """The attribute of parsed arguments that it sets."""
        return self.target or f"msrun_{self.name}"


def _is_true(value: str) -> bool:
    return value.lower() == "true"


def _is_false(value: str) -> bool:
    return value.lower() == "false"


ALIASES = (
    Alias("worker_num", "-n", "ranks", rank_count),
    Alias("log_dir", "--log-dir", "log_dir", file_path),
    Alias("rank_table_file", "--rank-table", "rank_table", file_path),
    Alias("tail_worker_log", "--tee-ranks", "tee_ranks"),
    Alias("local_worker_num", note="how many ranks run on each host is up to --hostfile, --rank-table or SLURM"),
    Alias(
        "master_addr",
        note="no effect: MPI's ranks find each other by mpirun",
        is_silent=lambda value: value in ("127.0.0.1", "localhost"),
    ),
    Alias("master_port", note="no effect: MPI's ranks find each other by mpirun"),
    Alias(
        "node_rank",
        note="nothing is started here: the start with --node_rank 0 starts the ranks of all hosts",
        is_silent=lambda value: value in ("0", "-1"),
    ),
    Alias("join", note="no effect: run waits for the ranks; to go on meanwhile put & behind it", is_silent=_is_true),
    Alias("cluster_time_out", "--start-timeout", "start_timeout", seconds),
    Alias(
        "bind_core",
        note="no effect: ranks are not bound to cores, each has its number of BLAS threads",
        is_silent=_is_false,
    ),
    Alias("worker_log_name", note="no effect: the log of rank 3 is device3/train.log3"),
    Alias(
        "sim_level",
        note="nothing is simulated; --dry-run shows the command and which rank runs where, mpiparallel plan forecasts",
        is_silent=lambda value: value == "-1",
        is_refused=True,
    ),
    Alias("sim_rank_id", note="no effect without --sim_level", is_silent=lambda value: value == "-1"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Let ``parser``, that of ``mpiparallel run``, take msrun's names too; call it after our own are added."""
    group = parser.add_argument_group("msrun's names", "options of MindSpore's launcher, for scripts that give them")
    for alias in ALIASES:
        group.add_argument(
            f"--{alias.name}",
            dest=alias.destination,
            type=alias.type,
            default=argparse.SUPPRESS,
            metavar=alias.name.upper(),
            help=f"the same as {alias.ours}" if alias.ours else alias.note,
        )


def starts_here(arguments: argparse.Namespace) -> bool:
    """Return whether ranks are to be started on this host: msrun is started on each, ours on one of them."""
    return getattr(arguments, "msrun_node_rank", "0") in ("0", "-1")


def adopt(arguments: argparse.Namespace, variables: Mapping[str, str]) -> Iterator[str]:
    """Make of msrun's values what our options hold, and yield a line for each name that does not do what it did there.

    ``variables`` is the environment, which may name hosts too.

    Raises
    ------
    LaunchError
        What is asked for cannot be done: a simulation, or ranks on hosts that nothing names.
    """
    if getattr(arguments, "tee_ranks", None) == _ALL_RANKS:
        arguments.tee, arguments.tee_ranks = True, None
    for alias in ALIASES:
        value = getattr(arguments, alias.destination, None)
        if value is None or not alias.note or alias.is_silent(value):
            continue
        if alias.is_refused:
            raise LaunchError(f"--{alias.name} {value}: {alias.note}")
        if alias.name == "local_worker_num":
            _check_hosts(arguments, variables, value)
            continue
        yield f"--{alias.name} {value}: {alias.note}"


def _check_hosts(arguments: argparse.Namespace, variables: Mapping[str, str], local_worker_num: str) -> None:
    names_hosts = arguments.hostfile or arguments.rank_table or {"RANK_TABLE_FILE", "SLURM_JOB_ID"} & set(variables)
    if local_worker_num != str(arguments.ranks) and starts_here(arguments) and not names_hosts:
        raise LaunchError(
            f"--local_worker_num {local_worker_num} of --worker_num {arguments.ranks}: no host is named for the "
            "others; name all with --hostfile or --rank-table"
        )
