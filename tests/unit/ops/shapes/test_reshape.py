"""Shapes that operators are asked for: -1 has one meaning, and what does not fit is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops, set_auto_parallel_context
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ShapeError
from mpiparallel.ops.shapes.reshaping import dim_groups

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("shape", "target"), [((-1, 3), (2, 3)), ((-1, -1), (2, 3)), ((2, -1), (2, 3)), ((4, -1, 3), (4, 2, 3))]
)
def test_an_extent_of_minus_1_is_that_of_the_tensor(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    expected = np.broadcast_to(X, target)
    for result in (ops.BroadcastTo(shape)(X), ops.broadcast_to(X, shape), Tensor(X).broadcast_to(shape)):
        assert result.asnumpy().tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("source", "labels"),
    [((5,), ("d2",)), ((6, 5), ("d1", "d2")), ((1, 5), (None, "d2")), ((4, 1, 5), ("d0", None, "d2"))],
)
def test_a_dim_of_the_source_is_cut_with_the_last_ones_of_the_target(
    source: tuple[int, ...], labels: tuple[str | None, ...]
) -> None:
    equation = ops.BroadcastTo((4, 6, 5)).equation(TensorSpec(source, np.dtype(np.float32)))
    assert (equation.inputs, equation.outputs) == ((labels,), (("d0", "d1", "d2"),))


@pytest.mark.parametrize("shape", [(-1, 2, 3), (-1, -1, 3)])
def test_a_new_dim_needs_a_number(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="the first 1 dims are new; give them numbers"):
        ops.BroadcastTo(shape)(X)


@pytest.mark.parametrize("shape", [(3,), (-2, 3), (4, 3), (2, 0), (1, 3), (2, 1)])
def test_a_shape_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="broadcast"):
        ops.BroadcastTo(shape)(X)


@pytest.mark.parametrize("permutation", [(0, 2), (0, -3), (0, 0), (0,)])
def test_a_permutation_names_each_dim_once(permutation: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"permutation|out of range"):
        ops.Transpose()(X, permutation)


@pytest.mark.parametrize(
    ("source", "target", "groups"),
    [
        ((0,), (3, 0), [(0, 0)]),
        ((6, 0), (0,), [(0, 0)]),
        ((4, 6), (24,), [(0, 0)]),
        ((24,), (4, 6), [(0, 0)]),
        ((4, 1, 6), (1, 4, 2, 3), [(0, 1), (2, 2)]),
        ((4, 3, 2), (6, 4), [(0, 0)]),
        ((), (1, 1), []),
        ((2, 3, 4, 5), (24, 5), [(0, 0), (3, 1)]),
        ((24, 5), (2, 3, 4, 5), [(0, 0), (1, 3)]),
    ],
)
def test_dims_of_equally_many_elements_are_found_and_those_of_none_are_no_exception(
    source: tuple[int, ...], target: tuple[int, ...], groups: list[tuple[int, int]]
) -> None:
    assert dim_groups(source, target) == groups


@pytest.mark.parametrize(("source", "target"), [((0,), (4, 0)), ((4, 0), (0,)), ((4, 0, 2), (0, 6))])
def test_a_cut_tensor_without_elements_takes_any_shape_without_elements(
    source: tuple[int, ...], target: tuple[int, ...]
) -> None:
    def reshaped(_communicator: object) -> tuple[int, ...]:
        set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)

        class Reshaping(nn.Cell):
            def construct(self, x: Tensor) -> Tensor:
                doubled = ops.Mul().shard((((2,) if source[0] else (1,)) + (1,) * (len(source) - 1), ()))(x, 2.0)
                return doubled.reshape(target)

        return Reshaping()(Tensor(np.zeros(source, np.float32))).shape

    assert run_world(2, reshaped) == [target] * 2
