"""The cost model against what real ranks do: memory of a rank, and seconds of a step.

    python benchmarks/cost_model.py memory
    python benchmarks/cost_model.py memory --scale 0.25 --only Transformer
    python benchmarks/cost_model.py steps --ranks 4 8 --count 24 --seconds 600 --keep measured.jsonl
    python benchmarks/cost_model.py again measured.jsonl

``memory`` trains three steps in twelve ways, each on fresh ranks. It compares the rise of resident memory, from before
binding to its peak in the third step, with the forecast, on the rank that has grown most. It does so twice and takes
the second, so that loops are compiled before; what libraries take is measured first, as ``mpiparallel calibrate`` does.

``steps`` measures the machine with all ranks busy, then times strategies that were drawn: by the clock, and what each
core spends, which other programs on the machine change little: where ranks share cores, that is the time by the clock
of a machine that is theirs. A product of matrices between the steps tells the pace of the cores; what they spend is
counted at the pace that the same product told while the machine was measured. All strategies are gone through twice.
By the clock the fastest step of each counts, of cores the median; how the two rounds agree is the noise. Printed is
how predicted and measured seconds rank, of all strategies and of pairs that differ by more than noise. So are the
median error, and what the strategy that the model likes best takes over the best that was measured: the best of all,
which is short by chance, too, and the best of one round in the other. For each network and number of ranks it takes
as long as ``--seconds`` says, and a little more. ``again`` holds the model against what ``--keep`` has kept of such
runs, on the machine as it was measured then. Nothing is timed, so a change of the model can be judged.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from modelling.agreement import agreement, chosen_over_best, ordered_beyond_noise
from modelling.networks import NETWORKS, training
from modelling.plans import Plan, memory_plans, timed_plans
from modelling.rank import forecast, set_up, told_kernels
from resharding.launch import Library, RanksFailedError, library_of, run_ranks

from mpiparallel import Tensor
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.cluster_file import parse_machine

PROGRAM = Path(__file__).parent / "modelling" / "rank.py"
_MEGA = 1e6
_LONGEST = 600.0
_CHOICES = {"clock": min, "core": median}


def memory(flags: argparse.Namespace) -> None:
    """Print a line for each way to train: the model's MB, the measured ones, and the error."""
    library, libraries = library_of(flags.python), {}
    print(f"load {os.getloadavg()[0]:.1f}; MB of the rank that has grown most")
    print(f"{'network':<13}{'way':<20}{'ranks':>6}{'model':>9}{'measured':>10}{'error':>9}   model by kind")
    errors = []
    for plan in _chosen(memory_plans(flags.scale), flags.only):
        if plan.ranks not in libraries:
            libraries[plan.ranks] = _asked(library, plan.ranks, {"what": "libraries", "plans": []})["libraries"]
        job = {"what": "memory", "plans": [plan.told], "seconds": _LONGEST, "libraries": libraries[plan.ranks]}
        # Twice: the first compiles loops and keeps them, which needs more memory than to load them.
        _, ranks = (_asked(library, plan.ranks, job)["plans"][0] for _ in range(2))
        most = max(ranks, key=lambda one: one["most"])
        told, grown = sum(most["told"].values()), most["most"]
        errors.append(abs(told / grown - 1))
        kinds = ", ".join(f"{kind} {size / _MEGA:.0f}" for kind, size in most["told"].items() if size >= _MEGA / 2)
        row = f"{plan.network:<13}{plan.name:<20}{plan.ranks:>6}{told / _MEGA:>9.1f}{grown / _MEGA:>10.1f}"
        print(f"{row}{told / grown - 1:>+9.1%}   {kinds}", flush=True)
        if flags.details:
            print(f"    {most}", flush=True)
    print(f"largest error {max(errors):.1%}, median {median(errors):.1%}; load {os.getloadavg()[0]:.1f}")


def steps(flags: argparse.Namespace) -> None:
    """Print a line for each strategy, and how well they agree, for each network and number of ranks."""
    library = library_of(flags.python)
    for count in flags.ranks:
        for network in _chosen_names(flags.only):
            plans = timed_plans(network, count, flags.count)
            job = {"what": "steps", "plans": [plan.told for plan in plans], "seconds": flags.seconds}
            each = flags.seconds / len(plans) / flags.rounds / 3
            answer = _asked(library, count, {**job, "each": each, "rounds": flags.rounds}, flags.seconds * 2)
            found = [_of_rounds(rows, min(answer["cores"], count), answer["pace"]) for rows in answer["plans"]]
            kept = {"network": network, "ranks": count, "machine": answer["machine"], "found": found}
            if flags.keep:
                with flags.keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**kept, "plans": [plan.told for plan in plans]}) + "\n")
            _report(network, count, plans, found, flags.details)


def _of_rounds(rounds: Sequence[dict[str, Any]], cores: int, pace: float) -> dict[str, Any]:
    """Return what was found of a plan: the seconds of the steps of each round, and the least of each kernel.

    Seconds of cores are those at the pace of the machine's measurement, step by step.
    """
    names = {name for one in rounds for name in one["kernels"]}
    return {
        **rounds[0],
        "clock": [one["clock"] for one in rounds],
        "core": [
            [spent / cores * pace / now for spent, now in zip(one["processors"], one["paces"], strict=True)]
            for one in rounds
        ],
        "kernels": {name: min(one["kernels"].get(name, 0.0) for one in rounds) for name in names},
    }


def again(flags: argparse.Namespace) -> None:
    """Print the same for what is kept of earlier runs, as the model says now."""
    for line in flags.file.read_text(encoding="utf-8").splitlines():
        kept = json.loads(line)
        if flags.only and kept["network"] not in flags.only:
            continue
        prices = Prices(parse_machine(kept["machine"], str(flags.file)))
        plans = [Plan.of_json(told) for told in kept["plans"]]
        for plan, one in zip(plans, kept["found"], strict=False):
            set_up(plan)
            step, arrays = training(plan)
            batch = [Tensor(array) for array in arrays]
            told = forecast(step, batch, prices)
            kernels = told_kernels(step, batch, prices)
            one.update(told=told.seconds, parts=dict(told.slowest.parts), told_kernels=kernels)
        _report(kept["network"], kept["ranks"], plans, kept["found"], flags.details)


def _report(network: str, count: int, plans: Sequence[Plan], found: Sequence[dict[str, Any]], details: bool) -> None:
    print(f"{network} on {count} ranks, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'model ms':>10}{'clock ms':>10}{'a core ms':>10}{'steps':>7}  strategy")
    # What others do makes the clock slower, and the pace of a core either way.
    typical = {
        name: [choose([seconds for steps in one[name] for seconds in steps]) for one in found]
        for name, choose in _CHOICES.items()
    }
    rows = zip(plans, found, *typical.values(), strict=False)
    for plan, one, *seconds in sorted(rows, key=lambda row: row[1]["told"]):
        numbers = "".join(f"{number * 1e3:>10.1f}" for number in (one["told"], *seconds))
        print(f"{numbers}{sum(map(len, one['clock'])):>7}  {plan.name}")
        if details:
            for kind in ("parts", "kernels", "told_kernels"):
                print(f"    {kind}: " + ", ".join(f"{name} {size * 1e3:.1f}" for name, size in one[kind].items()))
    if len(found) < 3:
        print("too few to compare", flush=True)
        return
    for name, measured in typical.items():
        told = agreement([one["told"] for one in found], measured)
        print(
            f"{name}: {len(found)} strategies, slowest {told.spread:.2f} of the fastest; rank correlation "
            f"{told.correlation:.3f}, median error {told.error:.1%} ({told.scaled:.1%} when scaled), chosen "
            f"{told.chosen:.3f} of the best",
            flush=True,
        )
        _report_noise(name, [pair for pair in zip(found, measured, strict=True) if len(pair[0][name]) > 1])


def _report_noise(name: str, measured: Sequence[tuple[dict[str, Any], float]]) -> None:
    """Print how well the rounds agree, and how predictions order what differs by more than that."""
    if len(measured) < 3:
        return
    choose = _CHOICES[name]
    first, last = ([choose(one[name][place]) for one, _ in measured] for place in (0, -1))
    noise = agreement(first, last)
    told = [one["told"] for one, _ in measured]
    rounds = list(zip(first, last, strict=True))
    ordered = ordered_beyond_noise(told, [seconds for _, seconds in measured], rounds)
    over = chosen_over_best(told, rounds)
    print(
        f"{name}, {len(first)} strategies in two rounds: rank correlation of these {noise.correlation:.3f}, median "
        f"difference {noise.error:.1%}; beyond the noise ({ordered.noise:.1%}) are {ordered.pairs} pairs, Kendall's "
        f"rank correlation of these with the model {ordered.correlation:.3f}; chosen {over[0]:.3f} and {over[1]:.3f} "
        f"of what the other round has as the best, together {prod(over) ** 0.5:.3f}",
        flush=True,
    )


def _asked(library: Library, ranks: int, job: dict[str, Any], seconds: float = _LONGEST) -> dict[str, Any]:
    try:
        return run_ranks(library, ranks, {"seconds": seconds, **job}, seconds + 120, PROGRAM)
    except RanksFailedError as error:
        found: dict[str, Any] = error.args[1]
        if not found.get("plans"):
            raise
        print(error.args[0], flush=True)
        return found


def _chosen(plans: Sequence[Plan], names: Sequence[str]) -> list[Plan]:
    return [plan for plan in plans if not names or plan.network in names]


def _chosen_names(names: Sequence[str]) -> list[str]:
    return [name for name in NETWORKS if not names or name in names]


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    of_both = argparse.ArgumentParser(add_help=False)
    of_both.add_argument("--python", default=sys.executable, help="the Python whose MPI library runs the ranks")
    of_both.add_argument("--only", nargs="+", default=[], choices=list(NETWORKS), help="these networks alone")
    of_both.add_argument("--details", action="store_true", help="all figures")
    kinds = parser.add_subparsers(help="default memory")
    of_memory = kinds.add_parser("memory", help="of a rank, by kind", parents=[of_both])
    of_memory.add_argument("--scale", type=float, default=1.0, help="of the networks: 0.25 needs a quarter")
    of_memory.set_defaults(run=memory)
    of_steps = kinds.add_parser("steps", help="seconds of strategies", parents=[of_both])
    of_steps.add_argument("--ranks", type=int, nargs="+", default=[4, 8])
    of_steps.add_argument("--count", type=int, default=24, help="strategies of each network")
    of_steps.add_argument("--seconds", type=float, default=600.0, help="for each network and number of ranks")
    of_steps.add_argument("--rounds", type=int, default=2, help="how often all strategies are gone through")
    of_steps.add_argument("--keep", type=Path, metavar="FILE", help="add what was measured to a file")
    of_steps.set_defaults(run=steps)
    of_again = kinds.add_parser("again", help="the model as it is against what was kept", parents=[of_both])
    of_again.add_argument("file", type=Path)
    of_again.set_defaults(run=again)
    flags = parser.parse_args(sys.argv[1:] or ["memory"])
    flags.run(flags)


if __name__ == "__main__":
    main()
