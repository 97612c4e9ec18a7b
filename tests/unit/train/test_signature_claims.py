"""Arguments of a model that show in what is compiled."""

from __future__ import annotations

import numpy as np

from mpiparallel import Model, nn
from mpiparallel.dataset import NumpySlicesDataset


def test_a_valid_dataset_has_the_evaluation_compiled() -> None:
    batches = NumpySlicesDataset((np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)), ["x", "y"]).batch(2)
    placed = []
    for options in ({}, {"valid_dataset": batches}):
        layer = nn.Dense(3, 1)
        Model(layer, nn.MSELoss()).build(**options)
        placed.append(layer.weight.layout is not None)
    assert placed == [False, True]
