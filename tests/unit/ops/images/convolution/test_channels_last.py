"""Where channels are last in memory, a convolution of single pixels and its gradients are products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.ops.images.convolution.channels_last import ChannelsLastConvolution, is_channels_last
from mpiparallel.ops.images.window import Window

Array = np.ndarray[Any, Any]
POINTWISE = ChannelsLastConvolution(Runtime(), Window((1, 1), (1, 1)).over((4, 5)))


def images(channels: int, seed: int) -> Array:
    """Return two images whose channels are last in memory."""
    return np.random.default_rng(seed).normal(size=(2, 4, 5, channels)).transpose(0, 3, 1, 2)


X, DY = images(3, 0), images(6, 1)
WEIGHT = np.random.default_rng(2).normal(size=(6, 3, 1, 1))


@pytest.mark.parametrize(
    ("bind", "given", "target", "formula"),
    [
        (POINTWISE.forward, (X, WEIGHT), images(6, 3), "nihw,oixy->nohw"),
        (POINTWISE.input_gradient, (DY, WEIGHT), images(3, 3), "nohw,oixy->nihw"),
        (POINTWISE.weight_gradient, (DY, X), np.ones((6, 3, 1, 1)), "nohw,nihw->oi"),
    ],
    ids=["forward", "input gradient", "weight gradient"],
)
def test_single_pixels_are_multiplied_where_they_lie(
    bind: Callable[..., Any], given: tuple[Array, Array], target: Array, formula: str
) -> None:
    is_image = target.shape[2:] == (4, 5)
    assert is_channels_last(target) == is_image
    bind(*given, target)()
    np.testing.assert_allclose(target, np.einsum(formula, *given).reshape(target.shape), rtol=1e-12)
    assert is_channels_last(target) == is_image
