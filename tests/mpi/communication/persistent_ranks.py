"""Two stages train for a thousand steps by requests that are made once, in one message and in pieces, then let go."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np

STEPS, ROWS, WIDTH, MICRO_BATCHES = 1000, 4, 8, 2
SMALL_MESSAGE = 60


class Counting:
    """An MPI communicator that keeps the requests that are made of it."""

    def __init__(self, comm: Any, made: list[Any]) -> None:
        self._comm = comm
        self._made = made

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._comm, name)
        if name not in ("Send_init", "Recv_init", "Isend", "Irecv"):
            return found

        def make(*arguments: Any) -> Any:
            request = found(*arguments)
            self._made.append(request)
            return request

        return make


def train(communicator: Any, steps: int) -> tuple[Any, list[Any]]:
    """Return the step and the requests made for it, none after its first run; compare each loss with NumPy's."""
    from mpiparallel import Tensor, context, nn
    from mpiparallel.communication import world
    from tests.unit.train.pipelines.test_borders import Product

    made: list[Any] = []
    communicator.comm = Counting(communicator.comm, made)
    with world.use(communicator):
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, pipeline_stages=2)
        network = nn.SequentialCell([Product(seed, ((1, 1), (1, 1))) for seed in (1, 2)])
        network[0].pipeline_stage, network[1].pipeline_stage = 0, 1
        weights = [cell.weight.asnumpy().copy() for cell in network]
        pieces = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), MICRO_BATCHES)
        step = nn.TrainOneStepCell(pieces, nn.SGD(network.trainable_params(), 0.0)).set_train()
        draw = np.random.default_rng(5)
        first = 0
        for number in range(steps):
            batch = draw.normal(size=(ROWS * MICRO_BATCHES, WIDTH))
            expected = ((batch @ weights[0] @ weights[1] - batch) ** 2).mean()
            np.testing.assert_allclose(float(step(Tensor(batch), Tensor(batch))), expected, rtol=1e-12)
            first = first or len(made)
            assert len(made) == first, f"step {number} has made {len(made) - first} requests"
    return step, made


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpi4py import MPI

    from mpiparallel.communication import mpi

    mpi.abort_job_on_uncaught_exception()
    counts = []
    for arguments in ((), (SMALL_MESSAGE,)):
        world = mpi.world(*arguments)
        step, made = train(world, STEPS)
        assert all(isinstance(request, MPI.Prequest) and request != MPI.REQUEST_NULL for request in made)
        counts.append(len(made))
        del step
        gc.collect()
        assert all(request == MPI.REQUEST_NULL for request in made)
    # Both send or receive two activations, two gradients and the loss.
    pieces = -(-ROWS * WIDTH * 8 // SMALL_MESSAGE)
    assert counts == [2 * MICRO_BATCHES + 1, 2 * MICRO_BATCHES * pieces + 1], counts
    kept, _ = train(mpi.world(), 1)
    sys.stdout.write(f"rank {MPI.COMM_WORLD.Get_rank()} has made {counts} requests and keeps {kept is not None}\n")


if __name__ == "__main__":
    main()
