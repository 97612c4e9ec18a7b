"""Where the time of a training step goes: GEMM, other kernels, communication, Python.

Run it on one rank or on several:

    mpiparallel run -n 1 benchmarks/train_step.py
    mpiparallel run -n 4 benchmarks/train_step.py --dp 2 --mp 2

It trains the tutorials' Transformer on random tokens of a fixed seed. Each repetition times one step as it is, one step
with a clock around each kernel, and a plain matrix product; the fastest of each is reported, for rank 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from mpiparallel import context
from mpiparallel.communication import init, world
from mpiparallel.context.settings import current_configuration
from mpiparallel.graph.buffer_plan import find_views
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.graph.program import Profile
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork, decay_groups
from mpiparallel.nn import AdamWeightDecay
from mpiparallel.nn.transformer import TransformerOpParallelConfig
from mpiparallel.parallel.local_graph import local_graph
from mpiparallel.train import Model

KINDS = ("gemm", "kernel", "communication")
WARM_UP_STEPS = 2
CEILING_SIZE = 1024


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the flags; the defaults are the tutorial's batch at a width of 512."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value, meaning in (
        ("d_model", 512, "hidden size, also of the feed-forward layers"),
        ("num_heads", 8, "attention heads"),
        ("encoder_layers", 1, "layers of the encoder"),
        ("decoder_layers", 1, "layers of the decoder"),
        ("batch_size", 32, "sentences in a global batch"),
        ("src_len", 10, "tokens of a source sentence"),
        ("tgt_len", 10, "tokens of a target sentence"),
        ("vocab_size", 20000, "words of either language"),
        ("dp", 1, "parts of the batch"),
        ("mp", 1, "parts of heads, layers and vocabulary"),
        ("repetitions", 10, "how often everything is timed"),
        ("top", 12, "operators in the table"),
    ):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{meaning} (default {value})")
    parser.add_argument("--parallel_optimizer", action="store_true", help="store weights and moments cut by dp")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    parser.add_argument("--graph", type=Path, help="write the graph that rank 0 runs to this file")
    return parser


def make_model(flags: argparse.Namespace) -> Model:
    """Return the network with its optimizer."""
    sizes = TranslationConfig(
        batch_size=flags.batch_size,
        source_length=flags.src_len,
        target_length=flags.tgt_len,
        vocab_size=flags.vocab_size,
        hidden_size=flags.d_model,
        encoder_layers=flags.encoder_layers,
        decoder_layers=flags.decoder_layers,
        num_heads=flags.num_heads,
    )
    cuts = TransformerOpParallelConfig(data_parallel=flags.dp, model_parallel=flags.mp)
    network = TranslationNetwork(sizes, cuts)
    return Model(network, optimizer=AdamWeightDecay(decay_groups(network.trainable_params()), learning_rate=1e-4))


def make_batch(flags: argparse.Namespace) -> list[np.ndarray[Any, Any]]:
    """Return the seven columns of a batch without padding."""
    random = np.random.default_rng(1)
    batch, source, target = flags.batch_size, flags.src_len, flags.tgt_len

    def ids(length: int) -> np.ndarray[Any, Any]:
        return random.integers(4, flags.vocab_size, (batch, length), dtype=np.int32)

    def positions(length: int) -> np.ndarray[Any, Any]:
        return np.tile(np.arange(length, dtype=np.int32), (batch, 1))

    def ones(rows: int, columns: int) -> np.ndarray[Any, Any]:
        return np.ones((batch, rows, columns), np.float32)

    return [
        *(ids(source), positions(source), ones(source, source)),
        *(ids(target), positions(target), ones(target, source)),
        ids(target),
    ]


@dataclass
class Timings:
    """Seconds: of plain steps, of profiled steps with their profiles, and of the plain matrix product."""

    plain: list[float] = field(default_factory=list)
    profiled: list[tuple[float, Profile]] = field(default_factory=list)
    product: list[float] = field(default_factory=list)


def measure(model: Model, batch: list[np.ndarray[Any, Any]], repetitions: int) -> Timings:
    """Time whole calls of ``run_step``, with and without a profile, and the ceiling, in turns."""
    timings = Timings()
    x = np.ones((CEILING_SIZE, CEILING_SIZE), np.float32)
    product = np.empty_like(x)
    for _ in range(WARM_UP_STEPS):
        model.run_step(batch)
    for _ in range(repetitions):
        start = time.perf_counter()
        model.run_step(batch)
        timings.plain.append(time.perf_counter() - start)
        model.profile = Profile()
        start = time.perf_counter()
        model.run_step(batch)
        timings.profiled.append((time.perf_counter() - start, model.profile))
        model.profile = None
        start = time.perf_counter()
        np.matmul(x, x, out=product)
        timings.product.append(time.perf_counter() - start)
    return timings


def gemm_operations(node: Node) -> int:
    """Return the multiplications and additions of a matrix product."""
    contracted = node.inputs[0].spec.shape[-2 if getattr(node.operator, "transpose_a", False) else -1]
    return 2 * node.outputs[0].spec.size * contracted


def graph_costs(graph: Graph) -> dict[str, Any]:
    """Return what can be counted in a rank's graph: kernels, GEMM operations, collectives and their bytes."""
    views = find_views(graph)
    computing = [node for node in graph.nodes if node not in views]
    collectives = [node for node in computing if node.operator.kind == "communication"]
    return {
        "kernels": len(computing),
        "calls": dict(Counter(node.operator.name for node in computing)),
        "gemm_operations": sum(gemm_operations(node) for node in computing if node.operator.kind == "gemm"),
        "collectives": len(collectives),
        "collective_bytes": sum(node.inputs[0].spec.byte_count for node in collectives),
    }


def summarise(flags: argparse.Namespace, timings: Timings, costs: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of the fastest plain and the fastest profiled step."""
    whole, profile = min(timings.profiled, key=lambda one: one[0])
    kinds = {kind: profile.kinds.get(kind, 0.0) for kind in KINDS}
    python = whole - sum(kinds.values())
    gemm_rate = costs["gemm_operations"] / kinds["gemm"] / 1e9 if kinds["gemm"] else 0.0
    blas = next((library for library in threadpool_info() if library["user_api"] == "blas"), {})
    return {
        "sizes": {name: value for name, value in vars(flags).items() if isinstance(value, int)},
        "ranks": flags.dp * flags.mp,
        "blas": {"core": blas.get("architecture", "unknown"), "threads": blas.get("num_threads", 0)},
        "step_ms": min(timings.plain) * 1e3,
        "step_median_ms": float(np.median(timings.plain)) * 1e3,
        "profiled_step_ms": whole * 1e3,
        "milliseconds": {**{kind: seconds * 1e3 for kind, seconds in kinds.items()}, "python": python * 1e3},
        "shares": {**{kind: seconds / whole for kind, seconds in kinds.items()}, "python": python / whole},
        "gemm_gflops": gemm_rate,
        "ceiling_gflops": 2 * CEILING_SIZE**3 / min(timings.product) / 1e9,
        "operators_ms": {name: 1e3 * profile.operators[name] for name in _by_time(profile)},
        **costs,
    }


def _by_time(profile: Profile) -> list[str]:
    return sorted(profile.operators, key=lambda name: -profile.operators[name])


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    sizes, blas, calls = report["sizes"], report["blas"], report["calls"]
    lines = [
        f"Transformer, d_model {sizes['d_model']}, {sizes['encoder_layers']}+{sizes['decoder_layers']} layers, "
        f"vocabulary {sizes['vocab_size']}, batch {sizes['batch_size']} x ({sizes['src_len']} + {sizes['tgt_len']}) "
        f"tokens; dp {sizes['dp']} x mp {sizes['mp']} on {report['ranks']} ranks; OpenBLAS {blas['core']}, "
        f"{blas['threads']} thread(s) a rank",
        "",
        f"step            {report['step_ms']:9.2f} ms   fastest of {sizes['repetitions']}, "
        f"median {report['step_median_ms']:.2f}",
        f"step, profiled  {report['profiled_step_ms']:9.2f} ms   fastest of {sizes['repetitions']}, "
        f"{report['kernels']} kernels",
    ]
    names = {"gemm": "GEMM", "kernel": "other kernels", "communication": "communication", "python": "Python"}
    for kind, name in names.items():
        lines.append(f"  {name:14}{report['milliseconds'][kind]:9.2f} ms {report['shares'][kind]:7.1%}")
    lines += [
        "",
        f"GEMM {report['gemm_gflops']:.0f} GF/s in {report['gemm_operations'] / 1e9:.2f} G operations; np.matmul of "
        f"{CEILING_SIZE} x {CEILING_SIZE} beside it {report['ceiling_gflops']:.0f} GF/s",
        f"{report['collectives']} collectives, {report['collective_bytes'] / 1e6:.2f} MB",
        "",
        f"{'operator':34}{'calls':>6}{'ms':>10}{'share':>8}",
    ]
    for name, spent in list(report["operators_ms"].items())[: sizes["top"]]:
        lines.append(f"{name:34}{calls.get(name, 0):6}{spent:10.3f}{spent / report['profiled_step_ms']:8.1%}")
    return "\n".join(lines)


def main() -> None:
    """Measure on every rank; rank 0 reports."""
    flags = make_parser().parse_args()
    init()
    ranks = world.current()
    if ranks.size != flags.dp * flags.mp:
        raise SystemExit(f"--dp {flags.dp} --mp {flags.mp} needs {flags.dp * flags.mp} ranks; there are {ranks.size}")
    context.set_seed(1)
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", full_batch=True, enable_parallel_optimizer=flags.parallel_optimizer
    )
    model, batch = make_model(flags), make_batch(flags)
    graph = local_graph(model.shard(batch), current_configuration().rank)
    report = summarise(flags, measure(model, batch, flags.repetitions), graph_costs(graph))
    if ranks.rank == 0:
        sys.stdout.write(table(report) + "\n")
        if flags.json:
            flags.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        if flags.graph:
            flags.graph.write_text(f"{graph}\n", encoding="utf-8")
    ranks.rest()


if __name__ == "__main__":
    main()
