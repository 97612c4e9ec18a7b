"""Predict with the weights that train.py has saved, on any number of ranks.

mpiparallel run -n 2 predict.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from train import Sine

import mpiparallel as ms
from mpiparallel.communication import get_group_size, get_rank, init


def main():
    init()
    ranks = get_group_size()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = Sine(batch=1, units=ranks)
    # One shard leads to all of them: each rank reads what its own cut needs, and no more.
    saved = ms.load_checkpoint("checkpoints/rank_0/sine-40_16.h5")
    missing, _ = ms.load_param_into_net(network, saved)
    assert not missing
    x = np.linspace(-3, 3, 61, dtype=np.float32)[:, None]
    found = ms.Model(network).predict(ms.Tensor(x)).asnumpy()
    print(f"{ranks} ranks: largest error {np.abs(found - np.sin(x)).max():.3f}")
    if get_rank() == 0:
        lines = {f"{ranks} ranks": [x[:, 0].tolist(), found[:, 0].tolist()]}
        Path(f"{ranks}_ranks.result.json").write_text(
            json.dumps({"x": "x", "y": "prediction of sin(x)", "lines": lines})
        )


if __name__ == "__main__":
    main()
