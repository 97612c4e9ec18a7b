"""Which rank a process is that was started by hand, as MindSpore's shell loops do it: by variables alone."""

from __future__ import annotations

import hashlib
import os
import shlex
import socket
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from mpiparallel.cluster.environment import Environment, is_launched
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError, RankTableError

SECONDS_VARIABLE = "HCCL_CONNECT_TIMEOUT"
"""MindSpore's variable for how many seconds processes wait for the last one to be started."""
SECONDS = 120.0

_DIGEST_CHARACTERS = 24


@dataclass(frozen=True)
class HandStarted:
    """Process ``rank`` of ``size``; ``here`` are those of its host, and ``seconds`` how long they wait for each other.

    ``digest`` is the same for all processes of a job and hardly for those of another. It is that of the table's content
    and, where all are on one host, of its place. Without a table it is that of the session (setsid(2)) that the
    processes belong to.

    Examples
    --------
    >>> started = HandStarted.of({"RANK_ID": "1", "RANK_SIZE": "4"})
    >>> started.rank, list(started.here), started.seconds
    (1, [0, 1, 2, 3], 120.0)
    >>> HandStarted.of({"PATH": "/bin"}) is None
    True
    """

    rank: int
    size: int
    here: tuple[int, ...]
    seconds: float
    digest: str
    table_path: Path | None = None
    table: RankTable | None = None

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> HandStarted | None:
        """Return who the process with these variables is; None where a launcher started it, or it is a rank alone.

        Raises
        ------
        ConfigurationError
            The variables do not name one rank of a job, or name ranks that were not started for a job of ours.
        RankTableError
            The rank table cannot be read, has another number of ranks, or puts the rank on another host.
        """
        # A size without a rank is left to ``init``, which refuses it.
        if is_launched(variables) or "PMI_SIZE" in variables:
            return None
        named = variables.get("RANK_TABLE_FILE")
        path = Path(named).absolute() if named else None
        if "RANK_ID" not in variables:
            _check_without_rank(variables, path)
            return None
        table = RankTable.load(path) if path else None
        rank, size = _place(variables, table)
        if size == 1:
            return None
        _check_step(variables, size)
        if table is None or table.is_local:
            here = tuple(range(size))
        else:
            here = tuple(sorted(device.rank_id for device in table.server_of(rank).devices))
            _check_host(table, rank, path)
        return cls(rank, size, here, _seconds(variables), _digest(size, table, path), path, table)

    @property
    def is_local(self) -> bool:
        """Tell whether all processes are on this host."""
        return len(self.here) == self.size

    @property
    def command(self) -> str:
        """The command that starts the whole job, from one host and once, for this program."""
        ranks = ["--rank-table", str(self.table_path)] if self.table_path else ["-n", str(self.size)]
        return shlex.join(["mpiparallel", "run", *ranks, *_program()])

    def words(self, ranks: Iterable[int]) -> str:
        """Return ``ranks`` in words, with the host that the table names for them.

        >>> HandStarted(0, 4, (0, 1, 2, 3), 1.0, "").words([2, 3])
        'ranks 2, 3'
        """
        numbers = list(ranks)
        listed = ", ".join(map(str, numbers))
        return f"rank{'s' * (len(numbers) > 1)} {listed}"


def _place(variables: Mapping[str, str], table: RankTable | None) -> tuple[int, int]:
    if table and "RANK_SIZE" not in variables:
        variables = {**variables, "RANK_SIZE": str(table.rank_count)}
    only = {name: variables[name] for name in ("RANK_ID", "RANK_SIZE") if name in variables}
    environment = Environment.read(only)
    if table and table.rank_count != environment.size:
        raise RankTableError(
            f"RANK_SIZE is {environment.size}, but the rank table {variables['RANK_TABLE_FILE']} has "
            f"{table.rank_count} ranks; set RANK_SIZE={table.rank_count}, or name a table of {environment.size} ranks"
        )
    return environment.rank, environment.size


def _check_without_rank(variables: Mapping[str, str], path: Path | None) -> None:
    workers = variables.get("MS_WORKER_NUM", "")
    if "MS_ROLE" in variables or (workers.isdecimal() and int(workers) > 1):
        given = ["-n", workers] if workers.isdecimal() else ["-n", "8"]
        raise ConfigurationError(
            "init: MS_ROLE and MS_WORKER_NUM are of MindSpore's msrun, which starts no ranks of this library; start "
            f"them all with one command: {shlex.join(['mpiparallel', 'run', *given, *_program()])}"
        )
    if path is None:
        return
    count = RankTable.load(path).rank_count
    if count > 1:
        raise ConfigurationError(
            f"init: RANK_TABLE_FILE names {count} ranks, but no RANK_ID says which one this process is; start them all "
            f"with {shlex.join(['mpiparallel', 'run', '--rank-table', str(path), *_program()])}, set RANK_ID for each, "
            "or unset RANK_TABLE_FILE for a process alone"
        )


def _check_step(variables: Mapping[str, str], size: int) -> None:
    tasks = variables.get("SLURM_STEP_NUM_TASKS", "") if "SLURM_STEP_ID" in variables else ""
    if tasks.isdecimal() and int(tasks) > 1:
        raise ConfigurationError(
            f"init: srun has started {tasks} tasks of {size} ranks that cannot find each other; start them with "
            "srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)"
        )


def _check_host(table: RankTable, rank: int, path: Path | None) -> None:
    server = table.server_of(rank).server_id
    problem = host_problem(server)
    if problem:
        raise RankTableError(
            f"init: {path} puts rank {rank} on {server}, {problem}; start it there, or write this host's address as "
            "server_id"
        )


def _seconds(variables: Mapping[str, str]) -> float:
    words = variables.get(SECONDS_VARIABLE) or str(SECONDS)
    with suppress(ValueError):
        seconds = float(words)
        if 0 < seconds < float("inf"):
            return seconds
    raise ConfigurationError(f"{SECONDS_VARIABLE}={words!r} is not a time; give seconds above 0, or unset it")


def _digest(size: int, table: RankTable | None, path: Path | None) -> str:
    parts = [str(size)]
    if table is None:
        parts.append(f"session {os.getsid(0)}")
    else:
        parts.append(table.to_json())
        if table.is_local:
            parts.append(os.path.realpath(str(path)))
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:_DIGEST_CHARACTERS]


def _program() -> list[str]:
    specification = getattr(sys.modules.get("__main__"), "__spec__", None)
    if specification is not None:
        return ["-m", specification.name.removesuffix(".__main__"), *sys.argv[1:]]
    if Path(sys.argv[0]).name in ("pytest", "py.test"):
        return ["-m", "pytest", *sys.argv[1:]]
    return [sys.argv[0] or "train.py", *sys.argv[1:]]


def host_problem(name: str) -> str | None:
    """Return why ``name`` is not this host, or None if it is: its own name, or an address that one can listen at here.

    >>> host_problem("127.0.0.1") is None
    True
    """
    own = socket.gethostname()
    if name in (own, own.partition(".")[0]):
        return None
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return f"which cannot be resolved on {own} ({error.strerror or error})"
    if any(_is_own(family, address) for family, _, _, _, address in found):
        return None
    return f"which is not this host ({own})"


def _is_own(family: int, address: object) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(address)  # type: ignore[arg-type]  # as getaddrinfo gives it
        except OSError:
            return False
    return True
