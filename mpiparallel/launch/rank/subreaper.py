"""Two processes above a rank, so that no process which its script has started outlives it, in whatever session."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.rank.process_tree import children_of, die_with_parent

# The fields of proc_pid_stat(5) that say where the words of the command are in memory, from the third field on.
_BEGIN, _END = 48 - 3, 49 - 3
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# A pipe's reader ends by itself when the rank has, and has something to write until then.
_LEAVING_SECONDS = 2.0
_TERMINATING_SECONDS = 1.0
_KILLING_SECONDS = 5.0
_NAP_SECONDS = 0.02
_MOST_NAMED = 3
_LONGEST_NAME = 60


def stand_guard(folder: RankFolder, remark: Callable[[str], None]) -> None:
    """Return in a grandchild of this process: from now on that is the rank, whose ``folder`` tells if it ends well.

    This process, which mpirun knows, waits, and ends as the rank does. The guard is between the two, where mpirun does
    not reach it. It inherits every process whose parents have ended (prctl(2), ``PR_SET_CHILD_SUBREAPER``), so none is
    looked for by name or number. When the rank or this process has ended, it ends them, and itself as the rank did.
    After a rank that ended well they have a moment to end by themselves, and those that do not are told by ``remark``.
    Linux only; elsewhere nothing happens.
    """
    if sys.platform != "linux":
        return
    sys.stdout.flush()
    sys.stderr.flush()
    starter, title = os.getpid(), f"rank {folder.rank}"
    # Signals of a group come to the rank too; here they would be one death before its time.
    former = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    # Else its collector would write to what the three share, which the kernel then copies page by page.
    gc.freeze()
    try:
        guard = os.fork()
        if guard:
            change_title(f"mpiparallel: waits for {title}")
            _end_as(os.waitpid(guard, 0)[1])
        _inherit(starter)
        rank = os.fork()
    except OSError as error:
        raise LaunchError(
            f"{os.uname().nodename}: no process to guard {title} ({error.strerror}); allow more (ulimit -u), or give "
            "--keep-children"
        ) from error
    if rank:
        # After the rank was made, which so stays in the group that mpirun signals.
        os.setpgid(0, 0)
        change_title(f"mpiparallel: guards {title}")
        status = _status_of(rank, starter, folder)
        if os.getppid() == starter and _has_ended_well(folder):
            _let_leave(starter, remark)
        _end_children(signal.SIGKILL, _KILLING_SECONDS)
        _end_as(status)
    die_with_parent()
    # They count as old now, which the collector seldom looks at.
    gc.unfreeze()
    signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _inherit(starter: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    library = ctypes.CDLL(None)
    library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != starter:
        os._exit(0)


def _status_of(rank: int, starter: int, folder: RankFolder) -> int:
    """Wait for the end of the rank, and return how it ended: as if killed, where the starter has ended before.

    A death is written down: MPICH's launcher kills the other processes as soon as it sees one, and may tell of those.
    """
    while True:
        signal.sigwait((signal.SIGCHLD, signal.SIGTERM))
        status = dict(_reaped()).get(rank)
        if status is not None:
            if not _has_ended_well(folder):
                with suppress(OSError):
                    folder.wait_status.write_text(f"{time.time()} {status}\n")
            return status
        if os.getppid() != starter:
            return int(signal.SIGKILL)


def _has_ended_well(folder: RankFolder) -> bool:
    return folder.completed.exists() or folder.preempted.exists()


def _let_leave(starter: int, remark: Callable[[str], None]) -> None:
    """Wait a moment for children that end by themselves; ask those that stay to end, and say which they are."""
    deadline = time.monotonic() + _LEAVING_SECONDS
    while are_left := _has_children():
        if os.getppid() != starter or time.monotonic() >= deadline:
            break
        signal.sigtimedwait((signal.SIGCHLD, signal.SIGTERM), max(0.0, deadline - time.monotonic()))
    if not are_left:
        return
    named = [_name_of(child) for child in children_of(os.getpid())]
    if named:
        with suppress(OSError):
            remark(_words(named))
        _end_children(signal.SIGTERM, _TERMINATING_SECONDS)


def _end_children(number: signal.Signals, seconds: float) -> None:
    """Send ``number`` once to each child, those that come from its end too, until there are none or time is up."""
    # Nobody else waits for them, so until then none of their numbers is another process's.
    deadline = time.monotonic() + seconds
    told: set[int] = set()
    while _has_children() and time.monotonic() < deadline:
        for child in children_of(os.getpid()):
            if child not in told:
                told.add(child)
                with suppress(OSError):
                    os.kill(child, number)
        signal.sigtimedwait((signal.SIGCHLD,), _NAP_SECONDS)


def _has_children() -> bool:
    """Return whether any child is left; who has ended is none."""
    for _ in _reaped():
        pass
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _reaped() -> Iterator[tuple[int, int]]:
    """Yield the number and the status of each child that has ended."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended


def _name_of(process: int) -> str:
    words = ""
    with suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
    shown = "".join(letter if letter.isprintable() else "?" for letter in words[:_LONGEST_NAME])
    return f"{shown or 'a process'} (pid {process})"


def _words(named: list[str]) -> str:
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return (
        f"mpiparallel: the script has left processes running: {', '.join(named[:_MOST_NAMED])}{more}; they are ended "
        "now, unless --keep-children is given"
    )


def _end_as(status: int) -> NoReturn:
    """End this process as one whose ``status`` wait(2) has told."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        # The rank has left a core where that is wanted.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os._exit(128 + number)
    os._exit(os.WEXITSTATUS(status))


def change_title(title: str) -> None:
    """Write ``title`` where the kernel looks for the words of this process's command; it is cut to their length."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()
        begin, end = int(fields[_BEGIN]), int(fields[_END])
        # 0 where the kernel does not tell it.
        if 0 < begin < end:
            content = title.encode(errors="replace")[: end - begin - 1]
            ctypes.memmove(begin, content.ljust(end - begin, b"\0"), end - begin)
