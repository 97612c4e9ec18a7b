"""What a file of parameters holds: whole tensors of all that is cut, once for each path, and numbers of any shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Tensor, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.train.parameter_files.distributed_checkpoint import load_distributed_checkpoint
from mpiparallel.train.parameter_files.saved_object import appended_array
from mpiparallel.train.serialization import (
    load_checkpoint,
    load_param_into_net,
    save_checkpoint,
)

MATRIX, VECTOR, BESIDE = np.arange(32.0).reshape(4, 8), np.arange(8.0) - 9, np.arange(3.0)


class Cut(nn.Cell):
    """A product and a sum whose parameters are cut in all their dims, beside one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix, self.vector = Parameter(MATRIX.copy(), "matrix"), Parameter(VECTOR.copy(), "vector")
        self.beside = Parameter(BESIDE.copy(), "beside")
        self.product = ops.MatMul().shard(((1, 2), (2, 2)))
        self.add = ops.Add().shard(((1, 4), (4,)))

    def construct(self, x):
        return self.add(self.product(x, self.matrix), self.vector).sum() + self.beside.sum()


def saved(communicator: Any, folder: Path) -> dict[str, tuple[int, ...]]:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = Cut()
    network(Tensor(np.ones((2, 4))))
    save_checkpoint(network, folder / "whole.npz")
    save_checkpoint(network, folder / f"own_{communicator.rank}.npz", integrated_save=False)
    return {one.name: one.asnumpy().shape for one in network.get_parameters()}


def test_what_is_cut_in_all_its_dims_is_saved_whole_unless_slices_are_asked_for(tmp_path: Path) -> None:
    for rank, held in enumerate(run_world(4, saved, tmp_path)):
        assert held == {"matrix": (2, 4), "vector": (2,), "beside": (3,)}
        own = load_checkpoint(tmp_path / f"own_{rank}.npz")
        assert {name: one.shape for name, one in own.items()} == held
    whole = load_checkpoint(tmp_path / "whole.npz")
    np.testing.assert_array_equal(whole["matrix"].asnumpy(), MATRIX)
    np.testing.assert_array_equal(whole["vector"].asnumpy(), VECTOR)
    np.testing.assert_array_equal(whole["beside"].asnumpy(), BESIDE)
    assert not any(one.requires_grad for one in whole.values())


class Holding(nn.Cell):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.scale = Parameter(value, "scale")


@pytest.mark.parametrize("here", [(), (1,)])
@pytest.mark.parametrize("there", [(), (1,)])
def test_a_number_is_loaded_whether_it_has_a_dim_or_not(
    here: tuple[int, ...], there: tuple[int, ...], tmp_path: Path
) -> None:
    file = tmp_path / "number.npz"
    save_checkpoint({"scale": np.full(there, 2.5)}, file)
    for load in (load_distributed_checkpoint, lambda net, files: load_param_into_net(net, load_checkpoint(files[0]))):
        network = Holding(np.zeros(here))
        assert load(network, [file]) == ([], [])
        assert network.scale.shape == here
        assert float(network.scale.asnumpy().reshape(-1)[0]) == 2.5


@pytest.mark.parametrize(("here", "there"), [((), (1, 1)), ((1,), (2,)), ((1, 1), (1,)), ((2,), (1,))])
def test_what_is_no_number_is_not_loaded_into_another_shape(
    here: tuple[int, ...], there: tuple[int, ...], tmp_path: Path
) -> None:
    file = tmp_path / "other.npz"
    save_checkpoint({"scale": np.full(there, 2.5)}, file)
    network = Holding(np.zeros(here))
    with pytest.raises(CheckpointError, match="parameter 'scale': the file holds shape"):
        load_param_into_net(network, load_checkpoint(file))
    assert not network.scale.asnumpy().any()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([{"name": "w"}], "save_obj is a list"),
        ([{"name": "w", "data": np.ones(1)}, 3], "save_obj is a list"),
        (3, "save_obj is a int"),
        ({3: np.ones(1)}, "3 is no name; give texts"),
        ({"w": "text"}, "'w' is a str; give a tensor or an array"),
        ({"w": None}, "'w' is a NoneType; give a tensor or an array"),
    ],
)
def test_what_is_no_collection_of_tensors_is_refused_and_no_file_is_written(
    given: Any, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        save_checkpoint(given, tmp_path / "none.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "choice", "words"),
    [
        ([], None, ""),
        ({}, None, ""),
        ((), None, ""),
        (nn.ReLU(), None, ""),
        ({"w": np.ones(1)}, lambda name: name == "v", " that choice_func chooses"),
    ],
)
def test_a_file_of_nothing_is_refused_because_none_could_load_it(
    given: Any, choice: Any, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "none.npz"
    with pytest.raises(ConfigurationError) as raised:
        save_checkpoint(given, file, choice_func=choice)
    assert str(raised.value) == f"save_checkpoint: save_obj has no parameter{words}, and a file of nothing is no use"
    assert not list(tmp_path.iterdir())
    save_checkpoint(given, file, choice_func=choice, append_dict={"epoch_num": 3})
    assert {name: int(one.asnumpy()) for name, one in load_checkpoint(file).items()} == {"epoch_num": 3}


def test_a_rank_that_holds_nothing_of_a_network_saves_with_the_others(tmp_path: Path) -> None:
    network, file = Holding(np.ones(2)), tmp_path / "own.npz"
    network.scale.leave()
    save_checkpoint(network, file, integrated_save=False)
    assert file.exists()
    with pytest.raises(ConfigurationError, match=r"^save_checkpoint: append_dict: 'scale' is the name of a parameter$"):
        save_checkpoint(network, file, integrated_save=False, append_dict={"scale": 1})


@pytest.mark.parametrize(
    ("value", "array"), [(3, 3), (True, True), (2.5, 2.5), (Tensor([1.0, 2.0]), [1, 2]), (np.float32(7), 7)]
)
def test_numbers_and_tensors_are_appended_and_nothing_else(value: Any, array: Any) -> None:
    assert appended_array("here", "one", value).tolist() == array
    with pytest.raises(ConfigurationError, match=r"^here: 'one' is a list; give a number, a text or a tensor$"):
        appended_array("here", "one", [value])
