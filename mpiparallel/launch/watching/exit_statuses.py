"""How MPI processes ended, as far as mpirun says it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mpiparallel.cluster.exit_codes import SIGNALLED, of_wait
from mpiparallel.launch.job.rank_folder import RankFolder

_OPENMPI_SIGNAL = re.compile(r"process rank ([0-9]+) with PID [0-9]+ on node \S+ exited on\s+signal ([0-9]+)")
_OPENMPI_CODE = re.compile(r"Process name: \[[^,\]]*,([0-9]+)\]\s+Exit code: +([0-9]+)")
_OPENMPI_IMPROPER = re.compile(r"due to process rank ([0-9]+) with PID [0-9]+ on node \S+ exiting\s+improperly")
_MPICH_CODES = re.compile(r"^\[mpiexec@[^\]]*\] Exit codes: (.*)$", re.MULTILINE)
_MPICH_HOST = re.compile(r"\[[^\]]*\]")
_FATAL = re.compile(r"^Fatal Python error: (.*)$", re.MULTILINE)
_FATAL_SIGNALS = {
    "Illegal instruction": 4,
    "Aborted": 6,
    "Bus error": 7,
    "Floating-point exception": 8,
    "Segmentation fault": 11,
}
_TAIL_BYTES = 64 * 1024


def exit_statuses(output: str, size: int) -> Mapping[int, int]:
    """Return exit codes by MPI process, 128 and its number for a signal, as far as the ``output`` of mpirun tells them.

    Open MPI tells that of one process, MPICH with ``-print-all-exitcodes`` those of all.

    >>> dict(exit_statuses("[mpiexec@vm] Exit codes: [n0] 0,9 [n1] 1280,0", 4))
    {0: 0, 1: 137, 2: 5, 3: 0}
    """
    found = {int(process): SIGNALLED + int(number) for process, number in _OPENMPI_SIGNAL.findall(output)}
    found |= {int(process): int(code) for process, code in _OPENMPI_CODE.findall(output)}
    found |= {int(process): 0 for process in _OPENMPI_IMPROPER.findall(output)}
    for listed in _MPICH_CODES.findall(output):
        codes = _MPICH_HOST.sub(",", listed).replace(" ", "").strip(",").split(",")
        codes = [code for code in codes if code]
        if len(codes) == size and all(code.isdigit() for code in codes):
            found |= {process: of_wait(int(code)) for process, code in enumerate(codes)}
    return {process: code for process, code in found.items() if process < size and code < 256}


def fatal_signal(folder: RankFolder) -> int | None:
    """Return the exit code of a rank whose log ends with Python's word on a fatal signal, or None."""
    try:
        with folder.log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
    except OSError:
        return None
    found = _FATAL.findall(text)
    number = _FATAL_SIGNALS.get(found[-1].strip()) if found else None
    return SIGNALLED + number if number else None
