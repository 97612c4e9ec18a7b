"""``export`` refuses, but leaves what the model can be made from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor, export, load_checkpoint, nn
from mpiparallel.errors import ConfigurationError, ShapeError


@pytest.mark.parametrize(("name", "file_format"), [("net", "MINDIR"), ("net.onnx", "ONNX"), ("net", "AIR")])
def test_the_parameters_are_saved_and_the_message_says_how_to_go_on(tmp_path, name, file_format) -> None:
    network = nn.Dense(3, 2)
    with pytest.raises(ConfigurationError, match=rf"{file_format} models are not written here\. The parameters are in"):
        export(network, Tensor(np.ones((1, 3), np.float32)), file_name=tmp_path / name, file_format=file_format)
    loaded = load_checkpoint(tmp_path / "net.ckpt")
    np.testing.assert_array_equal(loaded["weight"].asnumpy(), network.weight.asnumpy())


def test_wrong_arguments_are_refused_before_anything_is_written(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match="file_format 'GEIR' is not one of AIR, MINDIR, ONNX"):
        export(nn.ReLU(), file_name=tmp_path / "net", file_format="GEIR")
    with pytest.raises(ConfigurationError, match="net is a dict"):
        export({}, file_name=tmp_path / "net", file_format="AIR")
    with pytest.raises(ShapeError):
        export(nn.Dense(3, 2), Tensor(np.ones((1, 4), np.float32)), file_name=tmp_path / "net", file_format="AIR")
    assert not list(tmp_path.iterdir())


def test_what_it_is_exported_for_is_run_as_in_use_and_a_training_may_go_on(tmp_path) -> None:
    network = nn.SequentialCell([nn.Dense(3, 2), nn.BatchNorm1d(2)]).set_train()
    before = network[1].moving_mean.asnumpy().copy()
    with pytest.raises(ConfigurationError, match="models are not written here"):
        export(network, np.arange(12, dtype=np.float32).reshape(4, 3), file_name=tmp_path / "net", file_format="AIR")
    np.testing.assert_array_equal(network[1].moving_mean.asnumpy(), before)
    assert all(cell.training for _, cell in network.cells_and_names())
