"""Ranks that have made different networks learn it before any of them computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mpiparallel import context, nn, ops
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CommunicationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell


class Product(Cell):
    def __init__(self, columns: int = 4, strategy: tuple[tuple[int, ...], ...] = ((2, 1), (1, 1))) -> None:
        super().__init__()
        self.dense = nn.Dense(3, columns, has_bias=False)
        self.product = ops.MatMul().shard(strategy)
        self.activation: Callable[[Tensor], Tensor] = ops.ReLU()

    def construct(self, x: Tensor) -> Tensor:
        return self.activation(self.product(self.dense(x), Tensor(np.ones((self.dense.out_channels, 2)))))


def another_activation(network: Product) -> Product:
    network.activation = ops.Tanh()
    return network


OTHERS: dict[str, Callable[[], Product]] = {
    "another activation": lambda: another_activation(Product()),
    "another shape": lambda: Product(5),
    "another cut": lambda: Product(4, ((1, 1), (1, 2))),
}


class Squares(Cell):
    """Two products whose parameters have one shape: their gradients can be mistaken for each other."""

    def __init__(self, turned: bool) -> None:
        super().__init__()
        self.w1 = Parameter(np.ones((3, 3)), "w1")
        self.w2 = Parameter(np.ones((3, 3)), "w2")
        self.turned = turned

    def construct(self, x: Tensor) -> Tensor:
        for weight in (self.w2, self.w1) if self.turned else (self.w1, self.w2):
            x = ops.matmul(x, weight)
        return ops.reduce_sum(x)


def run_on_two(other: Callable[[], Product], rows: int = 4) -> list[tuple[int, ...]]:
    def job(communicator: Communicator) -> tuple[int, ...]:
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        network = other() if communicator.rank == 1 else Product()
        return tuple(network(Tensor(np.ones((rows if communicator.rank else 4, 3)))).shape)

    return run_world(2, job)


@pytest.mark.parametrize("other", OTHERS)
def test_a_rank_that_has_made_another_network_is_refused_on_all_ranks(other: str) -> None:
    with pytest.raises(CommunicationError, match="rank 1 calls begin_step"):
        run_on_two(OTHERS[other])


def test_a_rank_that_feeds_another_batch_is_refused_on_all_ranks() -> None:
    with pytest.raises(CommunicationError, match="rank 1 calls begin_step"):
        run_on_two(Product, rows=6)


def test_ranks_with_the_same_network_run_it() -> None:
    assert run_on_two(Product) == [(4, 2), (4, 2)]


@pytest.mark.parametrize("turned", [(False, True), (True, True)])
def test_gradients_of_other_parameters_are_never_summed_where_each_rank_has_a_batch_of_its_own(
    turned: tuple[bool, bool],
) -> None:
    def job(communicator: Communicator) -> None:
        context.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        network = Squares(turned[communicator.rank])
        step = nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.1))
        step(Tensor(np.ones((2 + communicator.rank, 3))))

    if turned[0] == turned[1]:
        run_world(2, job)
    else:
        with pytest.raises(CommunicationError, match="rank 1 calls begin_step"):
            run_world(2, job)
