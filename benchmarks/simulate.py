"""What simulations of large trainings take, CPU seconds and peak memory: ``python benchmarks/simulate.py``."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

_SCRIPT = Path(__file__).with_name("modelling") / "simulated_transformer.py"
_INPUT = "--input=x=4194304,12288:float32"
_CASES = {
    "4 layers, dp 8 x mp 8": (64, ["--layers=4"]),
    "96 layers, dp 2048 x mp 8": (16384, []),
    "... with shards": (16384, ["--shards"]),
    "... recomputed": (16384, ["--recompute"]),
}
_STAGED = {"96 layers, 16 stages": (16384, ["--stages=16", "--micro-batches=16"])}


def simulated(ranks: int, words: list[str]) -> tuple[float, float, float]:
    """Return the CPU seconds and the peak megabytes that a simulation takes, and the seconds of the step."""
    command = [sys.executable, "-m", "mpiparallel", "simulate", "--json", f"--ranks={ranks}", _INPUT, str(_SCRIPT)]
    environment = {**os.environ, "PYTHONPATH": str(_SCRIPT.parent.parent.parent)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run([*command, "--arguments", *words], capture_output=True, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, after.ru_maxrss / 1024, json.loads(ended.stdout)["seconds"]


def main() -> None:
    """Print one line for each simulation; the peak is the largest so far."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--stages", action="store_true", help="a pipeline as well, of which every micro-batch is traced"
    )
    arguments = parser.parse_args()
    print(f"{'training':<28}{'ranks':>7}{'CPU s':>8}{'MB':>7}{'step s':>10}")
    for name, (ranks, words) in ({**_CASES, **_STAGED} if arguments.stages else _CASES).items():
        spent, peak, seconds = simulated(ranks, words)
        print(f"{name:<28}{ranks:>7}{spent:>8.1f}{peak:>7.0f}{seconds:>10.4g}", flush=True)


if __name__ == "__main__":
    main()
