"""The built-in kinds of our errors: those that MindSpore 2.10 was seen to raise for the same mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import dataset as ds
from mpiparallel import nn, ops
from mpiparallel.errors import MpiParallelError

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
