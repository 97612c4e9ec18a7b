"""Options of windows: what they mean is MindSpore's, and a number is used or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import nn, ops
from mpiparallel.errors import ConfigurationError

IMAGE = np.ones((1, 1, 9, 8), np.float32)
KERNEL = np.ones((1, 1, 3, 3), np.float32)
CONSUMERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "Conv2D-stride": ("stride", lambda **option: ops.Conv2D(1, 3, **option)(IMAGE, KERNEL)),
    "Conv2D-dilation": ("dilation", lambda **option: ops.Conv2D(1, 3, **option)(IMAGE, KERNEL)),
    "Conv2D-kernel_size": ("kernel_size", lambda **option: ops.Conv2D(1, **option)),
    "Conv2d-stride": ("stride", lambda **option: nn.Conv2d(1, 1, 3, **option)),
    "Conv2d-dilation": ("dilation", lambda **option: nn.Conv2d(1, 1, 3, **option)),
    "MaxPool-strides": ("strides", lambda **option: ops.MaxPool(2, **option)(IMAGE)),
    "MaxPool-kernel_size": ("kernel_size", lambda **option: ops.MaxPool(**option)(IMAGE)),
    "AvgPool-strides": ("strides", lambda **option: ops.AvgPool(2, **option)(IMAGE)),
    "AvgPool-kernel_size": ("kernel_size", lambda **option: ops.AvgPool(**option)(IMAGE)),
}


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize(
    "given", [(2, 2, 1, 1), (1, 2, 2, 2), (1, 2, 3), (2,), (), 2.0, True, (True, 1), 0, (1, -1), "2", None]
)
def test_any_numbers_but_those_of_height_and_width_are_refused(consumer: str, given: object) -> None:
    name, build = CONSUMERS[consumer]
    with pytest.raises(ConfigurationError, match=rf"{name}=.* must be a positive integer, a pair"):
        build(**{name: given})


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("given", [2, (2, 2), (2, 3), (1, 1, 2, 3)])
def test_a_number_a_pair_and_four_numbers_from_1_1_are_taken(consumer: str, given: Any) -> None:
    name, build = CONSUMERS[consumer]
    build(**{name: given})


def test_four_numbers_are_images_channels_height_and_width() -> None:
    # (9 - 3) // 2 + 1 rows and (8 - 3) // 3 + 1 columns of windows.
    assert ops.Conv2D(1, 3, stride=(1, 1, 2, 3))(IMAGE, KERNEL).shape == (1, 1, 4, 2)
    # A window reaches 2 * 2 + 1 rows and 2 * 3 + 1 columns.
    assert ops.Conv2D(1, 3, dilation=(1, 1, 2, 3))(IMAGE, KERNEL).shape == (1, 1, 5, 2)


@pytest.mark.parametrize("pad", [(1, 1), (1,), 1.0, True, (1, 1, 1, 1.5), "1"])
def test_padding_is_a_number_or_four_of_them(pad: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"pad=.* must be an integer or \(top, bottom, left, right\)"):
        ops.Conv2D(1, 3, pad_mode="pad", pad=pad)
