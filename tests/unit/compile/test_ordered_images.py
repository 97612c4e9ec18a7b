"""Which images have their channels last, on graphs of one or two operators that are made by hand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.channels_last import put_channels_last
from mpiparallel.graph.graph import Graph, Value
from mpiparallel.graph.operator import Operator

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
IMAGES = (2, 16, 4, 4)


class Conv2D(Operator):
    """Its name says what it is."""


class Conv2DBackpropFilter(Operator):
    """It takes two images, and makes the gradient of a weight."""


class Unknown(Operator):
    """It may want its images in one order."""


def add(graph: Graph, operator: Operator, *inputs: Value, shape: tuple[int, ...] = IMAGES) -> Value:
    (made,) = graph.add_node(operator, operator.name, inputs, [TensorSpec(shape, inputs[0].spec.dtype)]).outputs
    return made


def convolved(dtype: Any, shape: tuple[int, ...] = IMAGES, after: Operator | None = None) -> tuple[Graph, list[Value]]:
    """Images that are made element by element, convolved, and read by one operator more."""
    graph = Graph()
    x = add(graph, ops.ReLU(), graph.add_input("x", TensorSpec(shape, np.dtype(dtype))), shape=shape)
    weight = graph.add_input("weight", TensorSpec((shape[1], shape[1], 1, 1), np.dtype(dtype)))
    y = add(graph, Conv2D(), x, weight, shape=shape)
    last = add(graph, after or ops.ReLU(), y, shape=shape)
    graph.outputs = [add(graph, Unknown(), last, shape=shape)]
    return graph, [x, y, last]


@pytest.mark.parametrize(
    ("dtype", "shape", "in_tf32", "is_last"),
    [
        (HALF, IMAGES, False, True),
        (ml_dtypes.bfloat16, IMAGES, False, True),
        (SINGLE, IMAGES, False, False),
        (SINGLE, IMAGES, True, True),
        (np.float64, IMAGES, True, False),
        # Sixteen bytes of channels are read at once.
        (HALF, (2, 8, 4, 4), False, True),
        (HALF, (2, 4, 4, 4), False, False),
        (HALF, (2, 12, 4, 4), False, False),
        (SINGLE, (2, 4, 4, 4), True, True),
        (SINGLE, (2, 2, 4, 4), True, False),
        # One place has no order, and nothing has none.
        (HALF, (2, 16, 1, 1), False, False),
        (HALF, (2, 16, 1, 2), False, True),
        (HALF, (0, 16, 4, 4), False, False),
        (HALF, (1, 16, 2, 1), False, True),
    ],
)
def test_images_of_16_bits_and_those_that_may_be_rounded_have_their_channels_last(
    dtype: Any, shape: tuple[int, ...], in_tf32: bool, is_last: bool
) -> None:
    graph, (x, y, last) = convolved(dtype, shape)
    put_channels_last(graph, in_tf32)
    # What is read by an operator that may want its own order stays as it is.
    assert graph.channels_last == (frozenset({x, y}) if is_last else frozenset())
    assert last not in graph.channels_last


@pytest.mark.parametrize(
    ("after", "is_any"),
    [(ops.ReLU(), True), (ops.MaxPool(1, 1), True), (Conv2D(), True), (Unknown(), False), (ops.ExpandDims(), False)],
    ids=lambda one: getattr(one, "name", None),
)
def test_an_image_is_in_that_order_if_all_that_read_it_take_any(after: Operator, is_any: bool) -> None:
    graph, (x, y, _) = convolved(HALF, after=after)
    put_channels_last(graph, in_tf32=False)
    assert (y in graph.channels_last) is is_any
    assert x in graph.channels_last


def test_inputs_weights_and_results_stay_as_they_are_and_what_is_beside_an_image_follows_it() -> None:
    graph = Graph()
    x, weight = (
        graph.add_input(name, TensorSpec(shape, HALF)) for name, shape in (("x", IMAGES), ("w", (16, 16, 3, 3)))
    )
    own_weight = add(graph, ops.ReLU(), weight, shape=(16, 16, 3, 3))
    image, beside, apart = (add(graph, ops.ReLU(), x) for _ in range(3))
    y = add(graph, Conv2D(), image, own_weight)
    total = add(graph, ops.Add(), y, beside)
    gradient = add(graph, Conv2DBackpropFilter(), total, image, shape=(16, 16, 3, 3))
    result = add(graph, ops.ReLU(), total)
    graph.outputs = [result, gradient, add(graph, ops.ReLU(), apart)]
    put_channels_last(graph, in_tf32=False)
    assert graph.channels_last == frozenset({image, beside, y, total})


def test_without_convolutions_no_image_changes_its_order() -> None:
    graph = Graph()
    image = add(graph, ops.ReLU(), graph.add_input("x", TensorSpec(IMAGES, HALF)))
    graph.outputs = [add(graph, ops.MaxPool(1, 1), image)]
    put_channels_last(graph, in_tf32=True)
    assert graph.channels_last == frozenset()
