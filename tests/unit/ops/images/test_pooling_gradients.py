"""Gradients of poolings against sums over windows that are written out, and what windows cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.cost import Cost

X = np.random.default_rng(73).permutation(2 * 2 * 7 * 6).reshape(2, 2, 7, 6).astype(np.float64)
WINDOWS = [((2, 2), (2, 2)), ((3, 2), (1, 1)), ((3, 3), (2, 3)), ((1, 4), (3, 1)), ((2, 1), (3, 4))]


def starts_of(extent: int, size: int, step: int, same: bool) -> list[int]:
    """Return where the windows along a dim start; before 0 where there is padding."""
    count = -(-extent // step) if same else (extent - size) // step + 1
    before = max((count - 1) * step + size - extent, 0) // 2 if same else 0
    return [place * step - before for place in range(count)]


def spread(kernel: Any, stride: Any, same: bool, weights: Any, largest: bool) -> Any:
    """Return what each pixel gets of the weights of the windows that it is in."""
    found = np.zeros(X.shape)
    tops, lefts = (starts_of(X.shape[dim + 2], kernel[dim], stride[dim], same) for dim in (0, 1))
    for (row, top), (column, left) in ((one, other) for one in enumerate(tops) for other in enumerate(lefts)):
        place = (..., slice(max(top, 0), top + kernel[0]), slice(max(left, 0), left + kernel[1]))
        piece, weight = X[place], weights[..., row, column][..., None, None]
        share = piece == piece.max((2, 3), keepdims=True) if largest else 1 / (piece.shape[2] * piece.shape[3])
        found[place] += weight * share
    return found


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(("kernel", "stride"), WINDOWS)
@pytest.mark.parametrize("name", ["MaxPool", "AvgPool"])
def test_a_pixel_gets_its_share_of_the_gradient_of_each_of_its_windows(
    name: str, kernel: Any, stride: Any, same: bool
) -> None:
    operator = getattr(ops, name)(kernel, stride, "same" if same else "valid")
    weights = np.random.default_rng(79).normal(size=operator(X).shape)
    found = ops.grad(lambda x: (operator(x) * weights).sum())(Tensor(X)).asnumpy()
    wanted = spread(kernel, stride, same, weights, name == "MaxPool")
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["MaxPool", "AvgPool"])
def test_the_largest_of_negative_pixels_is_negative_beside_padding_and_has_the_gradient(name: str) -> None:
    given = Tensor(-np.ones((1, 1, 3, 3)))
    operator = getattr(ops, name)(2, 2, "same")
    assert operator(given).tolist() == [[[[-1.0, -1.0], [-1.0, -1.0]]]]
    assert float(ops.grad(lambda x: operator(x).sum())(given).sum()) == pytest.approx(4.0)


def test_padding_gets_none_of_the_gradient_where_the_largest_pixels_are_0() -> None:
    given = Tensor(np.zeros((1, 1, 3, 3)))
    found = ops.grad(lambda x: ops.MaxPool(3, 1, "same")(x).sum())(given).asnumpy()
    # The first pixel of each of 9 windows: the corner is that of 4 of them, and so on.
    assert found.tolist() == [[[[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]]


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, np.dtype(np.float32))


IMAGES, POOLED = spec(2, 4, 9, 6), spec(2, 4, 3, 3)


@pytest.mark.parametrize(
    ("operator", "inputs", "outputs", "cost"),
    [
        # 72 windows of 6 pixels; 432 pixels are read or written.
        (ops.MaxPool((3, 2), (3, 2)), [IMAGES], [POOLED], Cost(72 * 6, 4 * 432, 4 * 72)),
        (ops.AvgPool((3, 2), (3, 2)), [IMAGES], [POOLED], Cost(72 * 6, 4 * 432, 4 * 72)),
        (ops.MaxPoolGrad((3, 2), (3, 2)), [IMAGES, POOLED, POOLED], [IMAGES], Cost(72 * 6, 4 * 576, 4 * 432)),
        (ops.AvgPoolGrad((3, 2), (3, 2)), [IMAGES, POOLED], [IMAGES], Cost(72 * 6, 4 * 72, 4 * 432)),
        (
            ops.Conv2DBackpropFilter(6, 3, pad_mode="same"),
            [spec(2, 6, 7, 7), spec(2, 4, 7, 7), spec(6, 4, 3, 3)],
            [spec(6, 4, 3, 3)],
            # Each of 588 gradients meets 36 pixels, which are gathered once for all 6 channels.
            Cost(2 * 588 * 36, 4 * (588 + 392), 4 * 216, bytes_gathered=4 * 98 * 36),
        ),
        (
            ops.Conv2D(6, 3, pad_mode="same", group=2),
            [spec(2, 4, 7, 7), spec(6, 2, 3, 3)],
            [spec(2, 6, 7, 7)],
            # Each of 588 numbers is a sum of 18 products; 3 channels of a group share what is gathered.
            Cost(2 * 588 * 18, 4 * (392 + 108), 4 * 588, bytes_gathered=4 * 196 * 18),
        ),
    ],
    ids=lambda item: getattr(item, "name", ""),
)
def test_windows_cost_an_operation_for_each_pixel_in_each(operator: Any, inputs: Any, outputs: Any, cost: Any) -> None:
    assert operator.cost(inputs, outputs) == cost


@pytest.mark.parametrize(
    ("group", "output", "names"),
    [(1, (3, 3), ("Conv2D",)), (1, (1, 3), ("Conv2D",)), (1, (1, 1), ()), (2, (1, 1), ("Conv2D",))],
)
def test_a_convolution_with_one_window_to_an_image_is_a_product_of_matrices_and_no_kernel_of_its_own(
    group: int, output: tuple[int, int], names: tuple[str, ...]
) -> None:
    operator = ops.Conv2D(4, 3, group=group)
    inputs = [spec(2, 4, output[0] + 2, output[1] + 2), spec(4, 4 // group, 3, 3)]
    assert operator.kernel_names(inputs, [spec(2, 4, *output)]) == names
