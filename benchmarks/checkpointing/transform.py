"""Files of some ranks converted to those of others: ours beside MindSpore's, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from checkpointing.methods import clear, forget
from checkpointing.states import FLOAT_BYTES, STATES, arrays_of, layouts_of

from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.formats.mindspore_checkpoint import write_mindspore_checkpoint
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.layout.layout import Layout

COPY, OURS, OURS_TWO, OURS_SHARDS, MINDSPORE = (
    "plain copy of the files",
    "ours, .ckpt",
    "ours, .ckpt, 2 processes",
    "ours, shards",
    "MindSpore, .ckpt",
)
SOURCE_RANKS, TARGET_RANKS = 8, 4
_WORKER = Path(__file__).with_name("transform_worker.py")
_MEBIBYTE = 1 << 20
_ALLOWED_FACTOR, _ALLOWED_BYTES = 1.2, 64 << 20


def measure(
    folder: Path, state: str, mebibytes: int, pythons: Mapping[str, str], rounds: int, timeout: float
) -> dict[str, Any]:
    """Return seconds and memory of each way to convert 8 files cut by rows to 4 cut by columns.

    Memory is the largest growth of the resident size of a process while it converts.
    """
    shapes = STATES[state].shapes(mebibytes)
    source, target = layouts_of(shapes, "rows", SOURCE_RANKS), layouts_of(shapes, "columns", TARGET_RANKS)
    strategies = {"source": folder / "source.ckpt", "target": folder / "target.ckpt"}
    write_strategy(strategies["source"], StrategyRecord.of(source, {}))
    write_strategy(strategies["target"], StrategyRecord.of(target, {}))
    _write_source(folder, source)
    seconds: dict[str, dict[int, float]] = {}
    grown: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for index in range(rounds):
        for name, python in pythons.items():
            if name in left_out:
                continue
            told = _told(folder, name, strategies)
            forget(Path(told["source"]))
            clear(Path(told["target"]))
            try:
                found = _run(python, told, timeout)
            except (OSError, subprocess.SubprocessError) as error:
                left_out[name] = f"{python}: {error}"
                continue
            seconds.setdefault(name, {})[index] = found["seconds"]
            grown[name] = max(grown.get(name, 0), found["grown"])
    largest = max(prod(layout.local_shape(0)) for layout in target.values()) * FLOAT_BYTES
    return {
        "bytes": sum(prod(shape) for shape in shapes.values()) * FLOAT_BYTES,
        "allowed_mebibytes": (_ALLOWED_FACTOR * largest + _ALLOWED_BYTES) / _MEBIBYTE,
        "methods": {
            name: {
                "median_ms": median(taken.values()) * 1e3,
                "min_ms": min(taken.values()) * 1e3,
                "grown_mebibytes": grown[name] / _MEBIBYTE,
            }
            for name, taken in seconds.items()
        },
        "methods_left_out": left_out,
    }


def table(report: Mapping[str, Any]) -> str:
    """Return the report for people."""
    size = report["bytes"] / _MEBIBYTE
    before, after = report["load_average"]
    lines = [
        f"transform {report['state']}, rows of {SOURCE_RANKS} ranks to columns of {TARGET_RANKS}: {size:.0f} MiB in "
        f"{report['place']} ({report['file_system']}), load {before:.1f} to {after:.1f}; "
        f"{report['allowed_mebibytes']:.0f} MiB are 1.2 x the largest slice + 64",
        f"  {'':<28}{'median ms':>11}{'fastest':>10}{'+MiB':>8}{'x the whole':>13}",
    ]
    for name, numbers in report["methods"].items():
        grown = numbers["grown_mebibytes"]
        lines.append(
            f"  {name:<28}{numbers['median_ms']:>11.0f}{numbers['min_ms']:>10.0f}{grown:>8.1f}{grown / size:>13.2f}"
        )
    lines += [f"  {name:<28} left out: {reason}" for name, reason in report["methods_left_out"].items()]
    return "\n".join(lines)


def _write_source(folder: Path, layouts: Mapping[str, Layout]) -> None:
    def save(communicator: Communicator) -> None:
        arrays = arrays_of(layouts, communicator.rank)
        save_shards(folder / "shards", "net", 1, 1, arrays, layouts, communicator)
        own = folder / "files" / f"rank_{communicator.rank}"
        own.mkdir(parents=True)
        write_mindspore_checkpoint(own / "net-1_1.ckpt", infos_of(arrays), arrays.items(), {})

    run_world(SOURCE_RANKS, save)


def _told(folder: Path, name: str, strategies: Mapping[str, Path]) -> dict[str, Any]:
    return {
        "way": {COPY: "copy", MINDSPORE: "mindspore"}.get(name, "ours"),
        "source": str(folder / ("shards" if name == OURS_SHARDS else "files")),
        "target": str(folder / "target"),
        "source_strategy": None if name == OURS_SHARDS else str(strategies["source"]),
        "target_strategy": str(strategies["target"]),
        "processes": 2 if name == OURS_TWO else 1,
    }


def _run(python: str, told: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "GLOG_v": "3"}
    command = [python, str(_WORKER), json.dumps(told)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=variables, check=True, timeout=timeout)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
