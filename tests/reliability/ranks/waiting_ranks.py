"""Ranks that train and save into a folder, and wait after a checkpoint: ``notes folder``.

``{rank}`` in the folder is the rank. Rank 0 touches ``saved`` in ``notes`` then, and waits until ``go`` is there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from mpiparallel.communication import get_rank, init
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from tests.conformance.trainings.saved_training import At, make_dataset, make_model

LAST_STEP = 6
_NAP = 0.01


def main() -> None:
    notes, folder = Path(sys.argv[1]), sys.argv[2]
    init()
    saver = ModelCheckpoint("dense", folder.format(rank=get_rank()), CheckpointConfig(2))

    def wait() -> None:
        if get_rank() == 0:
            (notes / "saved").touch()
            while not (notes / "go").exists():
                time.sleep(_NAP)

    make_model(((1, 1), (1, 1))).train(LAST_STEP // 3, make_dataset(), [saver, At(2, wait)], dataset_sink_mode=False)


if __name__ == "__main__":
    main()
