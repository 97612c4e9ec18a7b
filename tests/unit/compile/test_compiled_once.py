"""How often a job runs the passes on a graph: at its start, to evaluate, to resume, and to reshard.

``tests/mpi/train/test_shrink.py`` counts it where ranks die, for which it takes real ones.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.communication import get_group_size
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from tests.conformance.compile_counts import CompileCounts
from tests.conformance.trainings.moving_product import SEMI_AUTO, At, Product, make_model, rows

RANKS = 4


def train(communicator, folder) -> None:
    make_model().train(1, rows(), dataset_sink_mode=False)


def build_and_train(communicator, folder) -> None:
    model, data = make_model(), rows()
    model.build(data)
    model.train(2, data, dataset_sink_mode=False)


def evaluate(communicator, folder) -> None:
    context.set_auto_parallel_context(**SEMI_AUTO)
    network = nn.Dense(6, 12)
    model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.1, 0.9), metrics={"mse"})
    data = rows32()
    model.train(1, data, dataset_sink_mode=False)
    model.eval(data)
    model.train(1, data, dataset_sink_mode=False)
    model.eval(data)


def rows32():
    random = np.random.default_rng(4)
    data = random.normal(size=(48, 6)).astype(np.float32), random.normal(size=(48, 12)).astype(np.float32)
    return NumpySlicesDataset(data, ["x", "y"]).batch(12)


def save(communicator, folder) -> None:
    saver = ModelCheckpoint("once", str(folder), CheckpointConfig(save_checkpoint_steps=2))
    make_model(((2, 1), (1, 2))).train(1, rows(), saver, dataset_sink_mode=False)


def resume(communicator, folder) -> None:
    model = make_model(((4, 1), (1, 1)))
    model.resume(folder, rows())
    model.train(2, rows(), dataset_sink_mode=False)


def cut_otherwise(communicator, folder) -> None:
    model = make_model(((4, 1), (1, 1)))
    moves = [At(2, lambda: model.reshard({"first": ((2, 1), (1, 2))})), At(3, lambda: model.reshard())]
    model.train(1, rows(), moves, dataset_sink_mode=False)


def move_to_two_and_back(communicator, folder, model=None) -> None:
    model = model or make_model()
    moves = [At(step, partial(model.reshard, ranks=ranks)) for step, ranks in ((2, 2), (3, 4))]
    model.train(2, rows(), moves, dataset_sink_mode=False)


class Counted(nn.Cell):
    """A network that asks how many ranks there are while it is traced."""

    def __init__(self, asked):
        super().__init__()
        self.asked, self.network = asked, Product()

    def construct(self, x, y):
        return self.network(x, y) / self.asked()


def looks_at(asked, communicator, folder) -> None:
    context.set_auto_parallel_context(**SEMI_AUTO, device_num=RANKS)
    network = Counted(asked)
    model = Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9))
    move_to_two_and_back(communicator, folder, model)


looks_at_settings = partial(looks_at, partial(context.get_auto_parallel_context, "device_num"))
looks_at_the_world = partial(looks_at, get_group_size)


@pytest.mark.parametrize(
    ("job", "traces", "placements", "programs"),
    [
        (train, 1, 1, 1),
        (build_and_train, 1, 1, 1),
        (evaluate, 2, 2, 2),
        (save, 1, 1, 1),
        (resume, 1, 1, 1),
        (cut_otherwise, 2, 2, 3),
        (move_to_two_and_back, 1, 2, 3),
        (looks_at_settings, 2, 2, 3),
        (looks_at_the_world, 2, 2, 3),
    ],
)
def test_a_graph_is_traced_once_and_placed_once_by_the_same_strategies(
    job, traces, placements, programs, tmp_path, monkeypatch
) -> None:
    if job is resume:
        run_world(RANKS, save, tmp_path)
    counts = CompileCounts(monkeypatch.setattr)
    run_world(RANKS, job, tmp_path)
    assert counts.traces == dict.fromkeys(range(RANKS), traces)
    assert counts.placements == dict.fromkeys(range(RANKS), placements)
    assert counts.localisations[0] == counts.schedules[0] == placements
    # Kernels are bound to arrays, which a move makes anew; ranks 2 and 3 wait while two ranks train.
    assert counts.programs[0] == programs
    assert counts.localisations == counts.schedules
