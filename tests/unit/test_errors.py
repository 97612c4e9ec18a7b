"""The built-in kinds of our errors: those that MindSpore 2.10 was seen to raise for the same mistake."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import dataset as ds
from mpiparallel import nn, ops
from mpiparallel.errors import (
    CheckpointError,
    MpiParallelError,
    StrategyFileError,
    TransformError,
    about,
    action_of,
    name_action,
    name_origins,
    origins_of,
    reason,
)

X = np.ones((2, 3), np.float32)


def wrong_shapes() -> Any:
    return ops.MatMul()(X, X)


def compiled_under_a_strategy_that_does_not_fit() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.relu = ops.ReLU().shard(((2, 2, 2),))

        def construct(self, x: Any) -> Any:
            return self.relu(x)

    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8, global_rank=0)
    return ms.Model(Net()).infer_predict_layout(ms.Tensor(X))


def damaged_checkpoint(folder: Path) -> Any:
    (folder / "x.ckpt").write_bytes(b"zzzzz")
    return ms.load_checkpoint(str(folder / "x.ckpt"))


def misfit_checkpoint() -> Any:
    return ms.load_param_into_net(nn.Dense(3, 2), {"weight": ms.Parameter(np.ones((5, 5), np.float32), name="weight")})


def damaged_strategy_file(folder: Path) -> Any:
    (folder / "strategy.ckpt").write_bytes(b"zzzzz")
    return ms.build_searched_strategy(str(folder / "strategy.ckpt"))


@pytest.mark.parametrize(
    ("kind", "mistake"),
    [
        (ValueError, lambda _: ms.set_context(mode=7)),
        (TypeError, lambda _: ms.set_context(mode="x")),
        (TypeError, lambda _: ms.set_auto_parallel_context(device_num="x")),
        (ValueError, lambda _: ms.set_auto_parallel_context(device_num=0)),
        (TypeError, lambda _: nn.BatchNorm1d("a")),
        (ValueError, lambda _: nn.BatchNorm1d(0)),
        (ValueError, lambda _: wrong_shapes()),
        (TypeError, lambda _: ops.LogicalNot()(X)),
        (TypeError, lambda _: ops.MatMul().shard([[1, 2], [3, 4]])),
        (RuntimeError, lambda _: compiled_under_a_strategy_that_does_not_fit()),
        (ValueError, lambda folder: ms.load_checkpoint(str(folder / "missing.ckpt"))),
        (ValueError, damaged_checkpoint),
        (RuntimeError, lambda _: misfit_checkpoint()),
        (TypeError, damaged_strategy_file),
        (ValueError, lambda folder: ms.build_searched_strategy(str(folder / "missing.ckpt"))),
        (TypeError, lambda _: ds.NumpySlicesDataset([1, 2]).batch("x")),
        (ValueError, lambda _: ds.NumpySlicesDataset([1, 2]).batch(0)),
    ],
)
def test_a_mistake_raises_what_mindspore_raises_for_it(
    kind: type[Exception], mistake: Callable[[Path], Any], tmp_path: Path
) -> None:
    with pytest.raises(kind) as raised:
        mistake(tmp_path)
    assert isinstance(raised.value, MpiParallelError)


def chained(*causes: BaseException) -> BaseException:
    """Return the first of some errors, each of which the next one caused."""
    for error, cause in pairwise(causes):
        error.__cause__ = cause
    return causes[0]


def test_the_ranks_whose_problem_an_error_tells_are_those_of_the_nearest_cause_that_names_some() -> None:
    inner, outer = name_origins(ValueError("inner"), [2, 3]), name_origins(ValueError("outer"), [1])
    assert origins_of(chained(RuntimeError(), RuntimeError(), inner)) == (2, 3)
    assert origins_of(chained(outer, inner)) == (1,)
    assert origins_of(chained(RuntimeError(), outer, inner)) == (1,)
    assert origins_of(chained(RuntimeError(), RuntimeError())) == ()


def test_errors_that_caused_each_other_name_no_rank() -> None:
    first, second = RuntimeError(), RuntimeError()
    first.__cause__, second.__cause__ = second, first
    assert origins_of(first) == ()


def test_the_first_action_that_is_noted_with_an_error_stays() -> None:
    error = ValueError()
    assert action_of(error) == ""
    name_action(error, "stage 1's update")
    name_action(error, "stage 2's update")
    assert action_of(error) == "stage 1's update"

    class OtherError(ValueError):
        action = 5

    assert action_of(OtherError()) == ""


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (FileNotFoundError(2, "No such file", "x"), "No such file"),
        (OSError("only words"), "only words"),
        (ValueError("wrong"), "wrong"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "'utf-8' codec can't decode byte 0xff in position 0: bad"),
    ],
)
def test_the_reason_of_an_error_leaves_the_path_to_the_message_around_it(error: Exception, wanted: str) -> None:
    assert reason(error) == wanted


@pytest.mark.parametrize("kind", [StrategyFileError, TransformError])
def test_a_strategy_file_or_a_conversion_is_named_before_the_error(kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised, about("s.ckpt"):
        raise kind("is damaged")
    assert (str(raised.value), type(raised.value)) == ("s.ckpt: is damaged", kind)


def test_other_errors_are_not_put_in_other_words() -> None:
    with pytest.raises(CheckpointError) as raised, about("s.ckpt"):
        raise CheckpointError("is damaged")
    assert str(raised.value) == "is damaged"
