"""What a checkpoint says of its training: read as it was written, and compared in words with the training here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import context, nn
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.train.persistence.training_record import TrainingRecord, facts_of

FACTS: dict[str, Any] = {
    "seed": 3,
    "data_seeds": [1, 2],
    "batch_num": 12,
    "rows": 8,
    "accumulation_steps": 1,
    "optimizer": "SGD",
    "learning_rate": "a number",
}


def record(facts: dict[str, Any]) -> TrainingRecord:
    return TrainingRecord(14, 2, 2, 4, frozenset({"b", "a"}), frozenset({"epoch_num"}), facts)


def test_a_record_is_read_as_it_was_written() -> None:
    kept = record(FACTS).as_json()
    assert kept == {
        "step": 14,
        "epoch": 2,
        "step_in_epoch": 2,
        "ranks": 4,
        "own": ["a", "b"],
        "appended": ["epoch_num"],
        "facts": FACTS,
    }
    assert TrainingRecord.of_json(kept) == record(FACTS)
    # Files of earlier versions have no lists of tensors.
    del kept["own"], kept["appended"]
    assert TrainingRecord.of_json(kept).own == TrainingRecord.of_json(kept).appended == frozenset()


@pytest.mark.parametrize(
    ("name", "here", "told"),
    [
        ("seed", 4, "the seed of the context: 4 here, 3 there"),
        ("data_seeds", [1], "the seeds of the dataset: [1] here, [1, 2] there"),
        ("batch_num", 6, "the steps of an epoch: 6 here, 12 there"),
        ("rows", 16, "the rows of a step of all ranks: 16 here, 8 there"),
        ("accumulation_steps", 2, "the batches of a step: 2 here, 1 there"),
        ("optimizer", "Adam", "the optimizer: 'Adam' here, 'SGD' there"),
        ("learning_rate", "x" * 198, f"the learning rate: '{'x' * 198}' here, 'a number' there"),
        ("learning_rate", "x" * 199, f"the learning rate: '{'x' * 199}... here, 'a number' there"),
    ],
)
def test_what_is_other_here_is_told_and_nothing_else(name: str, here: Any, told: str) -> None:
    assert record(FACTS).differences({**FACTS, name: here}) == [told]
    # What the checkpoint does not say is not compared.
    assert record({"step": 1}).differences({**FACTS, name: here}) == []


def test_several_differences_are_told_each_and_what_is_unknown_here_is_none() -> None:
    found = record(FACTS).differences({**FACTS, "rows": 4, "seed": 7, "unknown": 1})
    assert found == ["the seed of the context: 7 here, 3 there", "the rows of a step of all ranks: 4 here, 8 there"]
    assert len(record(FACTS).differences({})) == 7
    assert record(FACTS).differences(FACTS) == []


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        (0.25, "a number"),
        ([0.25, 0.5, 0.125], "a table of 3 steps"),
        (nn.ExponentialDecayLR(0.5, 0.25, 4, is_stair=True), None),
    ],
)
def test_facts_are_those_of_the_steps_that_follow(rate: Any, told: str | None) -> None:
    context.set_seed(11)
    network = nn.Dense(2, 1)
    loss = nn.WithLossCell(network, nn.MSELoss())
    training = TrainOneStepCell(loss, nn.SGD(network.trainable_params(), rate), accumulation_steps=3)
    columns = np.zeros((28, 2), np.float32), np.zeros((28, 1), np.float32)
    found = facts_of(training, NumpySlicesDataset(columns, ["x", "y"], shuffle=False).batch(2), 4)
    # Fourteen batches of two rows are four whole steps of three; on four ranks each step has 24 rows.
    assert (found["batch_num"], found["rows"], found["accumulation_steps"]) == (4, 24, 3)
    assert (found["seed"], found["optimizer"]) == (11, "SGD")
    if told is not None:
        assert found["learning_rate"] == told
    else:
        kind, settings = found["learning_rate"].rstrip(")").split("(")
        assert kind == "ExponentialDecayLR"
        assert {"decay_rate=0.25", "decay_steps=4", "is_stair=True"} <= set(settings.split(", "))
        assert "training" not in settings
