"""Collective operators: values, adjoints, gradients, on thread ranks."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel.ops as ops
from mpiparallel import context
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CommunicationError, ConfigurationError, GradientError, ShapeError, StrategyError
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.parallel.collective_operators import Reduce

SIZES = (1, 2, 3, 4)


def collectives(size):
    return {
        "AllReduce": (lambda: ops.AllReduce(), (4, 6)),
        "AllGather": (lambda: ops.AllGather(), (4, 6)),
        "ReduceScatter": (lambda: ops.ReduceScatter(), (12, 5)),
        "AlltoAll": (lambda: ops.AlltoAll(size, 0, 1), (12, 5)),
        "AlltoAll-back": (lambda: ops.AlltoAll(size, 1, 0), (5, 12)),
        "Broadcast": (lambda: ops.Broadcast(size - 1), (4, 6)),
        "Reduce": (lambda: Reduce(size - 1), (4, 6)),
    }


def products(communicator, name):
    """Return this rank's terms of <F x, y> and <x, F* y>, F* being the operator's own gradient."""
    make, shape = collectives(communicator.size)[name]
    random = np.random.default_rng(communicator.rank)
    x = Tensor(random.standard_normal(shape))
    operator = make()
    output = operator(x)
    y = Tensor(random.standard_normal(output.shape))
    (adjoint,) = operator.gradient([x], [output], [y])
    return np.vdot(output.asnumpy(), y.asnumpy()), np.vdot(x.asnumpy(), adjoint.asnumpy())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", collectives(1))
def test_the_gradient_of_a_collective_is_its_adjoint(name, size) -> None:
    terms = np.array(run_world(size, products, name))
    np.testing.assert_allclose(terms[:, 0].sum(), terms[:, 1].sum(), rtol=1e-12)


def value_of(communicator, name):
    make, shape = collectives(communicator.size)[name]
    return make()(Tensor(_input(communicator.rank, shape))).asnumpy()


def _input(rank, shape):
    return np.random.default_rng([9, rank]).integers(-9, 9, shape).astype(np.float32)


@pytest.mark.parametrize("size", SIZES)
def test_values_are_those_of_numpy(size) -> None:
    inputs = {name: [_input(rank, shape) for rank in range(size)] for name, (_, shape) in collectives(size).items()}
    joined = np.concatenate(inputs["AlltoAll"], axis=1)
    expected = {
        "AllReduce": [sum(inputs["AllReduce"])] * size,
        "AllGather": [np.concatenate(inputs["AllGather"])] * size,
        "ReduceScatter": np.split(sum(inputs["ReduceScatter"]), size),
        "AlltoAll": np.split(joined, size),
        "AlltoAll-back": np.split(np.concatenate(inputs["AlltoAll-back"]), size, axis=1),
        "Broadcast": [inputs["Broadcast"][-1]] * size,
        "Reduce": [*[np.zeros((4, 6))] * (size - 1), sum(inputs["Reduce"])],
    }
    for name, wanted in expected.items():
        for result, array in zip(run_world(size, value_of, name), wanted, strict=True):
            np.testing.assert_array_equal(result, array, err_msg=name)


def traced_gradient(communicator):
    # Each rank's loss is sum(AllReduce(x) * (rank + 1)); the gradient of x counts every rank's weight.
    weight = float(communicator.rank + 1)
    return ops.grad(lambda x: (ops.AllReduce()(x) * weight).sum())(Tensor([1.0, 2.0])).asnumpy().tolist()


def test_collectives_work_in_a_traced_gradient() -> None:
    assert run_world(3, traced_gradient) == [[6.0, 6.0]] * 3


def test_wrong_use_is_refused_by_name() -> None:
    def check(_communicator):
        with pytest.raises(ShapeError, match=r"ReduceScatter: dim 0 of .* equal blocks"):
            ops.ReduceScatter()(Tensor(np.zeros((3, 2))))
        with pytest.raises(ShapeError, match="split_count 3 must be the size of the group, 2"):
            ops.AlltoAll(3, 0, 1)(Tensor(np.zeros((3, 2))))
        with pytest.raises(ShapeError, match="split_count 1 must be the size of the group, 2"):
            ops.AlltoAll(1, 0, 1)(Tensor(np.zeros((2, 2))))
        with pytest.raises(ShapeError, match=r"dim 0 of \(3, 2\) cannot be cut into 2 equal blocks"):
            ops.AlltoAll(2, 0, 1)(Tensor(np.zeros((3, 2))))
        for kind in (ops.AllReduce, ops.ReduceScatter):
            words = f"{kind.__name__}: op 'mean' is not one of 'sum', 'max', 'min', 'prod'"
            with pytest.raises(ConfigurationError, match=words):
                kind("mean")
        with pytest.raises(GradientError, match=r"ReduceScatter\(op='max'\) is not defined; use op='sum'"):
            ops.grad(lambda x: ops.ReduceScatter("max")(x).sum())(Tensor(np.ones((2, 1))))
        with pytest.raises(ShapeError, match="0-d"):
            ops.AllGather()(Tensor(1.0))
        with pytest.raises(GradientError, match="op='max'"):
            ops.grad(lambda x: ops.AllReduce("max")(x).sum())(Tensor([1.0]))

    run_world(2, check)


def test_a_collective_without_a_world_says_how_to_get_one() -> None:
    with pytest.raises(CommunicationError, match=r"over ranks \(0, 1\) needs a world; call mpiparallel.communication"):
        Runtime().group((0, 1))


def test_a_hand_placed_collective_in_semi_auto_mode_is_refused() -> None:
    def check(_communicator):
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        with pytest.raises(StrategyError, match="leave it out"):
            ops.grad(lambda x: ops.AllReduce()(x).sum())(Tensor([1.0]))

    run_world(2, check)


def test_the_data_parallel_gradient_all_reduce_follows_from_the_rules() -> None:
    """Nobody writes it: it appears in the local graph of a matrix product whose batch is cut."""
    from mpiparallel.backend.tensor_spec import TensorSpec
    from mpiparallel.compile.differentiate import differentiate
    from mpiparallel.compile.place import place
    from mpiparallel.compile.rank_graph import local_graph
    from mpiparallel.graph.parameter import Parameter
    from mpiparallel.parallel.configuration import ParallelConfiguration

    trace = Trace()
    x = trace.graph.add_input("x", TensorSpec((8, 4), np.dtype(np.float32)))
    weight = Parameter(np.ones((4, 3), np.float32), "weight")
    with recording(trace):
        loss = ops.MatMul().shard(((4, 1), (1, 1)))(Tensor.of_value(x), weight).sum().value
        seed = trace.graph.add_constant(np.ones((), np.float32))
        trace.graph.outputs = differentiate(trace, [loss], [seed], [trace.graph.parameters["weight"]])
    assert not any(node.operator.kind == "communication" for node in trace.graph.nodes)
    configuration = ParallelConfiguration(mode="semi_auto_parallel", device_num=4)
    local = local_graph(place(trace.graph, configuration), rank=1)
    reduces = [node.operator for node in local.nodes if node.operator.kind == "communication"]
    assert [(operator.name, operator.ranks()) for operator in reduces] == [("AllReduce", (0, 1, 2, 3))]


def through_kernel(communicator, name, orders):
    """Return what a kernel bound to arrays of these memory orders makes of two inputs, one after the other."""
    make, shape = collectives(communicator.size)[name]
    operator, before = make(), np.zeros(shape, np.float32, orders[0])
    made = operator.infer(TensorSpec(shape, before.dtype))[0]
    after = np.zeros(made.shape, made.dtype, orders[1])
    run = operator.kernel(Runtime(communicator=communicator), [before], [after])
    results = []
    for factor in (1, 3):
        before[...] = factor * _input(communicator.rank, shape)
        run()
        results.append(after.copy())
    return results


@pytest.mark.parametrize("orders", ["CF", "FC", "FF"])
@pytest.mark.parametrize("name", collectives(1))
def test_arrays_that_are_not_contiguous_are_sent_and_filled_like_those_that_are(name, orders) -> None:
    wanted = run_world(2, through_kernel, name, "CC")
    for found, expected in zip(run_world(2, through_kernel, name, orders), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)
    for rank, (first, second) in enumerate(wanted):
        np.testing.assert_array_equal(first, run_world(2, value_of, name)[rank])
        np.testing.assert_array_equal(second, 3 * first)


def test_a_collective_that_is_placed_by_hand_is_refused_by_its_name_where_strategies_place_them() -> None:
    with pytest.raises(StrategyError, match=r"^AllReduce: a collective placed by hand belongs to a network of local"):
        ops.AllReduce().equation(TensorSpec((4,), np.dtype(np.float32)))
