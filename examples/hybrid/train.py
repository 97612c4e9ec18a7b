"""Cut the batch, the weights and the optimizer's states of one network, and see what each rank then holds.

mpiparallel run -n 4 train.py --dp 2 --mp 2 --optimizer_shards
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication import get_rank, init
from mpiparallel.dataset import NumpySlicesDataset


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dp", type=int, default=2, help="parts of the batch")
    parser.add_argument("--mp", type=int, default=2, help="parts of the weights")
    parser.add_argument("--optimizer_shards", action="store_true", help="cut states once more, among replicas")
    arguments = parser.parse_args()
    dp, mp, shards = arguments.dp, arguments.mp, arguments.optimizer_shards
    init()
    ms.set_seed(3)
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=shards,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},  # small weights too
    )
    network = nn.SequentialCell(nn.Dense(64, 256, activation="relu"), nn.Dense(256, 64))
    network[0].matmul.shard(((dp, 1), (mp, 1)))  # by columns: the weight is (outputs, inputs)
    network[1].matmul.shard(((dp, mp), (1, mp)))  # by rows: one AllReduce for both products
    optimizer = nn.Adam(network.trainable_params(), 0.003)
    model = ms.Model(network, nn.MSELoss(), optimizer)
    x = np.random.default_rng(0).normal(size=(256, 64)).astype(np.float32)
    data = NumpySlicesDataset((x, np.sort(x, axis=1)), ["x", "y"], shuffle=False).batch(32)
    model.train(3, data, [ms.LossMonitor(8)], dataset_sink_mode=False)
    held = {
        "weights": sum(one.asnumpy().nbytes for one in network.trainable_params()) / 1024,
        "moments": sum(one.asnumpy().nbytes for one in [*optimizer.moment1, *optimizer.moment2]) / 1024,
    }
    name = f"dp{dp} mp{mp}" + (" + shards" if shards else "")
    print(name, "holds KiB a rank:", held)
    if get_rank() == 0:
        bars = {what: {name: size} for what, size in held.items()}
        result = {"y": "KiB on a rank", "bars": bars}
        Path(f"{name.replace(' ', '_')}.result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
