"""How fast a state goes to files and comes back, beside plain writes and reads of the same bytes, and beside others.

    python benchmarks/checkpoint.py
    python benchmarks/checkpoint.py --states transformer --ranks 2 --cases same columns --folder /dev/shm /data
    python benchmarks/checkpoint.py --kinds transform --peers mindspore

It starts the ranks itself, all on this host. First the ranks save: each method to files of its own, in turns, from when
the first rank begins to when the last one ends and all is on disk. Then as many ranks as a case has, of another mpirun,
load what each method has saved; the first result of each is compared with what was saved, element by element. A share
is the median over rounds of the time of the raw way over that of a method in the same round, so that a load on the
machine counts for both.

``raw`` is what no method can beat: each rank writes its arrays one after the other with ``pwrite`` to a new file, then
``fsync`` and rename; or reads as many bytes as it wants with ``preadv`` from a file that has nothing else, into memory
that it has touched before. ``raw, new arrays`` reads into new memory. ``ours`` is the whole of ``save_shards`` and of
``load_state``, with digests, agreement and manifest, into new arrays; PyTorch's distributed checkpoint (DCP) loads into
arrays that are there. safetensors neither syncs its files nor has digests; each rank writes and reads files of its own.
Before each load the kernel is told to forget the files; what lies in memory (tmpfs) it cannot forget.

An asynchronous save is measured beside a copy of the state into memory that is there. A transform runs in a process of
its own, and so does MindSpore's, on the same files.

DCP and safetensors run in the environment that ``make .venv-torch/.interop`` makes, one process beside each rank;
MindSpore in that of ``make .venv-mindspore/.interop``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkpointing import transform
from checkpointing.methods import COPY, LOADERS, RAW, SAVERS
from checkpointing.report import summarise, table
from checkpointing.states import LOADS, SOURCES, STATES
from resharding.launch import Library, RanksFailedError, library_of, run_ranks

_ROOT = Path(__file__).parents[1]
_MEMORY = Path("/dev/shm")
_PROGRAM = Path(__file__).with_name("checkpointing") / "rank.py"
_MOST_TRANSFORMS = 3
KINDS = ("save", "load", "asynchronous", "transform")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="what is measured (default all)")
    parser.add_argument("--states", nargs="+", choices=STATES, default=list(STATES), help="what is saved (default all)")
    parser.add_argument("--cases", nargs="+", choices=LOADS, default=list(LOADS), help="what is loaded (default all)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4], help="numbers of ranks (default 1 2 4)")
    parser.add_argument("--megabytes", type=int, default=256, help="MiB of a state (default 256)")
    folders = [_MEMORY, Path(tempfile.gettempdir())] if _MEMORY.is_dir() else [Path(tempfile.gettempdir())]
    parser.add_argument("--folder", type=Path, nargs="+", default=folders, help="where files lie, each is measured")
    parser.add_argument("--peers", default="", help="a regular expression: only methods whose name has it, and raw")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of a case (default 11)")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds after which a slow method is left alone")
    parser.add_argument("--mpi", default=sys.executable, help="the Python whose mpi4py is used")
    torch, mindspore = (_ROOT / f".venv-{name}" / "bin" / "python" for name in ("torch", "mindspore"))
    parser.add_argument("--torch", type=Path, default=torch, help="the Python that has PyTorch and safetensors")
    parser.add_argument("--mindspore", type=Path, default=mindspore, help="the Python that has MindSpore")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that one mpirun may take")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure; print a table after each case, and end with 1 if ranks failed."""
    flags = make_parser().parse_args(arguments)
    library = library_of(flags.mpi)
    reports: list[dict[str, Any]] = []
    problems: list[str] = []
    for folder in flags.folder:
        place = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=folder))
        try:
            here = {"place": str(place), "file_system": file_system_of(folder)}
            if "transform" in flags.kinds:
                reports += [_transform(state, here, flags) for state in flags.states]
            for job, ranks in _jobs(flags):
                told = {**job, **here}
                try:
                    reports.append(_report(library, ranks, told, flags.timeout))
                except RanksFailedError as error:
                    problems.append(str(error.args[0]))
                    continue
                if job["kind"] in flags.kinds:
                    sys.stdout.write(table(reports[-1]) + "\n\n")
                    sys.stdout.flush()
        finally:
            shutil.rmtree(place, ignore_errors=True)
    if flags.json:
        flags.json.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    if problems:
        raise SystemExit("\n".join(problems))


def file_system_of(folder: Path) -> str:
    """Return the kind of file system that a folder is on."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, point, found, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, found
    return kind


def _jobs(flags: argparse.Namespace) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield what ranks have to do, and how many they are: save, then load what was saved."""
    fits = re.compile(flags.peers)
    names = {
        "save": [name for name in SAVERS if name == RAW or fits.search(name)],
        "load": [name for name in LOADERS if name == RAW or fits.search(name)],
    }
    common = {"rounds": flags.rounds, "patience": flags.patience, "peer_python": str(flags.torch)}
    for state in flags.states:
        for ranks in flags.ranks:
            job = {**common, "state": state, "mebibytes": flags.megabytes, "saved_ranks": ranks, "load": "same"}
            for source in SOURCES if ranks > 1 else ["rows"]:
                loads = [name for name in flags.cases if LOADS[name].source == source and _suits(name, ranks)]
                if "save" in flags.kinds or ("load" in flags.kinds and loads):
                    rounds = flags.rounds if "save" in flags.kinds else 0
                    yield {**job, "kind": "save", "source": source, "methods": names["save"], "rounds": rounds}, ranks
                for name in loads if "load" in flags.kinds else ():
                    told = {**job, "kind": "load", "source": source, "methods": names["load"], "load": name}
                    yield told, LOADS[name].ranks(ranks)
            if "asynchronous" in flags.kinds:
                yield {**job, "kind": "asynchronous", "source": "rows", "methods": []}, ranks


def _transform(state: str, here: Mapping[str, str], flags: argparse.Namespace) -> dict[str, Any]:
    ours = [transform.COPY, transform.OURS, transform.OURS_TWO, transform.OURS_SHARDS]
    pythons = {name: sys.executable for name in ours}
    if re.search(flags.peers, transform.MINDSPORE):
        pythons[transform.MINDSPORE] = str(flags.mindspore)
    folder = Path(here["place"]) / "transform"
    folder.mkdir()
    load = os.getloadavg()[0]
    found = transform.measure(
        folder, state, flags.megabytes, pythons, min(flags.rounds, _MOST_TRANSFORMS), flags.timeout
    )
    shutil.rmtree(folder)
    found |= {"kind": "transform", "state": state, **here, "load_average": [load, os.getloadavg()[0]]}
    sys.stdout.write(transform.table(found) + "\n\n")
    sys.stdout.flush()
    return found


def _suits(case: str, ranks: int) -> bool:
    """Return whether a case differs from loading as it was saved."""
    return case == "same" or ranks > 1


def _report(library: Library, ranks: int, job: dict[str, Any], timeout: float) -> dict[str, Any]:
    found = run_ranks(library, ranks, job, timeout, _PROGRAM)
    ceiling = COPY if job["kind"] == "asynchronous" else RAW
    return {**job, **summarise(found, ceiling)}


if __name__ == "__main__":
    main()
