"""From seconds to shares of a ceiling, and from these to tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from checkpointing.methods import RAW
from checkpointing.states import LOADS, SOURCES, STATES

_MEBIBYTE = 1 << 20

Seconds = Mapping[str, Mapping[str, float]]


def summarise(found: Mapping[str, Any], ceiling: str = RAW) -> dict[str, Any]:
    """Return the numbers of one job, of each method that ran."""
    seconds: Seconds = found["seconds"]
    methods = {}
    for name, by_round in seconds.items():
        taken = list(by_round.values())
        if taken:
            methods[name] = {
                "median_ms": median(taken) * 1e3,
                "min_ms": min(taken) * 1e3,
                "rounds": len(taken),
                "share": share(seconds, name, ceiling),
                "share_of_fastest": min(seconds[ceiling].values()) / min(taken),
                "gigabytes_per_second": found["bytes"] / median(taken) / 1e9,
            }
    return {**{name: value for name, value in found.items() if name != "seconds"}, "methods": methods}


def share(seconds: Seconds, name: str, ceiling: str) -> float:
    """Return the median, over the rounds that both ran in, of the time of the ceiling over that of a method.

    >>> share({"a": {"0": 2.0, "4": 6.0}, "raw": {"0": 1.0, "1": 9.0, "4": 3.0}}, "a", "raw")
    0.5
    """
    rounds = [index for index in seconds[name] if index in seconds[ceiling]]
    return median(seconds[ceiling][index] / seconds[name][index] for index in rounds)


def table(report: Mapping[str, Any]) -> str:
    """Return the report of one job for people."""
    before, after = report["load_average"]
    lines = [
        f"{heading(report)}: {report['bytes'] / _MEBIBYTE:.0f} MiB in {report['place']} ({report['file_system']}), "
        f"load {before:.1f} to {after:.1f}",
        f"  {'':<34}{'median ms':>11}{'fastest':>10}{'rounds':>7}{'GB/s':>7}{'of raw speed':>14}{'(fastest)':>11}",
    ]
    for name, numbers in report["methods"].items():
        lines.append(
            f"  {name:<34}{numbers['median_ms']:>11.2f}{numbers['min_ms']:>10.2f}{numbers['rounds']:>7}"
            f"{numbers['gigabytes_per_second']:>7.2f}{numbers['share']:>14.2f}{numbers['share_of_fastest']:>11.2f}"
        )
    lines += [f"  {name:<34} left out: {reason}" for name, reason in report["methods_left_out"].items()]
    return "\n".join(lines)


def heading(report: Mapping[str, Any]) -> str:
    """Return what was done, in words."""
    state = f"{report['state']} ({STATES[report['state']].meaning})"
    ranks = report["saved_ranks"]
    if report["kind"] == "load":
        load = LOADS[report["load"]]
        return f"load {state}, {load.meaning}, {ranks} -> {load.ranks(ranks)} ranks"
    what = "save" if report["kind"] == "save" else "asynchronous save of"
    return f"{what} {state}, {SOURCES[report['source']]}, {ranks} ranks"
