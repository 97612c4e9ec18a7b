"""From timings to numbers, and from numbers to a table for people."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from mpiparallel.graph.execution.program import Profile

CEILING_SIZE = 1024
KINDS = {"gemm": "GEMM", "kernel": "other kernels", "communication": "communication", "python": "Python"}


@dataclass
class Timings:
    """Seconds: of plain steps, of profiled steps with their profiles, of the plain product, of each peer's steps."""

    plain: list[float] = field(default_factory=list)
    profiled: list[tuple[float, Profile]] = field(default_factory=list)
    product: list[float] = field(default_factory=list)
    peers: dict[str, list[float]] = field(default_factory=dict)


def summarise(flags: Namespace, heading: str, timings: Timings, costs: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of the fastest plain and the fastest profiled step."""
    whole, profile = min(timings.profiled, key=lambda one: one[0])
    kinds = {kind: profile.kinds.get(kind, 0.0) for kind in KINDS if kind != "python"}
    kinds["python"] = whole - sum(kinds.values())
    gemm_rate = costs["gemm_operations"] / kinds["gemm"] / 1e9 if kinds["gemm"] else 0.0
    blas = next((library for library in threadpool_info() if library["user_api"] == "blas"), {})
    return {
        "heading": heading,
        "flags": {name: value for name, value in vars(flags).items() if isinstance(value, (int, str))},
        "ranks": flags.dp * flags.mp,
        "blas": {"core": blas.get("architecture", "unknown"), "threads": blas.get("num_threads", 0)},
        "step_ms": min(timings.plain) * 1e3,
        "step_median_ms": _median_ms(timings.plain),
        "profiled_step_ms": whole * 1e3,
        "milliseconds": {kind: seconds * 1e3 for kind, seconds in kinds.items()},
        "shares": {kind: seconds / whole for kind, seconds in kinds.items()},
        "gemm_gflops": gemm_rate,
        "ceiling_gflops": 2 * CEILING_SIZE**3 / min(timings.product) / 1e9,
        "operators_ms": {name: 1e3 * profile.operators[name] for name in _by_time(profile)},
        "peers": {name: _against(timings.plain, seconds) for name, seconds in timings.peers.items()},
        **costs,
    }


def _against(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """Return a peer's numbers, and our time over its: of the fastest steps and of the medians."""
    return {
        "step_ms": min(theirs) * 1e3,
        "step_median_ms": _median_ms(theirs),
        "ratio": min(ours) / min(theirs),
        "ratio_of_medians": _median_ms(ours) / _median_ms(theirs),
    }


def _median_ms(seconds: list[float]) -> float:
    return float(np.median(seconds)) * 1e3


def _by_time(profile: Profile) -> list[str]:
    return sorted(profile.operators, key=lambda name: -profile.operators[name])


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    flags, blas = report["flags"], report["blas"]
    steps = f"fastest of {flags['repetitions'] * flags['block']}, median {report['step_median_ms']:.2f}"
    lines = [
        f"{report['heading']}; {flags['mode']}, dp {flags['dp']} x mp {flags['mp']} on {report['ranks']} ranks; "
        f"OpenBLAS {blas['core']}, {blas['threads']} thread(s) a rank",
        "",
        f"step            {report['step_ms']:9.2f} ms   {steps}",
        *_peer_lines(report["peers"]),
        f"step, profiled  {report['profiled_step_ms']:9.2f} ms   fastest of {flags['repetitions']}, "
        f"{report['kernels']} kernels",
    ]
    for kind, name in KINDS.items():
        lines.append(f"  {name:14}{report['milliseconds'][kind]:9.2f} ms {report['shares'][kind]:7.1%}")
    lines += [
        "",
        f"GEMM {report['gemm_gflops']:.0f} GF/s in {report['gemm_operations'] / 1e9:.2f} G operations; np.matmul of "
        f"{CEILING_SIZE} x {CEILING_SIZE} beside it {report['ceiling_gflops']:.0f} GF/s",
        f"{report['collectives']} collectives, {report['collective_bytes'] / 1e6:.2f} MB",
        "",
        *_operator_lines(report),
    ]
    return "\n".join(lines)


def _peer_lines(peers: dict[str, dict[str, float]]) -> list[str]:
    lines = [
        f"{name:<16}{peer['step_ms']:9.2f} ms   median {peer['step_median_ms']:.2f}; ours takes {peer['ratio']:.2f} "
        f"of it (of the medians {peer['ratio_of_medians']:.2f})"
        for name, peer in peers.items()
    ]
    return ["", *lines, ""] if lines else []


def _operator_lines(report: dict[str, Any]) -> list[str]:
    lines = [f"{'operator':34}{'calls':>6}{'ms':>10}{'share':>8}"]
    for name, spent in list(report["operators_ms"].items())[: report["flags"]["top"]]:
        calls = report["calls"].get(name, 0)
        lines.append(f"{name:34}{calls:6}{spent:10.3f}{spent / report['profiled_step_ms']:8.1%}")
    return lines
