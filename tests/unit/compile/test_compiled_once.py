"""How often a job traces and places a graph: at its start, to evaluate, to resume, and to reshard."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.communication import get_rank
from mpiparallel.communication.threads import run_world
from mpiparallel.compile import compilation
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from tests.conformance.moving_product import SEMI_AUTO, At, make_model, rows

RANKS = 4


class Counts:
    """Counts on each rank the calls of the passes, by what they are given."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.traces: Counter[object] = Counter()
        self.placements: Counter[object] = Counter()
        self._lock = threading.Lock()
        trace_function, place = compilation.trace_function, compilation.place

        def counted_trace(function, specs, inputs):
            self._count(self.traces, (get_rank(), function, tuple(specs)))
            return trace_function(function, specs, inputs)

        def counted_place(graph, configuration, held):
            self._count(self.placements, (get_rank(), id(graph)))
            return place(graph, configuration, held=held)

        patch.setattr(compilation, "trace_function", counted_trace)
        patch.setattr(compilation, "place", counted_place)

    def _count(self, counter: Counter[object], key: object) -> None:
        with self._lock:
            counter[key] += 1

    def of_each_rank(self) -> tuple[list[int], list[int]]:
        """Return how many traces and how many placements each rank has made."""
        ranks = range(RANKS)
        return tuple([sum(n for key, n in one.items() if key[0] == rank) for rank in ranks] for one in self.both)

    @property
    def both(self):
        return self.traces, self.placements


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


@pytest.mark.parametrize(
    ("job", "traces", "placements"),
    [(train, 1, 1), (build_and_train, 1, 1), (evaluate, 2, 2), (save, 1, 1), (resume, 1, 1), (cut_otherwise, 2, 2)],
)
def test_a_graph_is_traced_once_and_placed_once_by_the_same_strategies(
    job, traces, placements, tmp_path, monkeypatch
) -> None:
    if job is resume:
        run_world(RANKS, save, tmp_path)
    counts = Counts(monkeypatch)
    run_world(RANKS, job, tmp_path)
    assert counts.of_each_rank() == ([traces] * RANKS, [placements] * RANKS)
