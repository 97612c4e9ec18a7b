"""Let each search find strategies for 8 ranks, on one process, and compare what a step would take by the cost model.

python search.py
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
from pathlib import Path

import numpy as np

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.dataset import NumpySlicesDataset

SEARCHES = ("recursive_programming", "dynamic_programming", "sharding_propagation", "optimal")


def told_by(search, ranks, width):
    """Return the milliseconds that are told: of the search's strategies, of batch parallelism, and the lower bound."""
    ms.set_auto_parallel_context(
        parallel_mode="auto_parallel",
        auto_parallel_search_mode=search,
        device_num=ranks,
        global_rank=0,
        full_batch=True,
        strategy_ckpt_save_file=f"{search}.json",
    )
    network = nn.SequentialCell(nn.Dense(width, 8 * width), nn.ReLU(), nn.Dense(8 * width, width))
    if search == "sharding_propagation":  # it goes from what is given to the neighbours
        network[0].matmul.shard(((1, 1), (ranks, 1)))
    rows = np.zeros((32, width), np.float32)
    data = NumpySlicesDataset((rows, rows), shuffle=False).batch(32)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        ms.Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.01, 0.9)).build(data)
    print(said.getvalue(), end="")
    return [float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit] for number, unit in TIME.findall(said.getvalue())]


TIME = re.compile(r"takes (?:less than )?([\d.]+) (us|ms|s)\b")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    arguments = parser.parse_args()
    found = {search: told_by(search, arguments.ranks, arguments.width) for search in SEARCHES}
    by_batch = {"batch parallelism": max(times[1] for times in found.values())}
    bars = {"a step": {**{search: times[0] for search, times in found.items()}, **by_batch}}
    Path("search.result.json").write_text(json.dumps({"y": "ms by the cost model", "bars": bars}))


if __name__ == "__main__":
    main()
