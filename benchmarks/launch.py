"""What `mpiparallel run` adds to the start of a job: seconds until the first collective, beside a bare mpirun.

    python benchmarks/launch.py
    python benchmarks/launch.py --ranks 8 --rounds 11 --mpi .venv/bin/python .venv-mpich/bin/python

Both start the same script with the same ranks, flags of sharing cores, and one BLAS thread. A round runs each of them
once, in turns; the first is not counted. ``first`` is from the start of the launcher to the end of the first Allreduce
of all ranks at rank 0, ``end`` to the end of the launcher. ``+first`` is the median over rounds of the difference in
the same round, so that a load on the machine counts for both; ``ratio`` is that of the medians. The script uses mpi4py
alone, or `mpiparallel.communication`, whose import counts on both sides.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from resharding.launch import library_of

_SCRIPT = Path(__file__).parent / "launching" / "first_collective.py"
_SECONDS = 300.0
_REACHED = re.compile(r"first collective at ([0-9.]+)")
_VARIABLES = {
    **{name: "1" for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")},
    **{"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_osc": "^ucx"},
}


@dataclass(frozen=True)
class Start:
    """Seconds from the start of a launcher to the first collective, and to its own end."""

    first: float
    end: float


def start(command: Sequence[str], folder: Path) -> Start:
    """Run a job in ``folder`` and return its times; the program ends where the job fails."""
    begun = time.monotonic()
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **_VARIABLES},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    end = time.monotonic() - begun
    reached = _REACHED.search(ended.stdout)
    if ended.returncode or reached is None:
        raise SystemExit(f"{' '.join(command)} ended with exit code {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return Start(float(reached[1]) - begun, end)


def measure(python: str, ranks: int, way: str, rounds: int) -> tuple[list[Start], list[Start]]:
    """Return the times of a bare mpirun and of ``mpiparallel run``, a pair a round."""
    library = library_of(python)
    count = ["-n", str(ranks)]
    bare = [library.launcher, *library.flags, *count, python, str(_SCRIPT), way]
    ours = [python, "-m", "mpiparallel", "run", *count, str(_SCRIPT), way]
    found: tuple[list[Start], list[Start]] = ([], [])
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            # Who comes second finds the files of the first in the cache, so they change places.
            for side, command in sorted(enumerate((bare, ours)), reverse=number % 2 == 1):
                times = start(command, Path(folder))
                if number:
                    found[side].append(times)
    return found


def row(python: str, way: str, bare: Sequence[Start], ours: Sequence[Start]) -> str:
    """Return a line of figures."""
    firsts = [median(times.first for times in side) for side in (bare, ours)]
    ends = [median(times.end for times in side) for side in (bare, ours)]
    more = median(mine.first - other.first for other, mine in zip(bare, ours, strict=True))
    name = Path(library_of(python).launcher).parent.parent.name
    figures = f"{firsts[0]:>8.2f} {firsts[1]:>8.2f} {more:>+8.2f} {firsts[1] / firsts[0]:>6.2f}"
    return f"{name:<12} {way:<12} {figures} {ends[0]:>9.2f} {ends[1]:>8.2f}"


def main() -> None:
    """Print a line of figures for each MPI library and way of using it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mpi", nargs="+", default=[sys.executable], help="a Python for each MPI library")
    parser.add_argument("--ways", nargs="+", choices=("mpi4py", "mpiparallel"), default=["mpi4py", "mpiparallel"])
    flags = parser.parse_args()
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"{flags.ranks} ranks on {os.cpu_count()} cores, {flags.rounds} rounds, {load}; median seconds")
    print(f"{'':<25} {'mpirun':>8} {'run':>8} {'run':>8} {'run/':>6} {'mpirun':>9} {'run':>8}")
    print(
        f"{'environment':<12} {'script':<12} {'first':>8} {'first':>8} {'+first':>8} {'ratio':>6} {'end':>9} {'end':>8}"
    )
    # Not resolved: an environment's Python is a link to that of the system.
    for python in (str(Path(name).absolute()) for name in flags.mpi):
        for way in flags.ways:
            print(row(python, way, *measure(python, flags.ranks, way, flags.rounds)), flush=True)


if __name__ == "__main__":
    main()
