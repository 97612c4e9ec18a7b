"""From seconds to ratios, and from ratios to tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from resharding.cases import CASES
from resharding.methods import BY_HAND, FLOOR, MEMCPY

REFERENCES = (MEMCPY, FLOOR, BY_HAND)
_MEBIBYTE = 1 << 20

Seconds = Mapping[str, Mapping[str, float]]


def summarise(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of one job: of each case, of each method."""
    cases = {name: _case(case) if "seconds" in case else case for name, case in found["cases"].items()}
    return {**found, "cases": cases}


def _case(case: Mapping[str, Any]) -> dict[str, Any]:
    seconds: Seconds = case["seconds"]
    methods = {name: _method(name, seconds) for name, taken in seconds.items() if taken}
    for name, numbers in methods.items():
        numbers["extra_mebibytes"] = case["extra_bytes"][name] / _MEBIBYTE
        numbers["note"] = case["notes"].get(name, "")
    return {"methods": methods, "methods_left_out": case["methods_left_out"], "load": case["load"]}


def _method(name: str, seconds: Seconds) -> dict[str, Any]:
    taken = list(seconds[name].values())
    return {
        "median_ms": median(taken) * 1e3,
        "min_ms": min(taken) * 1e3,
        "rounds": len(taken),
        "ratio": {other: ratio for other in REFERENCES if (ratio := paired(seconds, name, other)) is not None},
        "ratio_of_minima": {
            other: min(taken) / min(seconds[other].values()) for other in REFERENCES if seconds.get(other)
        },
    }


def paired(seconds: Seconds, name: str, other: str) -> float | None:
    """Return the median, over the rounds that both ran in, of the time of one method over that of the other.

    >>> paired({"a": {"0": 2.0, "4": 6.0}, "b": {"0": 1.0, "1": 9.0, "4": 2.0}}, "a", "b")
    2.5
    """
    rounds = [turn for turn in seconds[name] if turn in seconds.get(other, ())]
    return median(seconds[name][turn] / seconds[other][turn] for turn in rounds) if rounds else None


def table(report: Mapping[str, Any]) -> str:
    """Return the report of one job for people."""
    flags = f", flags {' '.join(report['flags'])}" if report.get("flags") else ""
    lines = [f"{report['library']}, {report['ranks']} ranks on {report['cores']} cores{flags}"]
    for name, case in report["cases"].items():
        lines += ["", f"{name}: {CASES[name].meaning}", *_rows(case)]
    return "\n".join(lines)


def _rows(case: Mapping[str, Any]) -> list[str]:
    if "methods" not in case:
        return [f"  left out: {case['left_out']}"]
    heads = "".join(f"{f'x {name}':>18}" for name in REFERENCES)
    before, after = case["load"]
    rows = [
        f"  load {before:.1f} to {after:.1f}; ratios are medians over rounds, in brackets those of the fastest runs"
    ]
    rows.append(f"  {'':<26}{'median ms':>11}{'fastest':>10}{'rounds':>7}{heads}{'+MiB':>7}")
    for name, numbers in case["methods"].items():
        ratios = "".join(f"{_ratios(numbers, other):>18}" for other in REFERENCES)
        rows.append(
            f"  {name:<26}{numbers['median_ms']:>11.2f}{numbers['min_ms']:>10.2f}{numbers['rounds']:>7}"
            f"{ratios}{numbers['extra_mebibytes']:>7.0f}  {numbers['note']}".rstrip()
        )
    rows += [f"  {name:<26} left out: {reason}" for name, reason in case["methods_left_out"].items()]
    return rows


def _ratios(numbers: Mapping[str, Any], other: str) -> str:
    if other not in numbers["ratio"]:
        return "-"
    return f"{numbers['ratio'][other]:.2f} ({numbers['ratio_of_minima'][other]:.2f})"
