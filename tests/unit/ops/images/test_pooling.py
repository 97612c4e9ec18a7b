"""Pooling, padding and adaptive means of images, window by window, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ConfigurationError, ShapeError

X = np.random.default_rng(67).normal(size=(2, 3, 7, 6))


def pooled(x: Any, kernel: tuple[int, int], stride: tuple[int, int], same: bool, reduce: Callable[[Any], Any]) -> Any:
    """Return what ``reduce`` makes of the elements that each window has in the image."""
    counts, befores = [], []
    for extent, size, step in zip(x.shape[2:], kernel, stride, strict=True):
        count = -(-extent // step) if same else (extent - size) // step + 1
        counts.append(count)
        befores.append(max((count - 1) * step + size - extent, 0) // 2 if same else 0)
    found = np.zeros((*x.shape[:2], *counts))
    for row, column in np.ndindex(*counts):
        top, left = row * stride[0] - befores[0], column * stride[1] - befores[1]
        piece = x[:, :, max(top, 0) : top + kernel[0], max(left, 0) : left + kernel[1]]
        found[:, :, row, column] = reduce(piece.reshape(*x.shape[:2], -1))
    return found


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 1), ((1, 3), (2, 1)), ((3, 2), (3, 4)), ((7, 6), (1, 1))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_window_gives_its_largest_element_and_its_mean(kernel: Any, stride: Any, same: bool, dtype: Any) -> None:
    pair, steps = ((one, one) if isinstance(one, int) else one for one in (kernel, stride))
    for name, reduce in [("MaxPool", lambda piece: piece.max(-1)), ("AvgPool", lambda piece: piece.mean(-1))]:
        found = getattr(ops, name)(kernel, stride, "SAME" if same else "valid")(X.astype(dtype))
        assert found.dtype == dtype
        np.testing.assert_allclose(found.asnumpy(), pooled(X, pair, steps, same, reduce), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["MaxPool", "AvgPool"])
def test_no_images_have_no_windows_and_windows_are_of_one_element_unless_told(name: str) -> None:
    assert getattr(ops, name)(2)(X[:0]).shape == (0, 3, 6, 5)
    assert getattr(ops, name)(2)(X[:, :0]).shape == (2, 0, 6, 5)
    np.testing.assert_array_equal(getattr(ops, name)()(X).asnumpy(), X)
    assert ops.grad(lambda x: getattr(ops, name)(2)(x).sum())(Tensor(X[:0])).shape == (0, 3, 7, 6)


def test_the_first_of_equal_elements_has_the_gradient_of_its_windows() -> None:
    x = np.array([[[[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]])
    found = ops.grad(lambda given: ops.MaxPool(2)(given).sum())(Tensor(x)).asnumpy()
    assert found.tolist() == [[[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]]


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: ops.MaxPool(2, pad_mode="pad"), ConfigurationError, "MaxPool: pad_mode 'pad' is neither 'valid' nor 'sa"),
    (lambda: ops.AvgPool(2, data_format="NHWC"), ConfigurationError, "data_format 'NHWC' is not supported; transpose"),
    (lambda: ops.MaxPool(8)(X), ShapeError, r"images of \(7, 6\) elements with padding \(0, 0, 0, 0\) are smaller tha"),
    (lambda: ops.AvgPool((1, 7))(X), ShapeError, r"a window of \(1, 7\) elements with dilation \(1, 1\)"),
    (lambda: ops.AvgPool(2)(X.astype(int)), ShapeError, "x is of dtype int64; cast it to a floating-point dtype"),
    (
        lambda: ops.AvgPool(2)(X[0]),
        ShapeError,
        r"x has shape \(3, 7, 6\); it must be \(images, channels, height, width",
    ),
    (lambda: ops.MaxPoolGrad(2)(X, X, X), ShapeError, r"y has shape \(2, 3, 7, 6\); it must be \(2, 3, 6, 5\)"),
    (lambda: ops.AvgPoolGrad(2)(X, X), ShapeError, r"dy has shape \(2, 3, 7, 6\); it must be \(2, 3, 6, 5\)"),
    (lambda: ops.AdaptiveAvgPool2D(0), ConfigurationError, "output_size 0 must be a number or"),
    (lambda: ops.AdaptiveAvgPool2D((1, 0)), ConfigurationError, r"output_size \(1, 0\) must be a number or"),
    (lambda: ops.AdaptiveAvgPool2D((1, 2, 3)), ConfigurationError, r"output_size \(1, 2, 3\) must be a number or"),
    (lambda: ops.AdaptiveAvgPool2D(1)(X.astype(int)), ShapeError, "x is of dtype int64"),
    (lambda: ops.Pad(((1, 1), (0,)))(X[0, 0]), ConfigurationError, r"must be pairs \(before, after\) of at least 0"),
    (lambda: ops.Pad(((1, -1),))(X[0, 0, 0]), ConfigurationError, r"must be pairs \(before, after\) of at least 0"),
    (lambda: ops.Pad(((1, 1),))(X[0, 0]), ShapeError, r"1 pairs of paddings for \(7, 6\); give each of the dims one"),
    (lambda: ops.Conv2D(2, 1, mode=0), ConfigurationError, "mode=0 is not supported; 1 is a cross-correlation"),
    (lambda: ops.Conv2D(3, 1, group=2), ConfigurationError, "out_channel=3 does not divide into group=2 parts"),
    (lambda: ops.Conv2D(0, 1), ConfigurationError, "out_channel=0 does not divide into group=1 parts"),
    (lambda: ops.Conv2D(2, 1, group=0), ConfigurationError, "out_channel=2 does not divide into group=0 parts"),
    (lambda: ops.Conv2D(2, 1, pad_mode="full"), ConfigurationError, "pad_mode 'full' is not one of"),
    (lambda: ops.Conv2D(2, 1, pad=1), ConfigurationError, r"pad=\(1, 1, 1, 1\) with pad_mode 'valid': padding must"),
    (
        lambda: ops.Conv2D(2, 1, pad_mode="pad", pad=-1),
        ConfigurationError,
        "padding must be positive, and needs",
    ),
    (lambda: ops.Conv2D(2, 3, dilation=3)(X, np.ones((2, 3, 3, 3))), ShapeError, r"with dilation \(3, 3\)"),
    (lambda: ops.Conv2D(2, 3)(X, np.ones((2, 2, 3, 3))), ShapeError, r"weight has shape .*; it must be \(2, 3, 3, 3\)"),
    (lambda: ops.Conv2D(2, 3)(X[0], np.ones((2, 3, 3, 3))), ShapeError, r"x has shape \(3, 7, 6\); it must be"),
    (lambda: ops.Conv2D(2, 1)(X.astype(int), np.ones((2, 3, 1, 1))), ShapeError, "x is of dtype int64"),
]


@pytest.mark.parametrize(("call", "error", "said"), REFUSED)
def test_what_does_not_fit_images_is_refused(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()


@pytest.mark.parametrize("size", [1, 3, 7, (2, None), (None, 4), None, (7, 6), (9, 10)])
def test_adaptive_means_are_of_pieces_that_cover_the_image(size: Any) -> None:
    wanted = (size, size) if not isinstance(size, tuple) else size
    rows, columns = (extent if one is None else one for one, extent in zip(wanted, (7, 6), strict=True))
    expected = np.zeros((2, 3, rows, columns))
    weights = np.random.default_rng(71).normal(size=expected.shape)
    spread = np.zeros(X.shape)
    for row, column in np.ndindex(rows, columns):
        down = slice(row * 7 // rows, -(-(row + 1) * 7 // rows))
        across = slice(column * 6 // columns, -(-(column + 1) * 6 // columns))
        piece = X[:, :, down, across]
        expected[:, :, row, column] = piece.mean((2, 3))
        spread[:, :, down, across] += weights[:, :, row, column, None, None] / (piece.shape[2] * piece.shape[3])
    np.testing.assert_allclose(ops.AdaptiveAvgPool2D(size)(X).asnumpy(), expected, rtol=1e-12)
    found = ops.grad(lambda x: (ops.AdaptiveAvgPool2D(size)(x) * weights).sum())(Tensor(X))
    np.testing.assert_allclose(found.asnumpy(), spread, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("value", [0, 2.5, -1])
@pytest.mark.parametrize("pairs", [((0, 0), (0, 0)), ((1, 0), (0, 2)), ((0, 3), (1, 1)), ((2, 2), (0, 0))])
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
def test_a_tensor_is_surrounded_and_its_gradient_is_what_lies_inside(pairs: Any, value: float, dtype: Any) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype)
    if np.dtype(dtype).kind == "f" or value == int(value):
        wanted = np.pad(x, pairs, constant_values=value)
        np.testing.assert_array_equal(ops.Pad(pairs, value)(x).asnumpy(), wanted, strict=True)
    if np.dtype(dtype).kind == "f":
        weights = np.arange(np.pad(x, pairs).size, dtype=dtype).reshape(np.pad(x, pairs).shape)
        found = ops.grad(lambda given: (ops.Pad(pairs, value)(given) * weights).sum())(Tensor(x)).asnumpy()
        (top, bottom), (left, right) = pairs
        inside = weights[top : weights.shape[0] - bottom, left : weights.shape[1] - right]
        np.testing.assert_array_equal(found, inside)
