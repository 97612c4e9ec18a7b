"""What dropout keeps: how much of it, by which seeds, and what its gradient takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.backend.tensor_spec import Part
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.execution.random_stream import drawing_at
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.layout.box import Box

X = np.random.default_rng(73).normal(size=(64, 33))


def drawn(operator: Any, draw: int = 0) -> tuple[Any, Any]:
    with drawing_at(draw):
        y, mask = operator(X)
    return y.asnumpy(), mask.asnumpy()


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 1.0])
def test_what_is_kept_is_scaled_and_the_mask_says_what_it_was(keep: float) -> None:
    y, mask = drawn(ops.Dropout(keep))
    np.testing.assert_allclose(y, np.where(mask, X / keep, 0.0), rtol=1e-12)
    # Five standard deviations of a mean of so many draws.
    assert abs(mask.mean() - keep) <= 5 * np.sqrt(keep * (1 - keep) / X.size)


@pytest.mark.parametrize("other", [ops.Dropout(0.5, 1, 0), ops.Dropout(0.5, 0, 1), ops.Dropout(0.5, 1, 1)])
def test_seeds_and_draws_decide_what_is_kept(other: Any) -> None:
    mask = drawn(ops.Dropout(0.5))[1]
    np.testing.assert_array_equal(mask, drawn(ops.Dropout(0.5))[1])
    assert (mask != drawn(other)[1]).any()
    assert (mask != drawn(ops.Dropout(0.5), 1)[1]).any()


def test_no_row_or_column_of_a_mask_is_that_of_another() -> None:
    mask = drawn(ops.Dropout(0.5))[1]
    assert len({row.tobytes() for row in mask}) == 64
    assert len({column.tobytes() for column in mask.T}) == 33


def test_half_is_kept_unless_told() -> None:
    assert ops.Dropout().keep_prob == 0.5
    np.testing.assert_array_equal(ops.DropoutGrad()([1.0, 2.0], [True, False]).asnumpy(), [2.0, 0.0])


@pytest.mark.parametrize("keep", [0.0, -0.5, 1.0001, 2.0])
@pytest.mark.parametrize("kind", [ops.Dropout, ops.DropoutGrad])
def test_a_share_that_is_none_is_refused(kind: Any, keep: float) -> None:
    with pytest.raises(ConfigurationError, match=rf"{kind.__name__}: keep_prob={keep} must be above 0 and at most 1"):
        kind(keep)


def test_a_mask_of_another_shape_and_integers_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"mask has shape \(3,\); it must be \(2,\)"):
        ops.DropoutGrad()(np.ones(2), np.ones(3, bool))
    with pytest.raises(ShapeError, match="x is of dtype int64; cast it to a floating-point dtype"):
        ops.Dropout()(np.ones(2, np.int64))


def test_the_gradient_goes_where_the_element_was_kept() -> None:
    _, mask = drawn(ops.Dropout(0.25))
    found = ops.DropoutGrad(0.25)(X, mask).asnumpy()
    np.testing.assert_allclose(found, np.where(mask, 4 * X, 0.0), rtol=1e-12)
    gradient = ops.grad(lambda x: (ops.Dropout(0.25)(x)[0] * X).sum())(Tensor(X)).asnumpy()
    kept = gradient != 0
    np.testing.assert_allclose(gradient[kept], 4 * X[kept], rtol=1e-12)
    assert 0.2 < kept.mean() < 0.3


def masked(operator: Any, x: Any, box: Box | None = None) -> Any:
    """Return the mask that the operator draws for a part of a tensor, or for all of it."""
    part = Part(x.shape, Box.whole(x.shape) if box is None else box)
    given = np.array(x[tuple(map(slice, part.box.start, part.box.stop))])
    outputs = [np.empty(given.shape), np.empty(given.shape, bool)]
    runtime = Runtime()
    operator.local([part], [part, part]).kernel(runtime, [given], outputs)()
    return outputs[1]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_pieces_of_a_batch_are_dropped_as_the_whole_batch_is(count: int) -> None:
    operator, rows = ops.Dropout(0.5), 64 // count
    whole = masked(operator, X)
    for index in range(count):
        piece = masked(operator.configured(piece=(index, count)), X[index * rows : (index + 1) * rows])
        np.testing.assert_array_equal(piece, whole[index * rows : (index + 1) * rows])


def test_a_part_of_a_piece_is_dropped_as_it_is_in_the_whole_batch() -> None:
    operator = ops.Dropout(0.5)
    part = masked(operator.configured(piece=(1, 2)), X[32:], Box((8, 3), (20, 30)))
    np.testing.assert_array_equal(part, masked(operator, X)[40:52, 3:30])
