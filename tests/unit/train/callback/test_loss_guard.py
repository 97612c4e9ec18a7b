"""What a guard says of an unsound step: which step, which input of which batch, and what it does."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Model, nn
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, NonFiniteError
from mpiparallel.train import CheckpointConfig, LossGuard, ModelCheckpoint


class Sum(nn.Cell):
    """The sum of a weight and of all inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = ms.Parameter(np.ones(1, np.float32), "weight")

    def construct(self, *inputs):
        loss = self.weight.sum()
        for one in inputs:
            loss = loss + one.sum()
        return loss


def data(*bad: tuple[int, int], columns: int, rows: int = 24) -> NumpySlicesDataset:
    """Return batches of one row; those named have an infinite number in a column."""
    arrays = [np.zeros((rows, 1), np.float32) for _ in range(columns)]
    for row, column in bad:
        arrays[column][row] = np.inf
    return NumpySlicesDataset(tuple(arrays), [f"c{number}" for number in range(columns)], shuffle=False).batch(1)


def model(**options: Any) -> Model:
    network = Sum()
    return Model(network, optimizer=nn.SGD(network.trainable_params(), 0.5), **options)


@pytest.mark.parametrize(
    ("columns", "row", "column", "batches", "step"),
    [(1, 0, 0, 1, 1), (3, 1, 2, 1, 2), (1, 1, 0, 2, 1), (2, 5, 1, 3, 2), (2, 5, 0, 2, 3)],
)
def test_the_input_that_holds_no_number_is_counted_in_its_batch(
    columns: int, row: int, column: int, batches: int, step: int
) -> None:
    with pytest.raises(NonFiniteError) as caught:
        model(accumulation_steps=batches).train(1, data((row, column), columns=columns), LossGuard())
    assert str(caught.value).startswith(f"step {step} (epoch 1, step {step}): the loss is not finite; ")
    assert f"; input {column} of the batch holds inf or nan; " in str(caught.value)


@pytest.mark.parametrize(
    ("count", "told"), [(1, "2"), (10, "2, 3, 4, 5, 6, 7, 8, 9, 10, 11"), (11, "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...")]
)
def test_ten_steps_that_were_left_out_are_named(count: int, told: str) -> None:
    stream = io.StringIO()
    guard = LossGuard("skip", limit=20, stream=stream)
    model().train(1, data(*((row, 0) for row in range(1, 1 + count)), columns=1), guard)
    lines = stream.getvalue().splitlines()
    assert guard.skipped_steps == list(range(2, 2 + count))
    assert [line.rsplit("; ", 1)[1] for line in lines[:-1]] == [
        f"the update is left out, {number} so far" for number in range(1, count + 1)
    ]
    assert lines[-1] == f"LossGuard: {count} updates were left out: steps {told}"


def test_the_limit_is_of_steps_in_a_row() -> None:
    rows = [0, 1, 3, 4, 6, 7]
    guard = LossGuard("skip", limit=3, stream=io.StringIO())
    model().train(1, data(*((row, 0) for row in rows), columns=1), guard)
    assert guard.skipped_steps == [row + 1 for row in rows]
    with pytest.raises(NonFiniteError, match=r"step 5 .*; that is 2 steps in a row \(LossGuard's limit\); weights"):
        model().train(1, data((1, 0), (3, 0), (4, 0), columns=1), LossGuard("skip", limit=2, stream=io.StringIO()))
    with pytest.raises(NonFiniteError, match=r"step 2 .*that is 1 steps in a row"):
        model().train(1, data((1, 0), columns=1), LossGuard("skip", limit=1, stream=io.StringIO()))


@pytest.mark.parametrize("limit", [0, -1, 1.5, "3"])
def test_a_limit_is_an_integer_from_one_on_and_ten_unless_told(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"limit {limit!r} must be an integer of at least 1"):
        LossGuard(limit=limit)
    assert (LossGuard().limit, LossGuard().policy) == (10, "stop")


def test_two_savers_of_one_prefix_in_folders_of_their_own_do_not_disturb_each_other(tmp_path: Path) -> None:
    savers = [ModelCheckpoint("net", tmp_path / name, CheckpointConfig(2)) for name in ("a", "b")]
    model().train(1, data(columns=1, rows=2), savers)
    assert [saver.last_manifest for saver in savers] == [tmp_path / name / "net-1_2.manifest.json" for name in "ab"]
    with pytest.raises(ConfigurationError, match=r"two of them save in .*a under the prefix 'other'; give one of them"):
        model().train(
            1,
            data(columns=1, rows=2),
            [ModelCheckpoint("other", tmp_path / "a"), ModelCheckpoint("other", tmp_path / "b" / ".." / "a")],
        )
