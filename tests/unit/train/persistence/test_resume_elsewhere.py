"""A training that is saved by one cluster and resumed by another, again and again."""

from __future__ import annotations

import numpy as np

from mpiparallel.checkpoint.catalogue import catalogue
from mpiparallel.communication.threads import run_world
from mpiparallel.layout.box import Box
from mpiparallel.train import Callback, CheckpointConfig, ModelCheckpoint
from tests.conformance.trainings.moving_training import Losses
from tests.conformance.trainings.resumed_training import ONE, SHARDS, Case, data_of, leg, losses_of, model_of

SMALL = {"dtype": np.float64, "scaled": False, "normed": False}
CHAIN = [
    Case(8, {**ONE, **SHARDS}, ((2, 1), (4, 1)), **SMALL),
    Case(4, ONE, ((1, 1), (4, 1)), **SMALL),
    Case(6, {**ONE, **SHARDS}, ((3, 1), (2, 1)), **SMALL),
    Case(1, ONE, **SMALL),
    Case(64, {**ONE, **SHARDS}, ((4, 8), (2, 8)), **SMALL),
]
STEPS = 2


def test_a_training_goes_from_cluster_to_cluster(tmp_path) -> None:
    """From 8 ranks (2 x 4, optimizer shards) to 4, 6, 1 and 64: the same elements, and the losses of one rank."""
    wanted = losses_of(leg(CHAIN[3], None), np.float64)
    before = None
    for number, case in enumerate(CHAIN):
        begins, ends, losses = zip(*run_world(case.ranks, go_on, case, tmp_path, (number + 1) * STEPS), strict=True)
        if before is not None:
            assert_same_elements(before, begins)
        for found in losses:
            assert sorted(found) == [number * STEPS + 1, number * STEPS + 2]
            np.testing.assert_allclose(list(found.values()), [wanted[step] for step in found], rtol=1e-9)
        before = ends
    (entry,) = catalogue(tmp_path)
    assert (entry.name, entry.manifest.rank_count) == (f"net-1_{len(CHAIN) * STEPS}", 64)


class StopAt(Callback):
    """Ends a training well, after a step."""

    def __init__(self, last):
        self.last = last

    def step_end(self, run_context):
        if run_context.original_args().cur_step_num == self.last:
            run_context.request_stop()


def go_on(communicator, case, folder, last):
    """Resume and train to a step; return what the rank held before and after, and its losses."""
    model, losses = model_of(case), Losses()
    begins = {} if model.resume(folder, data_of(case)) is None else boxes(model)
    saver = ModelCheckpoint("net", folder, CheckpointConfig(0, keep_checkpoint_max=1))
    model.train(1, data_of(case), [losses, StopAt(last), saver], dataset_sink_mode=False)
    return begins, boxes(model), losses.by_step


def boxes(model):
    """Return by name the shape of each parameter, and the box and elements that this rank holds."""
    kept = (one for one in model.train_network.get_parameters() if not one.transient)
    return {one.name: (one.shape, one.box, one.asnumpy().copy()) for one in kept}


def assert_same_elements(before, after):
    """Put the slices together with NumPy, and compare each slice of the others with its place in the whole."""
    for name, (shape, _, first) in before[0].items():
        whole = np.zeros(shape, first.dtype)
        for held in before:
            whole[(*held[name][1].within(Box.whole(shape)), ...)] = held[name][2]
        for held in after:
            part = whole[(*held[name][1].within(Box.whole(shape)), ...)]
            np.testing.assert_array_equal(held[name][2], part, err_msg=name)
