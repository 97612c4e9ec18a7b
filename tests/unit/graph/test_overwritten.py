"""What is read of a parameter before and after it is overwritten in one program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.elementwise_fusion import fuse_elementwise
from mpiparallel.errors import GradientError
from mpiparallel.graph.execution.buffer_plan import find_views
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording

SHOWN = {
    "reshape": lambda weight: weight.reshape((5, 4)),
    "transpose": lambda weight: weight.transpose((1, 0)),
    "both": lambda weight: weight.reshape((2, 10)).transpose((1, 0)).reshape((4, 5)),
    "part": lambda weight: weight[1:3],
}


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN)
def test_a_view_of_a_parameter_stays_as_it_was_when_that_is_overwritten(show: Any, fused: bool) -> None:
    array = np.random.default_rng(0).normal(size=(4, 5))
    weight = ms.Parameter(array.copy(), "weight")
    made = Trace()
    with recording(made):
        new = Tensor.of_value(made.graph.add_input("new", weight.spec))
        seen = show(weight)
        early = ops.exp(seen)
        ops.Assign()(weight, new)
        outputs = [ops.sin(seen), early * 2.0, ops.exp(show(weight))]
    made.graph.outputs = [one.value for one in outputs if one.value is not None]
    if fused:
        fuse_elementwise(made.graph, 0)
    program = Program(made.graph, Runtime())
    found = [np.array(one) for one in program.run([array + 1.0])]
    wanted = [np.sin(show(array)), 2.0 * np.exp(show(array)), np.exp(show(array + 1.0))]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_view_of_a_parameter_that_is_read_before_only_copies_nothing() -> None:
    weight = ms.Parameter(np.ones((4, 5)), "weight")
    made = Trace()
    with recording(made):
        made.graph.outputs = [ops.exp(weight.reshape((20,))).value]
        ops.Assign()(weight, 0.0)
    assert len(find_views(made.graph)) == 1


def test_a_view_of_a_parameter_that_was_overwritten_before_copies_nothing() -> None:
    weight = ms.Parameter(np.ones((4, 5)), "weight")
    made = Trace()
    with recording(made):
        ops.Assign()(weight, 0.0)
        made.graph.outputs = [ops.exp(weight.reshape((20,))).value]
    assert len(find_views(made.graph)) == 1


def test_beside_a_view_that_must_be_a_copy_others_copy_nothing() -> None:
    weight = ms.Parameter(np.ones((4, 5)), "weight")
    made = Trace()
    with recording(made):
        early = weight.reshape((20,))
        ops.Assign()(weight, 0.0)
        made.graph.outputs = [ops.exp(early).value, ops.exp(weight.reshape((5, 4))).value]
    copied, _, shown, *_ = [node for node in made.graph.nodes if node.operator.is_view or node.operator.updates]
    assert find_views(made.graph) == {shown} != {copied}


class ReadTwice(nn.Cell):
    """The weight before and after it is overwritten, each gathered from where it is stored."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = ms.Parameter(np.arange(16.0).reshape(4, 4), "weight")

    def construct(self, x: Any) -> Any:
        before = ops.MatMul().shard(((1, 1), (1, 1)))(x, self.weight)
        ops.Assign()(self.weight, self.weight + 1.0)
        return before, ops.MatMul().shard(((1, 1), (1, 1)))(x, self.weight)


@pytest.mark.parametrize("overlaps", [False, True])
def test_a_parameter_in_shards_is_gathered_anew_once_it_is_overwritten(overlaps: bool) -> None:
    def on_rank(_communicator: Any) -> Any:
        ms.reset_auto_parallel_context()
        ms.set_auto_parallel_context(
            parallel_mode="semi_auto_parallel",
            full_batch=True,
            enable_parallel_optimizer=True,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        )
        return [one.asnumpy().copy() for one in ReadTwice()(ms.Tensor(np.eye(4)))]

    for before, after in run_world(4, on_rank, overlaps=overlaps):
        np.testing.assert_array_equal(before, np.arange(16.0).reshape(4, 4))
        np.testing.assert_array_equal(after, before + 1.0)


def test_a_parameter_is_cast_anew_once_it_is_overwritten() -> None:
    before, after = ReadTwice().to_float(ms.float16)(ms.Tensor(np.eye(4)))
    np.testing.assert_array_equal(after.asnumpy(), before.asnumpy() + 1.0)


class Counting(nn.Cell):
    """A cell that counts its calls, and whose result depends on the count."""

    def __init__(self, combine: Any) -> None:
        super().__init__()
        self.count = ms.Parameter(np.asarray(0.5), "count", requires_grad=False)
        self.weight = ms.Parameter(np.array([0.1, 0.2, 0.3]), "weight")
        self.combine = combine

    def construct(self, x: Any) -> Any:
        ops.AssignAdd()(self.count, 1.0)
        return ops.exp(self.combine(self.weight * x, self.count))


class CalledTwice(nn.Cell):
    def __init__(self, inner: nn.Cell) -> None:
        super().__init__()
        self.inner = inner

    def construct(self, x: Any) -> Any:
        return ops.reduce_sum(self.inner(x) + self.inner(2.0 * x))


def gradient(combine: Any, recompute: bool) -> np.ndarray:
    network = CalledTwice(Counting(combine))
    if recompute:
        network.inner.recompute()
    x = ms.Tensor(np.ones(3))
    found: np.ndarray = ops.grad(network, None, network.inner.weight)(x).asnumpy()
    return found


@pytest.mark.parametrize("recompute", [False, True])
def test_a_recomputed_cell_sees_a_parameter_as_it_was_the_first_time(recompute: bool) -> None:
    weight = np.array([0.1, 0.2, 0.3])
    wanted = np.exp(weight + 1.5) + 2 * np.exp(2 * weight + 2.5)
    np.testing.assert_allclose(gradient(lambda x, count: x + count, recompute), wanted, rtol=1e-12)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_gradient_that_needs_what_was_overwritten_is_refused(recompute: bool) -> None:
    with pytest.raises(GradientError, match=r"'.*count'.*overwritten"):
        gradient(lambda x, count: x * count, recompute)
