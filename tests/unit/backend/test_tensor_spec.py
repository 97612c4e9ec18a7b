"""Shapes, parts and requests say what they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.attention.request import AttentionRequest
from mpiparallel.backend.convolutions.request import ConvolutionRequest, Direction
from mpiparallel.backend.products.product import Product
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.layout.box import Box


@pytest.mark.parametrize(
    ("shape", "dtype", "size", "byte_count"),
    [((2, 3), "f4", 6, 24), ((), "f8", 1, 8), ((0, 5), "i2", 0, 0), ((7,), "c16", 7, 112), ((3, 1, 2), "?", 6, 6)],
)
def test_a_tensor_has_the_product_of_its_extents_in_elements(
    shape: tuple[int, ...], dtype: str, size: int, byte_count: int
) -> None:
    spec = TensorSpec(shape, np.dtype(dtype))
    assert (spec.size, spec.byte_count) == (size, byte_count)


def test_a_part_has_the_shape_of_its_box() -> None:
    assert Part((4, 6), Box((1, 2), (3, 6))).shape == (2, 4)
    whole = Part.whole((4, 6))
    assert (whole.global_shape, whole.box, whole.shape) == ((4, 6), Box((0, 0), (4, 6)), (4, 6))


def test_a_product_is_plain_where_nothing_else_is_asked_for() -> None:
    x = np.ones((2, 2))
    assert Product(x, x, x).is_plain
    assert Product(x, x, x, allows_tf32=True).is_plain
    for name in ("added", "bias", "before", "slopes_at", "sums"):
        others: dict[str, Any] = {name: x}
        assert not Product(x, x, x, **others).is_plain
    assert not Product(x, x, x, gelu=True).is_plain


def attention(**others: Any) -> AttentionRequest:
    query, key = np.ones((1, 2, 3, 4), np.float32), np.ones((1, 2, 5, 4), np.float32)
    sums = np.ones((1, 2, 3), np.float32)
    named = {"query": query, "key": key, "value": key, "bias": None, "output": query, "sums": sums, "scale": 0.5}
    return AttentionRequest(**{**named, **others})


def test_attention_sets_output_and_sums_or_gradients_from_what_is_given() -> None:
    forward = attention()
    assert list(forward.given) == ["query", "key", "value"]
    assert list(forward.results) == ["output", "sums"]
    assert forward.results["sums"].shape == (1, 2, 3, 1)
    assert list(attention(bias=np.ones((1, 1, 3, 5))).given) == ["query", "key", "value", "bias"]
    query, key, value = (np.zeros(number) for number in range(3))
    backward = attention(slope=forward.query, gradients=(query, key, value))
    assert list(backward.given) == ["query", "key", "value", "output", "sums", "slope"]
    assert backward.given["slope"] is forward.query
    assert backward.results == {"query_gradient": query, "key_gradient": key, "value_gradient": value}


def test_requests_of_one_shape_share_a_plan_wherever_their_arrays_are() -> None:
    turned = np.ones((1, 2, 4, 3), np.float32).swapaxes(2, 3)
    others = [
        {"scale": 0.25},
        {"is_causal": True},
        {"query": turned},
        {"bias": np.ones((1, 1, 3, 5), np.float32)},
        {"key": np.ones((1, 2, 5, 4))},
        {"slope": turned, "gradients": (turned,) * 3},
    ]
    assert attention().shape == attention().shape
    assert len({attention(**one).shape for one in [{}, *others]}) == 1 + len(others)


def convolution(**others: Any) -> ConvolutionRequest:
    images, weight, outputs = (np.ones(shape, np.float32) for shape in ((1, 2, 5, 5), (3, 2, 3, 3), (1, 3, 3, 3)))
    named = {"direction": Direction.FORWARD, "images": images, "weight": weight, "outputs": outputs}
    window = {"stride": (1, 1), "dilation": (1, 1), "before": (0, 0), "after": (0, 0)}
    return ConvolutionRequest(**{**named, **window, **others})


def test_convolutions_of_one_shape_share_a_plan_wherever_their_arrays_are() -> None:
    others: list[dict[str, Any]] = [
        {"direction": Direction.INPUT_GRADIENT},
        {"direction": Direction.WEIGHT_GRADIENT},
        {"images": np.ones((1, 2, 5, 5))},
        {"weight": np.ones((3, 3, 3, 2), np.float32).transpose(0, 3, 1, 2)},
        {"outputs": np.ones((2, 3, 3, 3), np.float32)},
        *({name: (1, 2)} for name in ("stride", "dilation", "before", "after")),
        {"allows_tf32": True},
    ]
    assert convolution().shape == convolution().shape
    assert len({convolution(**one).shape for one in [{}, *others]}) == 1 + len(others)
    assert list(convolution().arrays) == ["images", "weight", "outputs"]
    assert [one.value for one in Direction] == ["outputs", "images", "weight"]
