"""What it costs to compile, save, load and move a training as it grows: in layers, ranks, branches and parameters.

    python benchmarks/compile_time.py
    python benchmarks/compile_time.py --only "layers|branches" --repetitions 5

Each case runs in processes of its own. *layers* and *branches* are compiled for one rank of many, from the cells to the
plan of its memory, without data or MPI; the fastest of several runs counts. *small parameters* of 64 floats are
trained, saved, loaded and moved by four real ranks; times are those of the slowest rank. CPU seconds count only what
the process itself computed, so another load on the machine counts for little. *resume* compares the largest resident
memory of a resume with that of the steps that were saved, and *after a move* what ranks hold when their state has moved
from four ranks to two; both beyond what they hold before there is a network. Beside the figures stand the limits.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from compiling import single

RANKS_PROGRAM = Path(__file__).parent / "compiling" / "ranks.py"
Figures = dict[str, float]

LAYERS = [(12, 8), (48, 8), (96, 8), (48, 64), (48, 512), (48, 4096)]
LAYER_LIMIT, BRANCH_LIMIT, RESUME_LIMIT = 1.0, 2.0, 1.3
STAGE_LIMITS = {"built": 20.0, "step and save": 2.0, "loaded": 2.0, "first to 2": 5.0, "to 4": 5.0, "to 2": 5.0}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression: the cases whose name has a match")
    parser.add_argument("--repetitions", type=int, default=3, help="how often each compilation is timed (default 3)")
    parser.add_argument("--parameters", type=int, default=20_000, help="small parameters (default 20,000)")
    parser.add_argument("--megabytes", type=int, default=500, help="the state that is moved (default 500)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser


def cases(flags: argparse.Namespace) -> dict[str, Callable[[], Figures]]:
    """Return what is measured by name."""
    found: dict[str, Callable[[], Figures]] = {}
    for layers, ranks in LAYERS:
        found[f"{layers} layers on {ranks} ranks"] = partial(compiled, ("compile_layers", layers, ranks), flags)
    found["400 branches on 8 ranks"] = partial(compiled, ("compile_branches", 400, 8), flags)
    found[f"{flags.parameters} small parameters"] = partial(on_ranks, "small_parameters", flags.parameters)
    found["resume"] = resume
    found[f"{flags.megabytes} MB after a move"] = partial(on_ranks, "memory", flags.megabytes)
    return found


def compiled(worker: tuple[str, int, int], flags: argparse.Namespace) -> Figures:
    """Return the CPU seconds of the fastest of several compilations, each in a process of its own."""
    return min((apart(*worker) for _ in range(flags.repetitions)), key=lambda figures: sum(figures.values()))


def apart(function: str, *arguments: int | str) -> Figures:
    """Return what a function of ``compiling.single`` returns in a process of its own."""
    command = [sys.executable, __file__, "--worker", json.dumps([function, *arguments])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def on_ranks(case: str, size: int) -> Figures:
    """Return what four ranks measure of a case."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        run = [sys.executable, "-m", "mpiparallel", "run", "-n", "4", str(RANKS_PROGRAM.resolve()), case, str(size)]
        subprocess.run([*run, str(file)], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        found: Figures = json.loads(file.read_text(encoding="utf-8"))
    return found


def resume() -> Figures:
    """Return the largest resident memory of steps and of a resume in MB, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        steps, again = (apart(one, folder)["MB"] for one in ("train_and_save", "resume"))
    return {"MB of steps": steps, "MB of resume": again, "ratio": again / steps}


def lines(title: str, figures: Figures) -> list[str]:
    """Return the lines of a case: its figures, and the limits that they are to keep."""
    if " on " in title:
        limit = BRANCH_LIMIT if "branches" in title else LAYER_LIMIT if title.startswith("48") else None
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in figures.items())
        return [_line(title, f"{sum(figures.values()):.2f} CPU s ({parts})", limit)]
    if "small" in title:
        return [
            _line(f"{title}: {name}", f"{figures[f'{name}, CPU s']:.2f} CPU s, {figures[f'{name}, s']:.2f} s", limit)
            for name, limit in (("step", None), *STAGE_LIMITS.items())
        ]
    told = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
    return [_line(title, told, RESUME_LIMIT if title == "resume" else None)]


def _line(title: str, told: str, limit: float | None) -> str:
    return f"{title:40} {told}" + ("" if limit is None else f"; limit {limit:g}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen cases and print their figures beside the limits."""
    flags = make_parser().parse_args(arguments)
    if flags.worker:
        function, *given = json.loads(flags.worker)
        print(json.dumps(getattr(single, function)(*given)))
        return
    chosen = {title: measure for title, measure in cases(flags).items() if re.search(flags.only, title)}
    if not chosen:
        raise SystemExit(f"--only {flags.only!r} fits no case")
    rows = {}
    for title, measure in chosen.items():
        rows[title] = measure()
        print("\n".join(lines(title, rows[title])), flush=True)
    if flags.json:
        flags.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
