"""Leave the checkpoint files of each rank, and the strategy file that tells how they are cut.

mpiparallel run -n 4 save.py --folder four
"""

from __future__ import annotations

import argparse

import numpy as np

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication import get_group_size, init
from mpiparallel.dataset import NumpySlicesDataset


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="where rank_<r>/ and strategy.ckpt go")
    parser.add_argument("--strategy_only", action="store_true", help="compile, and do not train")
    arguments = parser.parse_args()
    init()
    ms.set_seed(1)
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        strategy_ckpt_save_file=f"{arguments.folder}/strategy.ckpt",
    )
    network = nn.SequentialCell(nn.Dense(16, 48, activation="relu"), nn.Dense(48, 8))
    network[0].matmul.shard(((1, 1), (get_group_size(), 1)))
    network[1].matmul.shard(((1, get_group_size()), (1, get_group_size())))
    model = ms.Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.1, 0.9))
    x = np.ones((8, 16), np.float32)
    data = NumpySlicesDataset((x, x[:, :8]), ["x", "y"]).batch(8)
    if arguments.strategy_only:
        model.build(data)
    else:
        saver = ms.ModelCheckpoint("net", arguments.folder, ms.CheckpointConfig(1, format="ckpt"))
        model.train(1, data, [saver])


if __name__ == "__main__":
    main()
