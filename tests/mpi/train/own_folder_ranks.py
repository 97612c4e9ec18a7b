"""Ranks that each work in a folder of their own: they train, save, load their own files, resume and train on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np


def main(shards: str) -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel import load_checkpoint, load_param_into_net, restore_group_info_list
    from mpiparallel.communication import get_rank, init
    from mpiparallel.train import CheckpointConfig, ModelCheckpoint
    from tests.conformance.trainings.saved_training import held_by, make_dataset, make_model

    init()
    folder = Path(f"device{get_rank()}").absolute()
    folder.mkdir()
    os.chdir(folder)
    os.environ["GROUP_INFO_FILE"] = "./group_info.pb"

    def train(epochs, resumes=False):
        model = make_model()
        if resumes:
            model.resume("./", make_dataset())
        saver = ModelCheckpoint("net", config=CheckpointConfig(0, format=shards))
        model.train(epochs, make_dataset(), saver, dataset_sink_mode=False)
        assert saver.last_checkpoint is not None
        assert saver.last_checkpoint.parent == folder
        return held_by(model)

    def load(file):
        model = make_model()
        model.build(train_dataset=make_dataset())
        assert load_param_into_net(model.train_network, load_checkpoint(file)) == ([], [])
        return held_by(model)

    first = train(2)
    found = {"loaded": load("./net-2_3.ckpt"), "resumed": train(4, resumes=True)}
    wanted = {"loaded": first, "resumed": train(4)}
    for way, values in wanted.items():
        for name, value in values.items():
            np.testing.assert_array_equal(found[way][name], value, err_msg=f"{way} {name}")
    names = " ".join(sorted(path.name for path in folder.glob("net*")))
    print(f"rank {get_rank()} has {names}, equal to {restore_group_info_list('./group_info.pb')}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
