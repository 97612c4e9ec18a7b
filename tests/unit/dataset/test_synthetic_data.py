"""A batch that a simulation was told of stands in for the data of any pipeline with its columns."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.context.simulation import Simulation, simulating
from mpiparallel.dataset.synthetic_data import StandIn, given_batch, zeros
from mpiparallel.errors import DatasetError

X, Y = TensorSpec((8, 3), np.dtype(np.float32)), TensorSpec((8,), np.dtype(np.int32))


def pipeline() -> ds.Dataset:
    return ds.NumpySlicesDataset({"x": np.ones((6, 3)), "y": np.ones(6)}, shuffle=False).batch(2)


def test_one_batch_of_the_told_size_is_all_that_a_dataset_has() -> None:
    dataset = pipeline()
    with simulating(Simulation({"y": Y, "x": X})):
        assert (len(dataset), dataset.get_dataset_size(), dataset.get_batch_size()) == (1, 1, 8)
        (batch,) = dataset.iterate()
        assert list(batch) == ["x", "y"]
        assert not batch["x"].any()
        assert len(list(dataset.iterate(3, skip=2))) == 1
        assert [tensor.shape for tensor in next(dataset.create_tuple_iterator())] == [(8, 3), (8,)]
    with simulating(Simulation()):
        assert (len(dataset), dataset.get_batch_size(), len(list(dataset.iterate()))) == (3, 2, 3)
    assert (len(dataset), dataset.get_batch_size()) == (3, 2)


@pytest.mark.parametrize("told", [{"x": X}, {"x": X, "y": Y, "z": Y}, {"a": X, "b": Y}])
def test_other_columns_than_those_of_the_dataset_are_told_whole(told: dict[str, TensorSpec]) -> None:
    with simulating(Simulation(told)), pytest.raises(DatasetError) as caught:
        pipeline().get_batch_size()
    assert str(caught.value) == (
        f"--input: the dataset has the columns x, y, but {', '.join(told)} were given; give each column of a batch its "
        "shape, as in --input image=256,3,224,224:float32"
    )


def test_zeros_need_the_memory_of_one() -> None:
    array = zeros(TensorSpec((1 << 20, 1 << 20), np.dtype(np.int16)))
    assert (array.shape, array.dtype, array.strides, int(array[5, 7])) == ((1 << 20, 1 << 20), np.int16, (0, 0), 0)


def test_samples_that_stand_in_are_all_zeros_of_their_columns() -> None:
    samples = StandIn(5, (X, Y))
    assert len(samples) == 5
    assert [(array.shape, array.dtype) for array in samples[4]] == [((8, 3), np.float32), ((8,), np.int32)]


def test_nothing_is_given_where_nothing_is_simulated_or_told() -> None:
    assert given_batch(["x"]) is None
    with simulating(Simulation()):
        assert given_batch(["x"]) is None
