"""Extreme elements of rows that are cut over ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import context, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.graph.tensor import Tensor

ROWS = np.array([[1.0, 5.0, 2.0, 5.0, 5.0, 0.0], [3.0, 3.0, np.nan, 4.0, np.nan, 3.0], [-0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])


def found(communicator: Any, name: str, strategy: Any) -> list[Any]:
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    operator = getattr(ops, name)(1).shard(strategy)
    index, value = ops.grad(lambda x: operator(x)[1].sum())(Tensor(ROWS)), operator(Tensor(ROWS))[0]
    return [index.asnumpy(), value.asnumpy()]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
@pytest.mark.parametrize(("name", "place"), [("ArgMaxWithValue", np.argmax), ("ArgMinWithValue", np.argmin)])
def test_the_first_of_equal_elements_has_the_place_and_all_of_the_gradient_wherever_a_row_is_cut(
    ranks: int, name: str, place: Any
) -> None:
    wanted = place(ROWS, 1)
    for gradient, index in run_world(ranks, found, name, ((1, ranks),)):
        np.testing.assert_array_equal(index, wanted)
        np.testing.assert_array_equal(gradient, np.eye(6)[wanted])
