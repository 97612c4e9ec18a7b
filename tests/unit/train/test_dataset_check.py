"""A dataset of one's own that lacks what a training asks for."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import nn
from mpiparallel.errors import DatasetError
from mpiparallel.train.model import Model


class Own:
    def iterate(self, epoch=0, skip=0):
        for _ in range(2 - skip):
            yield {"x": np.ones((4, 3), np.float32), "y": np.ones((4, 2), np.float32)}

    def get_dataset_size(self):
        return 2


class Whole(Own):
    seeds = ()

    def get_batch_size(self):
        return 4


def model():
    network = nn.Dense(3, 2)
    return Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1), metrics={"loss"})


@pytest.mark.parametrize("method", ["train", "eval", "build"])
@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        (Own(), "is a Own, which has no get_batch_size;"),
        ([1], "is a list, which has no iterate, no get_dataset_size and"),
    ],
)
def test_what_a_dataset_lacks_is_told_before_anything_is_done(given, lacks, method) -> None:
    one = model()
    arguments = (1, given) if method == "train" else (given,)
    with pytest.raises(DatasetError, match=rf"^Model\.{method}: the dataset {lacks}.*give a Dataset, as Generator"):
        getattr(one, method)(*arguments)
    assert one.step == 0


def test_a_class_of_ones_own_that_has_it_all_trains() -> None:
    one = model()
    one.train(2, Whole())
    assert one.step == 4
    assert np.isfinite(one.eval(Whole())["loss"])
