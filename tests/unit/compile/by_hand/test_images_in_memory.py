"""Which images lie with their channels last, on graphs of a few operators that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.channels_last import put_channels_last
from mpiparallel.graph.graph import Graph, Value
from mpiparallel.graph.operator import Operator

SINGLE, HALF = np.dtype(np.float32), np.dtype(np.float16)
IMAGES = (4, 16, 8, 6)


class Conv2D(Operator):
    """Images by weights."""


class Conv2DBackpropFilter(Operator):
    """The gradient of weights, of two images."""


class MaxPool(Operator):
    """Fewer images."""


class Read(Operator):
    """It wants its input in the order of its dims."""


class Seen(Operator):
    """It shows its input, which is the same element by element."""

    is_view = True

    def expression(self, *inputs: Any) -> Any:
        return inputs


class Images(Graph):
    """Images that are made of an input, and what is made of them."""

    def __init__(self, shape: tuple[int, ...] = IMAGES, dtype: Any = HALF) -> None:
        super().__init__()
        self.spec = TensorSpec(shape, np.dtype(dtype))
        self.x = self.add_input("x", self.spec)
        self.weight = self.add_input("weight", TensorSpec((16, 16, 3, 3), self.spec.dtype))

    def add(self, operator: Operator, *inputs: Value, shape: tuple[int, ...] | None = None) -> Value:
        spec = self.spec if shape is None else TensorSpec(shape, self.spec.dtype)
        return self.add_node(operator, operator.name, inputs, [spec]).outputs[0]

    def found(self, *outputs: Value, in_tf32: bool = False) -> set[Value]:
        self.outputs = [*outputs]
        put_channels_last(self, in_tf32)
        return set(self.channels_last)


@pytest.mark.parametrize(
    ("shape", "dtype", "in_tf32", "is_found"),
    [
        (IMAGES, HALF, False, True),
        (IMAGES, SINGLE, True, True),
        (IMAGES, SINGLE, False, False),
        (IMAGES, np.float64, True, False),
        # Tensor cores read 16 bytes of channels at once.
        ((4, 8, 8, 6), HALF, False, True),
        ((4, 12, 8, 6), HALF, False, False),
        ((4, 4, 8, 6), SINGLE, True, True),
        ((4, 2, 8, 6), SINGLE, True, False),
        ((1, 16, 1, 2), HALF, False, True),
        ((1, 16, 2, 1), HALF, False, True),
        # One pixel, or none, is in the same order either way.
        ((4, 16, 1, 1), HALF, False, False),
        ((0, 16, 8, 6), HALF, False, False),
        ((4, 16, 8), HALF, False, False),
    ],
)
def test_images_that_tensor_cores_convolve_have_their_channels_last(
    shape: tuple[int, ...], dtype: Any, in_tf32: bool, is_found: bool
) -> None:
    graph = Images(shape, dtype)
    given = graph.add(ops.ReLU(), graph.x)
    made = graph.add(Conv2D(), given, graph.weight)
    last = graph.add(ops.Sqrt(), made)
    assert graph.found(last, in_tf32=in_tf32) == ({given, made} if is_found else set())


def test_what_is_returned_or_given_or_read_in_the_order_of_its_dims_stays() -> None:
    graph = Images()
    given = graph.add(ops.ReLU(), graph.x)
    assert graph.found(graph.add(Conv2D(), given, graph.weight)) == {given}
    graph = Images()
    made = graph.add(Conv2D(), graph.x, graph.weight)
    assert graph.found(graph.add(Read(), made)) == set()
    graph = Images()
    made = graph.add(Conv2D(), graph.x, graph.weight)
    assert graph.found(graph.add(Seen(), made)) == set()
    graph = Images()
    read = graph.add(Read(), graph.x)
    assert graph.found(graph.add(Conv2D(), read, graph.weight)) == set()


def test_weights_and_their_gradients_stay_in_the_order_of_their_dims() -> None:
    graph = Images()
    weight = graph.add(ops.ReLU(), graph.weight, shape=(16, 16, 3, 3))
    given = graph.add(ops.ReLU(), graph.x)
    made = graph.add(Conv2D(), given, weight)
    slope = graph.add(ops.Sqrt(), made)
    gradient = graph.add(Conv2DBackpropFilter(), slope, given, shape=(16, 16, 3, 3))
    updated = graph.add(ops.Sqrt(), gradient, shape=(16, 16, 3, 3))
    assert graph.found(updated) == {given, made, slope}


def test_what_is_computed_element_by_element_or_pooled_between_follows() -> None:
    graph = Images()
    made = graph.add(Conv2D(), graph.x, graph.weight)
    beside = graph.add(ops.Neg(), graph.x)
    total = graph.add(ops.Add(), made, beside)
    pooled = graph.add(MaxPool(), total, shape=(4, 16, 4, 3))
    after = graph.add(ops.Sqrt(), pooled, shape=(4, 16, 4, 3))
    last = graph.add(Read(), after, shape=(4,))
    assert graph.found(last) == {made, beside, total, pooled}


def test_images_of_one_channel_and_rows_beside_stay() -> None:
    graph = Images()
    made = graph.add(Conv2D(), graph.x, graph.weight)
    mask = graph.add(ops.Neg(), graph.add_input("mask", TensorSpec((4, 1, 8, 6), HALF)), shape=(4, 1, 8, 6))
    row = graph.add(ops.Neg(), graph.add_input("row", TensorSpec((6,), HALF)), shape=(6,))
    masked = graph.add(ops.Mul(), graph.add(ops.Mul(), made, mask), row)
    assert graph.found(masked) == {made, graph.nodes[-2].outputs[0]}


def test_images_that_no_convolution_touches_stay() -> None:
    graph = Images()
    pooled = graph.add(MaxPool(), graph.add(ops.ReLU(), graph.x))
    assert graph.found(graph.add(ops.Sqrt(), pooled)) == set()
