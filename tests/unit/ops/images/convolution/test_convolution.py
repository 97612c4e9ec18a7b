"""Convolutions as users call them, with their options and gradients, against the definition; what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.ops.images.window import Window
from tests.unit.ops.images.convolution.convolution_samples import Sample

X, WEIGHT = np.ones((2, 4, 5, 5)), np.ones((6, 2, 3, 3))


@pytest.mark.parametrize(
    ("options", "window"),
    [
        ({}, Window((3, 2), (1, 1))),
        ({"stride": (2, 1)}, Window((3, 2), (2, 1))),
        ({"dilation": (1, 2)}, Window((3, 2), (1, 1), (1, 2))),
        ({"pad_mode": "same", "stride": 2}, Window((3, 2), (2, 2), pad_mode="same")),
        ({"pad_mode": "pad", "pad": (1, 0, 2, 1)}, Window((3, 2), (1, 1), (1, 1), "pad", (1, 0, 2, 1))),
        ({"pad_mode": "pad", "pad": 1, "stride": (1, 1, 1, 3)}, Window((3, 2), (1, 3), (1, 1), "pad", (1, 1, 1, 1))),
    ],
)
@pytest.mark.parametrize("group", [1, 2])
def test_a_convolution_and_both_its_gradients_are_those_of_the_definition(
    options: dict[str, Any], window: Window, group: int
) -> None:
    sample = Sample(2, 3, (6, 7), 2, window, group)
    operator = ops.Conv2D(2 * group, (3, 2), group=group, **options)
    np.testing.assert_allclose(operator(sample.x, sample.weight).asnumpy(), sample.expected("forward"), atol=1e-12)
    found = ops.grad(lambda x, weight: (operator(x, weight) * sample.dy).sum(), (0, 1))(
        Tensor(sample.x), Tensor(sample.weight)
    )
    for gradient, kind in zip(found, ("input_gradient", "weight_gradient"), strict=True):
        np.testing.assert_allclose(gradient.asnumpy(), sample.expected(kind), atol=1e-12)


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: ops.Conv2D(6, 3, group=3)(X, WEIGHT), ShapeError, r"\(2, 4, 5, 5\).*channels a multiple of group=3"),
    (lambda: ops.Conv2D(6, 3, group=2)(X, WEIGHT[:, :1]), ShapeError, r"weight has .*; it must be \(6, 2, 3, 3\)"),
    (lambda: ops.Conv2D(6, 3, group=2)(X, WEIGHT[:4]), ShapeError, r"weight has .*; it must be \(6, 2, 3, 3\)"),
    (lambda: ops.Conv2D(6, 3, group=2)(X, WEIGHT.astype(int)), ShapeError, "weight is of dtype int64; cast it to a fl"),
    (lambda: ops.Conv2D(6, 3, data_format="NHWC"), ConfigurationError, "Conv2D: data_format 'NHWC' is not supported"),
    (lambda: ops.Conv2D(6, 3, pad=(1, 1, 1)), ConfigurationError, r"pad=\(1, 1, 1\) must be an integer or \(top, bot"),
    (lambda: ops.Conv2D(6, 3, pad_mode="pad", pad=1.0), ConfigurationError, "pad=1.0 must be an integer or"),
    (
        lambda: ops.Conv2DBackpropInput(6, 3, group=2)(X, WEIGHT, X),
        ShapeError,
        r"dy has shape \(2, 4, 5, 5\); it must be \(2, 6, 3, 3\)",
    ),
    (
        lambda: ops.Conv2DBackpropFilter(6, 3, group=2)(X, X, WEIGHT),
        ShapeError,
        r"dy has shape \(2, 4, 5, 5\); it must be \(2, 6, 3, 3\)",
    ),
]


@pytest.mark.parametrize(("call", "error", "said"), REFUSED)
def test_what_does_not_fit_a_convolution_is_refused(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()
