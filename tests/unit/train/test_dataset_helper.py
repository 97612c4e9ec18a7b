"""``DatasetHelper``: batches for loops of one's own, and for networks that take them themselves."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import DatasetHelper, Model, Tensor, connect_network_with_dataset, nn
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError


def data():
    rows = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6, dtype=np.int32)
    return NumpySlicesDataset(rows, ["x", "y"], shuffle=False).batch(2)


def test_each_loop_is_an_epoch() -> None:
    helper = DatasetHelper(data(), dataset_sink_mode=False)
    for _ in range(2):
        assert [labels.asnumpy().tolist() for _, labels in helper] == [[0, 1], [2, 3], [4, 5]]
    assert helper.types_shapes() == ([np.dtype(np.float32), np.dtype(np.int32)], [[2, 2], [2]])
    assert helper.sink_size() == 3


class Labels(nn.Cell):
    def construct(self, x, y):
        return y


@pytest.mark.parametrize(("sink_size", "loops"), [(-1, 2), (2, 3)])
def test_in_sink_mode_the_network_takes_the_batches(sink_size, loops) -> None:
    helper = DatasetHelper(data(), sink_size=sink_size)
    network = connect_network_with_dataset(Labels(), helper)
    found = [network(*nothing).asnumpy().tolist() for _ in range(loops) for nothing in helper]
    assert found == [[0, 1], [2, 3], [4, 5]] * 2


def test_a_connected_network_has_the_parameters_of_the_network() -> None:
    layer = nn.Dense(2, 2)
    assert connect_network_with_dataset(layer, DatasetHelper(data())).trainable_params() == layer.trainable_params()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="dataset is a list"):
        DatasetHelper([1, 2])
    for size in (0, -2, True, 1.0):
        with pytest.raises(ConfigurationError, match=f"sink_size {size} must be -1 or an integer of at least 1"):
            DatasetHelper(data(), sink_size=size)
    with pytest.raises(ConfigurationError, match="dataset_sink_mode 1 must be True or False"):
        DatasetHelper(data(), dataset_sink_mode=1)
    with pytest.raises(ConfigurationError, match="give a DatasetHelper in sink mode"):
        connect_network_with_dataset(nn.ReLU(), DatasetHelper(data(), dataset_sink_mode=False))


@pytest.mark.parametrize("let_go", [DatasetHelper.stop_send, DatasetHelper.release])
def test_what_was_read_ahead_is_let_go_of_and_the_next_batch_is_the_first(let_go) -> None:
    helper = DatasetHelper(data())
    network = connect_network_with_dataset(Labels(), helper)
    assert network().asnumpy().tolist() == [0, 1]
    let_go(helper)
    assert [network().asnumpy().tolist() for _ in range(2)] == [[0, 1], [2, 3]]


def test_a_connected_network_takes_inputs_that_it_is_given_and_leaves_the_batches() -> None:
    network = connect_network_with_dataset(Labels(), DatasetHelper(data()))
    x, y = Tensor(np.zeros((2, 2), np.float32)), Tensor(np.array([7, 8], np.int32))
    assert network(x, y).asnumpy().tolist() == [7, 8]
    assert network().asnumpy().tolist() == [0, 1]


def test_a_connected_network_may_be_the_network_of_a_model() -> None:
    network = connect_network_with_dataset(Labels(), DatasetHelper(data()))
    x, y = Tensor(np.zeros((2, 2), np.float32)), Tensor(np.array([7, 8], np.int32))
    assert Model(network).predict(x, y).asnumpy().tolist() == [7, 8]
    assert network().asnumpy().tolist() == [0, 1]


def test_a_number_of_epochs_that_limits_nothing_is_told(remarks) -> None:
    DatasetHelper(data())
    DatasetHelper(data(), epoch_num=1)
    assert remarks() == []
    DatasetHelper(data(), epoch_num=2)
    assert ["DatasetHelper: epoch_num=2 has no effect" in line for line in remarks()] == [True]


def test_each_loop_has_the_order_of_its_own_epoch() -> None:
    shuffled = NumpySlicesDataset(np.arange(64), ["x"], shuffle=True).batch(64)
    helper = DatasetHelper(shuffled, dataset_sink_mode=False)
    orders = [batch["x"].tolist() for epoch in range(3) for batch in shuffled.iterate(epoch)]
    assert len(set(map(tuple, orders))) == 3
    assert [batch.asnumpy().tolist() for _ in range(3) for (batch,) in helper] == orders
