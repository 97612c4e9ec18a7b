"""Random operators on a piece of the batch draw the numbers of the whole batch, wherever its rows lie along dim 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mpiparallel import Parameter, ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import TraceError
from mpiparallel.graph.execution.micro_batch import draw_as_whole_batch
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording

WEIGHT = Parameter(np.ones((6, 6)), "weight")
Make = Callable[[Tensor], Tensor]


def pieces_drawn(make: Make) -> list[tuple[int, int]]:
    """Return which piece of how many each random operator of a network draws, for the second of three."""
    trace = Trace()
    x = trace.graph.add_input("x", TensorSpec((6, 6), np.dtype(float)))
    with recording(trace):
        make(Tensor.of_value(x))
    draw_as_whole_batch(trace.graph.nodes, [x], 1, 3)
    return [node.operator.piece for node in trace.graph.nodes if node.operator.is_random]


def dropped(x: Tensor) -> Tensor:
    y: Tensor = ops.Dropout(0.5)(x)[0]
    return y


ALONG_DIM_0: dict[str, Make] = {
    "the batch": dropped,
    "what is computed of each row": lambda x: dropped(ops.exp(ops.matmul(x, WEIGHT)) + 1.0),
    "rows that are drawn for already": lambda x: dropped(dropped(x)),
    "rows that follow one another": lambda x: dropped(x.reshape((36,))),
    "more dims of a row": lambda x: dropped(x.reshape((6, 2, 3)).transpose((0, 2, 1))),
    "rows beside what all rows have in common": lambda x: dropped(x - x.mean(0)),
    "rows beside what all rows have in common, first": lambda x: dropped(x.mean(0) - x),
    "rows that were turned and turned back": lambda x: dropped(x.transpose((1, 0)).transpose((1, 0))),
}


@pytest.mark.parametrize("make", ALONG_DIM_0.values(), ids=ALONG_DIM_0)
def test_it_draws_its_piece_for(make: Make) -> None:
    assert {*pieces_drawn(make)} == {(1, 3)}


def test_what_does_not_depend_on_the_batch_is_drawn_alike_for_all_pieces() -> None:
    assert pieces_drawn(lambda x: dropped(Tensor(np.ones((6, 6)))) + dropped(x)) == [(0, 1), (1, 3)]
    assert pieces_drawn(lambda x: dropped(WEIGHT * 2.0) + x) == [(0, 1)]


ELSEWHERE: dict[str, tuple[Make, str]] = {
    "turned": (lambda x: dropped(x.transpose((1, 0))), "(6, 6)"),
    "in line, column after column": (lambda x: dropped(x.transpose((1, 0)).reshape((36,))), "(36,)"),
    "behind others": (lambda x: dropped(x.reshape((6, 2, 3)).transpose((1, 0, 2))), "(2, 6, 3)"),
    "summed away": (lambda x: dropped(x.sum(0)), "(6,)"),
    "summed away by a product": (lambda x: dropped(ops.matmul(WEIGHT, x)), "(6, 6)"),
    "along both dims": (lambda x: dropped(x + x.transpose((1, 0))), "(6, 6)"),
}


@pytest.mark.parametrize(("make", "shape"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_it_is_refused_where_rows_are(make: Make, shape: str) -> None:
    with pytest.raises(TraceError) as caught:
        pieces_drawn(make)
    said = str(caught.value)
    assert said.startswith("Dropout: the rows of a micro-batch do not lie along dim 0 of its input, of shape " + shape)
    assert said.endswith("so that its mask cannot be that of the whole batch; put it where dim 0 is the batch")


@pytest.mark.parametrize("make", [lambda x: x.transpose((1, 0)), lambda x: x.sum(0)])
def test_where_nothing_is_drawn_rows_may_lie_anywhere(make: Make) -> None:
    assert pieces_drawn(make) == []
