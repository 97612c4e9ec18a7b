"""What a resume needs beside the state that the training holds, and what is held after one that fails."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import Model, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CheckpointError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.persistence.refilled_parameters import overwritable

SIZE = 1200
BYTES = SIZE * SIZE * 4


def made() -> tuple[Model, NumpySlicesDataset]:
    """Return a training with Adam of one large matrix and the data of two steps."""
    network = nn.Dense(SIZE, SIZE, has_bias=False)
    data = NumpySlicesDataset((np.ones((4, SIZE), np.float32), np.ones((4, SIZE), np.float32)), ["x", "y"]).batch(2)
    return Model(network, nn.MSELoss(), nn.Adam(network.trainable_params())), data


def saved(folder: Path) -> dict[str, bytes]:
    model, data = made()
    model.train(1, data, ModelCheckpoint("line", folder, CheckpointConfig(2)))
    return state(model)


def state(model: Model) -> dict[str, bytes]:
    assert model.train_network.optimizer is not None
    held = [*model.train_network.get_parameters()]
    return {one.name: np.asarray(one.asnumpy()).tobytes() for one in held if not one.transient}


def alone(act: Any) -> None:
    run_world(1, lambda communicator: act())


def test_beside_a_new_training_a_resume_needs_room_for_the_weights_but_not_for_the_optimizer_states(tmp_path) -> None:
    def on_rank() -> None:
        wanted = saved(tmp_path)
        model, data = made()
        model.build(data)
        tracemalloc.start()
        try:
            model.resume(tmp_path, data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert state(model) == wanted
        # The weights and a huge page to align them; the state has three times as much.
        assert peak < 2 * BYTES

    alone(on_rank)


@pytest.mark.parametrize("tenth", [2, 5, 8])
def test_after_a_resume_that_fails_in_its_midst_all_is_as_it_was(tenth, tmp_path) -> None:
    def on_rank() -> None:
        saved(tmp_path)
        (shard,) = tmp_path.rglob("*.h5")
        content = bytearray(shard.read_bytes())
        content[len(content) * tenth // 10] ^= 1
        shard.write_bytes(content)
        model, data = made()
        model.build(data)
        before = state(model)
        with pytest.raises(CheckpointError, match="none of 1 checkpoints can be read"):
            model.resume(tmp_path, data)
        assert state(model) == before

    alone(on_rank)


VALUES = {
    "zeros": (np.zeros((3, 4), np.float32), True),
    "negative zeros": (np.full(5, -0.0), True),
    "zeros of both signs": (np.array([0.0, -0.0]), False),
    "no numbers": (np.full((2, 2), np.nan, np.float16), True),
    "a number": (np.array(3, np.int64), True),
    "one other at the end": (np.array([7] * 9 + [8], np.int32), False),
    "one other in the middle": (np.array([7] * 4 + [8] + [7] * 4, np.int32), False),
    "truths": (np.ones(4, np.bool_), True),
    "nothing": (np.empty((0, 2), np.float32), False),
}


@pytest.mark.parametrize("what", VALUES)
def test_what_holds_one_number_throughout_may_be_overwritten_and_holds_it_again_after_a_failure(what) -> None:
    values, is_one = VALUES[what]
    parameter = Parameter(values, "held")
    found = []

    def fail() -> None:
        with overwritable({"held": parameter}) as arrays:
            found.extend(arrays)
            for array in arrays.values():
                array[...] = 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert found == (["held"] if is_one else [])
    assert parameter.asnumpy().tobytes() == values.tobytes()
