"""Starting mpirun and watching it to the end of the job."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mpiparallel.checkpoint.files.durable_file import write_durably
from mpiparallel.cluster.flight.recorder import spans
from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.address import VARIABLE
from mpiparallel.launch.control.control_server import ControlServer
from mpiparallel.launch.control.rank_registry import RankEntry, RankRegistry
from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.lost_output import LostOutput, lost_in_words
from mpiparallel.launch.job.mpirun_command import MpirunCommand
from mpiparallel.launch.job.rank_folder import ATTEMPT_VARIABLE, RankFolder
from mpiparallel.launch.rank.left_sessions import remove_left_sessions
from mpiparallel.launch.rank.process_tree import die_with_parent
from mpiparallel.launch.watching.hang_check import HangCheck
from mpiparallel.launch.watching.job_outcome import JobOutcome, judge
from mpiparallel.launch.watching.mpirun_output import MpirunOutput
from mpiparallel.launch.watching.mpirun_result import MpirunResult
from mpiparallel.launch.watching.run_policy import RunPolicy
from mpiparallel.launch.watching.watch import Watch

LAUNCHER_LOG = "launcher.log"
"""The file in the log directory that has what mpirun says."""


def supervise(
    command: MpirunCommand, ranks: int, log_dir: Path, policy: RunPolicy | None = None, console: Console | None = None
) -> JobOutcome:
    """Run ``command`` to its end by ``policy`` and return how the job of ``ranks`` ranks ended.

    What the shown ranks print appears on ``console`` as it comes. SIGINT and SIGTERM end the job, the preemption signal
    is passed on to the ranks.

    Raises
    ------
    LaunchError
        ``log_dir`` cannot be written, or another job is using it.
    """
    agreed = policy or RunPolicy()
    console = console or Console()
    folders = [RankFolder(log_dir, rank) for rank in range(ranks)]
    registry = RankRegistry(ranks)
    with _reserved(log_dir), ControlServer(registry, agreed.spans_hosts) as server:
        for folder in folders:
            folder.begin(agreed.attempt)
        _write_hostfile(command)
        remove_left_sessions()
        started_at = time.time()
        with MpirunOutput(log_dir / LAUNCHER_LOG) as output:
            variables = {VARIABLE: str(server.address), ATTEMPT_VARIABLE: str(agreed.attempt)}
            process = _start(command.with_variables(variables), output.descriptor)
            hangs = HangCheck(folders, agreed.watchdog, agreed.survives_deaths)
            watch = Watch(process, folders, agreed, server, registry, hangs, console, output)
            watch.to_end()
            said, unwritten = output.text(), output.lost
        result = MpirunResult(
            watch.process.returncode,
            said,
            timeout=agreed.timeout if watch.timed_out else None,
            signal_number=watch.signal_number,
            started_at=started_at,
            ended_at=watch.ended_at,
            over_at=watch.over_at,
            sentence=watch.sentence,
            shown=frozenset(agreed.shown.ranks if console.is_read_together else ()),
            survives_deaths=agreed.survives_deaths,
            keeps_logs=agreed.keeps_logs,
        )
        losers = [entry for entry in registry if entry.lost]
        if losers:
            console.say(f"warning: {_loss_in_words(losers, log_dir)}")
        if unwritten:
            console.say(f"warning: mpirun: {lost_in_words(unwritten, log_dir)}")
        watch.segments.remove()
        remove_left_sessions()
        return judge(folders, result, registry)


def _loss_in_words(losers: Sequence[RankEntry], log_dir: Path) -> str:
    total = LostOutput(sum(entry.lost.size for entry in losers), losers[0].lost.reason)
    return f"rank{'s' * (len(losers) > 1)} {spans([entry.rank for entry in losers])}: {lost_in_words(total, log_dir)}"


@contextmanager
def _reserved(log_dir: Path) -> Iterator[None]:
    """Keep ``log_dir`` for this job: a second one would overwrite the records that tell how this one ended."""
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(log_dir, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise LaunchError(f"--log-dir {log_dir}: {error.strerror}; give a folder that can be written") from error
    try:
        _lock(descriptor, log_dir)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, log_dir: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LaunchError(f"--log-dir {log_dir}: another job is writing there; give each job its own") from error


def _write_hostfile(command: MpirunCommand) -> None:
    if command.hostfile is None:
        return
    path, text = command.hostfile
    try:
        write_durably(path, text.encode())
    except OSError as error:
        raise LaunchError(f"{path}: {error.strerror}; give a --log-dir that can be written") from error


def _start(command: MpirunCommand, output: int) -> subprocess.Popen[bytes]:
    # Its own process group, so that Ctrl-C reaches mpirun once, through this process.
    return subprocess.Popen(
        command.argv,
        env=dict(command.environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
