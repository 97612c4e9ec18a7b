"""What a full search finds beside plans by hand, and in how many CPU seconds: ``python benchmarks/full_search.py``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path

from mpiparallel.search.machine.cluster_file import load_machine

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conformance.compared_plans import HOSTS, Compared, by_hand, mixer, recommender, resnet, searched, transformer

CASES = {
    "transformer-4": transformer(4),
    "transformer-24": transformer(24),
    "transformer-96": transformer(96),
    "resnet-50": resnet(),
    "mixer-8": mixer(8),
    "recommender": recommender(),
}
_MOST_ROWS = 3


def rows(name: str, case: Compared, ranks: int, parts: Sequence[float], arguments: argparse.Namespace) -> None:
    """Print the best plans by hand and what is found, for each limit as a part of what data parallel takes."""
    machine = load_machine(arguments.cluster) if arguments.cluster else HOSTS
    plans = list(by_hand(case, ranks, machine))
    for part in parts:
        limit = part * plans[0][1].bytes
        told = f"{name:<15}{ranks:>6}  {f'{limit / 1e9:.3g} GB' if isfinite(limit) else 'no limit':>9}"
        fitting = sorted((one for one in plans if one[1].bytes <= limit), key=lambda one: one[1].seconds)
        for hand, one in fitting[:_MOST_ROWS]:
            print(f"{told}  {hand:<28}{one.seconds * 1e3:>10.4g}{one.bytes / 1e9:>9.3g}", flush=True)
        started = time.process_time()
        found = searched(case, ranks, limit, machine)
        spent = time.process_time() - started
        best = found.tried
        gap = f"{best.seconds / found.bound - 1:>8.0%}" if found.bound else ""
        print(
            f"{told}  {'found':<28}{best.seconds * 1e3:>10.4g}{best.bytes / 1e9:>9.3g}{gap}{spent:>8.1f}  {best.plan}"
        )
        if fitting and best.seconds > fitting[0][1].seconds * (1 + 1e-9):
            print(f"{told}  DEARER than by hand")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=["transformer-4", "recommender"], choices=list(CASES))
    parser.add_argument("--ranks", type=int, nargs="+", default=[8])
    parser.add_argument("--limits", type=float, nargs="+", default=[inf, 0.5], help="parts of data parallel's memory")
    parser.add_argument("--cluster", help="a cluster file; else hosts of 8 of the assumed machine")
    arguments = parser.parse_args()
    head = f"{'network':<15}{'ranks':>6}  {'limit':>9}  {'plan':<28}{'step ms':>10}{'GB':>9}"
    print(f"{head}{'gap':>8}{'CPU s':>8}")
    for name in arguments.networks:
        for ranks in arguments.ranks:
            rows(name, CASES[name], ranks, arguments.limits, arguments)


if __name__ == "__main__":
    main()
