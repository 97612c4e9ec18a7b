"""Methods that cut and turn tensors: what does not fit is refused, and edges are as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor
from mpiparallel.errors import ShapeError

X = np.arange(24.0).reshape(2, 3, 4)

REFUSED: list[tuple[Callable[[Tensor], Any], str]] = [
    (lambda x: x.flatten(2, 1), r"flatten: start_dim 2 is behind end_dim 1 of \(2, 3, 4\); swap them"),
    (lambda x: x.flatten(3), "axis 3 is out of range for 3 dims; use -3 to 2"),
    (lambda x: x.flatten(0, -4), "axis -4 is out of range for 3 dims"),
    (lambda x: x.swapaxes(0, 3), "axis 3 is out of range for 3 dims"),
    (lambda x: x.swapaxes(-4, 0), "axis -4 is out of range for 3 dims"),
    (lambda x: x.moveaxis(0, 3), "axis 3 is out of range for 3 dims"),
    (lambda x: x.moveaxis(3, 0), "axis 3 is out of range for 3 dims"),
    (lambda x: x.split(1, 3), "axis 3 is out of range for 3 dims"),
    (lambda x: x.chunk(2, 3), "axis 3 is out of range for 3 dims"),
    (lambda x: x.chunk(0), "Tensor.chunk: 0 pieces; give a number of at least 1"),
    (lambda x: x.narrow(3, 0, 1), "axis 3 is out of range for 3 dims"),
    (lambda x: x.narrow(1, 2, 2), "Tensor.narrow: 2 elements from 2 on do not lie in the 3 of dim 1"),
    (lambda x: x.narrow(1, -1, 1), "Tensor.narrow: 1 elements from -1 on do not lie in the 3 of dim 1"),
    (lambda x: x.narrow(1, 1, -1), "Tensor.narrow: -1 elements from 1 on do not lie in the 3 of dim 1"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_what_does_not_fit_the_shape_is_refused_in_words(call: Callable[[Tensor], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        call(Tensor(X))


SAME: list[tuple[Callable[[Tensor], Tensor], Any]] = [
    (lambda x: x.flatten(), X.reshape(24)),
    (lambda x: x.flatten(-2), X.reshape(2, 12)),
    (lambda x: x.flatten(1, 1), X),
    (lambda x: x[:0].flatten(1), np.zeros((0, 12))),
    (lambda x: x[0, 0, 0].flatten(), np.zeros(1)),
    (lambda x: x.swapaxes(1, 1), X),
    (lambda x: x.swapaxes(-1, 1), X.swapaxes(-1, 1)),
    (lambda x: x.moveaxis(-1, -3), np.moveaxis(X, -1, -3)),
    (lambda x: x.moveaxis(0, 1), np.moveaxis(X, 0, 1)),
    (lambda x: x.narrow(-1, 1, 3), X[..., 1:]),
    (lambda x: x.narrow(2, 0, 0), X[..., :0]),
    (lambda x: x.narrow(0, 2, 0), X[2:]),
    (lambda x: x.transpose(0, 1), X.swapaxes(0, 1)),
    (lambda x: x.transpose([1, 0, 2]), X.transpose(1, 0, 2)),
    (lambda x: x[0].t(), X[0].T),
    (lambda x: x[0, 0].t(), X[0, 0]),
    (lambda x: x.reshape(-1), X.reshape(-1)),
    (lambda x: x.reshape([24]), X.reshape(24)),
    (lambda x: x.reshape(np.int64(24)), X.reshape(24)),
    (lambda x: x.reshape(np.int64(6), np.int64(4)), X.reshape(6, 4)),
    (lambda x: x[0].permute(np.int64(1), np.int64(0)), X[0].T),
    (lambda x: x.take([1]), np.array([1.0])),
    (lambda x: x.take([1], 2), X[..., [1]]),
    (lambda x: x.gather(np.array([1]), -1), X[..., [1]]),
    (lambda x: x[:, :1].squeeze(), X[:, 0]),
    (lambda x: x[:1, :1].squeeze(0), X[0, :1]),
    (lambda x: x[:1, :1].squeeze((0, 1)), X[0, 0]),
]


@pytest.mark.parametrize(("call", "wanted"), SAME)
def test_edges_are_as_in_numpy(call: Callable[[Tensor], Tensor], wanted: Any) -> None:
    np.testing.assert_array_equal(call(Tensor(X)).asnumpy(), wanted, strict=True)


@pytest.mark.parametrize(
    ("call", "extents"),
    [
        (lambda x: x.split(1), [1, 1]),
        (lambda x: x.split(2, 1), [2, 1]),
        (lambda x: x.split(9, 1), [3]),
        (lambda x: x.split((3, 1), -1), [3, 1]),
        (lambda x: x.split([1, 2], 1), [1, 2]),
        (lambda x: x.chunk(1, 1), [3]),
        (lambda x: x.chunk(2, 1), [2, 1]),
        (lambda x: x.chunk(3, -1), [2, 2]),
        (lambda x: x.chunk(9, 2), [1, 1, 1, 1]),
        (lambda x: x.chunk(2), [1, 1]),
    ],
)
def test_pieces_have_the_elements_of_the_whole_in_order(call: Callable[[Tensor], Any], extents: list[int]) -> None:
    pieces = [piece.asnumpy() for piece in call(Tensor(X))]
    (axis,) = {dim for piece in pieces for dim in range(3) if piece.shape[dim] != X.shape[dim]} or {1}
    assert [piece.shape[axis] for piece in pieces] == extents
    np.testing.assert_array_equal(np.concatenate(pieces, axis), X)


@pytest.mark.parametrize("sizes", [300, (300, 700), (1000,)])
def test_pieces_of_a_long_dim_add_up(sizes: Any) -> None:
    assert sum(piece.size for piece in Tensor(np.zeros(1000)).split(sizes)) == 1000


def test_slices_are_along_the_first_dim_unless_told() -> None:
    assert [row.tolist() for row in Tensor(X).unbind()] == X.tolist()
    assert [row.tolist() for row in Tensor(X).unbind(-1)] == X.transpose(2, 0, 1).tolist()
    assert [row.tolist() for row in Tensor(X).unbind(dim=1)] == X.transpose(1, 0, 2).tolist()
