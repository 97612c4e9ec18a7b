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


class Columns(Whole):
    def __init__(self, *names):
        self.names = names

    def iterate(self, epoch=0, skip=0):
        for batch in super().iterate(epoch, skip):
            yield {name: next(iter(batch.values())) for name in self.names}


@pytest.mark.parametrize(
    ("names", "told"), [(("x",), "1 column (x)"), (("x", "y", "z"), "3 columns (x, y, z)")], ids=["too few", "too many"]
)
def test_columns_that_a_network_does_not_take_are_told_with_those_that_it_takes(names, told) -> None:
    with pytest.raises(DatasetError) as refused:
        model().train(1, Columns(*names))
    told = f"Model.train: the dataset has {told}, but WithLossCell.construct takes (data, label); give it those columns"
    assert str(refused.value) == told


class OfItsFirst(nn.TrainOneStepCell):
    def construct(self, *inputs):
        return super().construct(*inputs[:2])


def test_a_step_of_ones_own_that_takes_any_columns_chooses_among_them() -> None:
    network = nn.WithLossCell(nn.Dense(3, 3), nn.MSELoss())
    one = Model(OfItsFirst(network, nn.SGD(network.trainable_params(), 0.1)))
    one.train(1, Columns("x", "y", "z"))
    assert one.step == 2
