"""Ranks of which one calls another collective than the others: ``notes kinds victim caught``.

With ``caught`` 1 each rank catches the error, looks at its arrays and says so, and all go on to the next kind.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication import init
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.world import current
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CommunicationError

COUNT = 8


class Model:
    """A parameter, its gradients and how they are updated: what a mismatch must not touch."""

    def __init__(self, rank: int) -> None:
        self.parameters = [np.full(COUNT * size, 7, np.float32) for size in (1, 2)]
        self.gradients = [np.full(COUNT * size, 1 + rank, np.float32) for size in (1, 2)]
        self.more = self.gradients[0].copy()
        self.trained: list[ms.Parameter] = []
        self.before = self.content

    @property
    def content(self) -> list[bytes]:
        return [array.tobytes() for array in (*self.parameters, *self.gradients, self.more, *self.tensors())]

    def tensors(self) -> list[NDArray[Any]]:
        return [parameter.asnumpy() for parameter in self.trained]

    def watch(self, network: nn.Cell) -> None:
        self.trained = network.trainable_params()
        self.before = self.content

    def update(self) -> None:
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter -= gradient


def others_reduce(world: Communicator, model: Model) -> None:
    world.all_reduce(model.gradients[0])
    world.all_reduce(model.gradients[1])


def reduce_in_another_order(world: Communicator, model: Model) -> None:
    world.all_reduce(model.gradients[1])  # order
    world.all_reduce(model.gradients[0])


def reduce_another_dtype(world: Communicator, model: Model) -> None:
    world.all_reduce(model.gradients[0].view(np.int32))  # dtype


def reduce_another_count(world: Communicator, model: Model) -> None:
    world.all_reduce(model.gradients[0][: COUNT // 2])  # count


def reduce_by_another_operation(world: Communicator, model: Model) -> None:
    world.all_reduce(model.gradients[0], "max")  # reduction


def gather_instead(world: Communicator, model: Model) -> None:
    world.all_gather(model.gradients[0], np.empty((world.size, COUNT), np.float32))  # operation


class Network(nn.Cell):
    """Two products by parameters of one shape, in an order that is right and one that fits, too."""

    def __init__(self, turned: bool) -> None:
        super().__init__()
        self.w1 = ms.Parameter(ms.initializer("ones", [4, 4]), name="w1")
        self.w2 = ms.Parameter(ms.initializer("ones", [4, 4]), name="w2")
        self.turned = turned

    def construct(self, x: Any) -> Any:
        weights = (self.w2, self.w1) if self.turned else (self.w1, self.w2)
        for weight in weights:
            x = ops.relu(ops.matmul(x, weight))
        return x


def others_train(world: Communicator, model: Model, turned: bool = False) -> None:
    network = Network(turned)
    data = NumpySlicesDataset((np.ones((6, 4), np.float32), np.zeros((6, 4), np.float32)), ["x", "y"]).batch(2)
    training = ms.Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.1, 0.9))
    model.watch(network)
    training.train(1, data, dataset_sink_mode=False)


def train_another_network(world: Communicator, model: Model) -> None:
    others_train(world, model, turned=True)


def others_broadcast(world: Communicator, model: Model) -> None:
    world.broadcast(model.gradients[0], 0)


def broadcast_from_another_root(world: Communicator, model: Model) -> None:
    world.broadcast(model.gradients[0], world.size - 1)  # root


def others_reduce_equals(world: Communicator, model: Model) -> None:
    world.all_reduce(model.gradients[0])
    world.all_reduce(model.more)


def reduce_equals_in_another_order(world: Communicator, model: Model) -> None:
    world.all_reduce(model.more)  # strict
    world.all_reduce(model.gradients[0])


Call = Callable[[Communicator, Model], None]
# What the others call, and what the one calls.
KINDS: Mapping[str, tuple[Call, Call]] = {
    "operation": (others_reduce, gather_instead),
    "reduction": (others_reduce, reduce_by_another_operation),
    "dtype": (others_reduce, reduce_another_dtype),
    "count": (others_reduce, reduce_another_count),
    "root": (others_broadcast, broadcast_from_another_root),
    "order": (others_reduce, reduce_in_another_order),
    "network": (others_train, train_another_network),
}
# What only the lines of the program tell apart, MPIPARALLEL_FINGERPRINTS=strict.
STRICT_KINDS: Mapping[str, tuple[Call, Call]] = {
    "strict": (others_reduce_equals, reduce_equals_in_another_order),
}


def main() -> None:
    notes, kinds, victim, caught = Path(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3]), sys.argv[4] == "1"
    init()
    world = current()
    ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    for name in kinds:
        world.barrier()
        if world.rank == victim:
            (notes / "struck").write_text(f"{time.time()}")
        model = Model(world.rank)
        usual, other = {**KINDS, **STRICT_KINDS}[name]
        try:
            (other if world.rank == victim else usual)(world, model)
            model.update()
        except CommunicationError as error:
            if not caught:
                raise
            state = "untouched" if model.content == model.before else "TOUCHED"
            print(f"{name}: {state}: {' '.join(str(error).split())}", flush=True)
        else:
            print(f"{name}: NOTHING RAISED", flush=True)


if __name__ == "__main__":
    main()
