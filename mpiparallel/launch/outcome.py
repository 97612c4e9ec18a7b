"""How a job ended: decided from what its ranks left, as mpirun's exit code 0 was seen after a host had died."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mpiparallel.launch.rank_folder import Failure, RankFolder

_TIMEOUT_CODE = 124
_OUTPUT_LINES = 20
_MPICH_SIGNAL = re.compile(r"TERMINATED WITH THE EXIT STRING: .*\(signal ([0-9]+)\)")
_OPENMPI_RANK = re.compile(r"noticed that process rank ([0-9]+) ")
_FRAME = re.compile(r'^Current thread .*\n +(File ".*)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Launch:
    """How mpirun ended: its exit code, what it printed, and what ended it before its time, if anything did.

    ``ended_at`` is in seconds since 1970: what ranks did later was only caused by that end.
    """

    code: int
    output: str = ""
    timeout: float | None = None
    signal_number: int | None = None
    ended_at: float = float("inf")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The exit code of the job, and what to tell the user; nothing if it ended well."""

    code: int
    message: str = ""


def judge(folders: Sequence[RankFolder], launch: Launch) -> Outcome:
    """Return how the job ended whose ranks left ``folders`` and whose mpirun ended as ``launch`` says.

    It ended well only if every rank completed. Otherwise the rank that failed first is named with its traceback, or the
    ranks that did not complete.
    """
    failures = [failure for failure in map(RankFolder.read_failure, folders) if failure]
    causes = [failure for failure in failures if failure.time <= launch.ended_at]
    if causes:
        return _failed(min(causes, key=lambda failure: failure.time), folders)
    missing = [folder for folder in folders if not folder.completed.is_file()]
    if launch.timeout is not None:
        words = f"not ended after {launch.timeout:g} s, so stopped; where the ranks were:"
        return Outcome(_TIMEOUT_CODE, "\n".join([words, *(_places(missing) or ["  at their end"])]))
    if not missing and not launch.code:
        return Outcome(0)
    if launch.signal_number is not None:
        return Outcome(128 + launch.signal_number, f"ended by {signal.Signals(launch.signal_number).name}")
    return _incomplete(missing, folders, launch)


def _failed(failure: Failure, folders: Sequence[RankFolder]) -> Outcome:
    folder = next(folder for folder in folders if folder.rank == failure.rank)
    return Outcome(
        failure.exit_code,
        f"rank {failure.rank} of {len(folders)} failed first: {failure.exception.splitlines()[-1]}\n"
        f"{failure.traceback.rstrip()}\nits log: {folder.log}",
    )


def _incomplete(missing: Sequence[RankFolder], folders: Sequence[RankFolder], launch: Launch) -> Outcome:
    code = _exit_code(launch)
    culprits = _named(missing, launch.output)
    if culprits:
        words = f"{_ranks(culprits)} of {len(folders)} ended without an exception; exit code {code}"
    elif missing:
        words = f"{_ranks(missing)} of {len(folders)} did not complete, and left no exception; exit code {code}"
    else:
        words = f"all {len(folders)} ranks completed, but mpirun then ended with exit code {code}"
    places = _places(missing)
    if len(places) == 1:
        places = []
    lines = launch.output.strip().splitlines()[-_OUTPUT_LINES:]
    logs = f"their logs: {folders[0].log_dir}/device*/train.log*"
    return Outcome(code, "\n".join([words, *places, *lines, logs]))


def _named(missing: Sequence[RankFolder], output: str) -> list[RankFolder]:
    """Return the rank that Open MPI says was killed; MPICH was seen to name one that it had only cleaned up itself."""
    found = _OPENMPI_RANK.search(output)
    return [folder for folder in missing if found and folder.rank == int(found[1])]


def _exit_code(launch: Launch) -> int:
    found = _MPICH_SIGNAL.search(launch.output)
    if found:
        return 128 + int(found[1])
    if launch.code < 0:
        return 128 - launch.code
    return launch.code or 1


def _places(missing: Iterable[RankFolder]) -> list[str]:
    """Say where each rank was when it was told to end, ranks at one place together."""
    places: dict[str, list[RankFolder]] = {}
    for folder in missing:
        text = folder.stack.read_text(errors="replace") if folder.stack.is_file() else ""
        found = _FRAME.search(text)
        places.setdefault(found[1] if found else "gave no sign", []).append(folder)
    return [f"  {_ranks(folders)}: {place}" for place, folders in places.items()]


def _ranks(folders: Sequence[RankFolder]) -> str:
    numbers = ", ".join(str(folder.rank) for folder in folders)
    return f"rank {numbers}" if len(folders) == 1 else f"ranks {numbers}"
