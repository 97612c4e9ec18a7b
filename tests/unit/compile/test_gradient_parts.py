"""The gradient of a loss that is cut has the parts of the loss: no rank makes more of it than it uses."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.bind import bind
from mpiparallel.compile.localise import localise
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.graph.parameter import Parameter
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode

RANKS = 4
X = np.random.default_rng(3).normal(size=(8, 12, 4))
W = np.random.default_rng(4).normal(size=(12, 4))
STRATEGIES = ((4, 1, 1), (1, 4, 1), (1, 2, 2), (2, 1, 2), (2, 2, 1))


class Reduced(nn.Cell):
    """The sum of a product, reduced in one step or in two."""

    def __init__(self, reduction, axis, cuts):
        super().__init__()
        self.weight = Parameter(W.copy(), "weight")
        self.axis = axis
        self.product, self.square = ops.Mul().shard((cuts, cuts[1:])), ops.Square().shard((cuts,))
        self.first, self.second = reduction().shard((cuts,)), ops.ReduceSum()

    def construct(self, x):
        return self.second(self.first(self.square(self.product(x, self.weight)), self.axis))


class Spread(nn.Cell):
    """A mean whose gradient is written by hand: what is spread is not yet the gradient."""

    def __init__(self):
        super().__init__()
        self.mean = ops.ReduceMean().shard(((2, 2, 1),))

    def construct(self, x):
        return self.mean(x)

    def bprop(self, x, out, dout):
        return (dout.broadcast_to(x.shape) * (1.0 / x.size),)


class Written(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(W.copy(), "weight")
        self.product, self.square = ops.Mul().shard(((2, 2, 1), (2, 1))), ops.Square().shard(((2, 2, 1),))
        self.mean = Spread()

    def construct(self, x):
        return self.mean(self.square(self.product(x, self.weight)))


def placed(network, rank=0):
    configuration = ParallelConfiguration(ParallelMode.SEMI_AUTO_PARALLEL, device_num=RANKS, rank=rank, full_batch=True)
    step = nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.5)).set_train()
    return step.sharded_graph(Tensor(X), configuration=configuration), configuration


def largest_made(local) -> int:
    """Return the elements of the largest array that a rank computes, slices of what it has left out."""
    return max(
        prod(value.spec.shape) for node in local.graph.nodes if node not in local.steps for value in node.outputs
    )


def by_hand(reduction, axis) -> tuple[float, np.ndarray]:
    square = (X * W) ** 2
    count = prod(X.shape[dim] for dim in axis or range(3)) if reduction is ops.ReduceMean else 1
    return float(square.sum() / count), W - 0.5 * (2 * X * W * X).sum(0) / count


def check_step(network, loss, weights) -> None:
    """Hold the loss of a step on ranks, and the weights after it, to what NumPy says."""

    def job(communicator):
        own = network()
        sharded, configuration = placed(own, communicator.rank)
        local = local_graph(sharded, communicator.rank)
        (found,) = bind(StagedGraph((sharded,)), local, configuration, communicator).run([X])
        return float(found), own.weight.asnumpy().copy(), own.weight.box

    for found, part, box in run_world(RANKS, job):
        np.testing.assert_allclose(found, loss, rtol=1e-12)
        np.testing.assert_allclose(part, weights[tuple(map(slice, box.start, box.stop))], rtol=1e-12)


@pytest.mark.parametrize("cuts", STRATEGIES)
@pytest.mark.parametrize("axis", [(), (0,), (1, 2)], ids=str)
@pytest.mark.parametrize("reduction", [ops.ReduceSum, ops.ReduceMean])
def test_no_array_of_a_cut_loss_is_larger_than_its_part(reduction, axis, cuts) -> None:
    sharded, _ = placed(Reduced(reduction, axis, cuts))
    for rank in range(RANKS):
        assert largest_made(localise(sharded, rank)) == X.size // RANKS
    check_step(lambda: Reduced(reduction, axis, cuts), *by_hand(reduction, axis))


def test_what_a_gradient_written_by_hand_spreads_has_the_parts_of_what_it_becomes() -> None:
    sharded, _ = placed(Written())
    assert largest_made(localise(sharded, 0)) == X.size // RANKS
    check_step(Written, *by_hand(ops.ReduceMean, ()))


def test_a_part_of_a_loss_is_all_that_a_rank_asks_for_however_large_the_batch() -> None:
    """4 TB of numbers, of which each of a million ranks has one row."""

    class Mean(nn.Cell):
        def __init__(self):
            super().__init__()
            self.weight = Parameter(np.ones((1,), np.float32), "weight")
            self.product, self.mean = ops.Mul().shard(((1 << 20, 1), (1,))), ops.ReduceMean().shard(((1 << 20, 1),))

        def construct(self, x):
            return self.mean(self.product(x, self.weight))

    network = Mean()
    configuration = ParallelConfiguration(ParallelMode.SEMI_AUTO_PARALLEL, device_num=1 << 20)
    step = nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.5)).set_train()
    x = Tensor(np.broadcast_to(np.float32(1), (1, 1 << 20)))
    assert largest_made(localise(step.sharded_graph(x, configuration=configuration), 5)) == 1 << 20


def test_the_ones_from_which_a_function_of_many_numbers_is_differentiated_take_no_memory() -> None:
    class Gradient(nn.Cell):
        def construct(self, x):
            return ops.grad(lambda x: x * x)(x)

    x = Tensor(np.broadcast_to(np.float32(1), (1 << 25, 1 << 25)))
    configuration = ParallelConfiguration(ParallelMode.SEMI_AUTO_PARALLEL, device_num=2, full_batch=True)
    graph = Gradient().sharded_graph(x, configuration=configuration).graph
    assert graph.outputs[0].spec.shape == x.shape


class Penalty(nn.Cell):
    """The sum of a weight, which a product whose gradient is not wanted cuts."""

    def __init__(self, cuts):
        super().__init__()
        self.weight = Parameter(W.copy(), "weight")
        self.product = ops.Mul().shard(((1, *cuts), cuts))

    def construct(self, x):
        return self.weight.sum() + ops.stop_gradient(self.product(x, self.weight)).sum() * 0.0


@pytest.mark.parametrize("cuts", [(4, 1), (2, 2), (1, 4), (1, 1)])
def test_the_gradient_of_a_weight_that_is_only_summed_is_made_where_the_weight_is(cuts) -> None:
    sharded, _ = placed(Penalty(cuts))
    ((gradient, weight),) = sharded.graph.gradients.items()
    assert gradient.node.operator.name == "BroadcastTo"
    assert sharded.layouts[weight].cuts == cuts
    assert sharded.placements[gradient.node].outputs[0].canonical == sharded.layouts[weight].canonical
