"""A training moves from stages to others, and to none, with the losses, weights and states of one device."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError
from mpiparallel.train.callback.callback import Callback
from tests.unit.train.staged_networks import ROWS, Case, Losses, held_boxes, make_model, rows

FOUR = (0, 0, 1, 2, 3, 3)
MASKED = Case(dropout=0.25, tied=True)
ALONE = replace(MASKED, stages=(0,) * 6, micro_size=0)
NAMED = ["embedding", ["blocks.[0-2]"], ["blocks.3", "head"]]
MOVES = {
    "4 stages to 2": (4, FOUR, 4, {"pipeline_stages": 2, "ranks": 2}),
    "4 stages to 2 of 2": (4, FOUR, 4, {"pipeline_stages": 2}),
    "4 stages to none": (4, FOUR, 4, {"pipeline_stages": 1}),
    "4 stages to 1 rank": (4, FOUR, 4, {"pipeline_stages": 1, "ranks": 1}),
    "4 stages to 8 ranks of 2": (8, FOUR, 4, {"pipeline_stages": 2, "ranks": 8}),
    "none to 2 stages": (4, (0, 0, 0, 1, 1, 1), 2, {"pipeline_stages": 2, "ranks": 4}),
    "2 stages to 4": (4, (0, 0, 0, 1, 1, 1), 2, {"stages": [2, 1, 1, 2], "ranks": 4}),
    "2 stages to 3 by name": (4, (0, 0, 0, 1, 1, 1), 4, {"stages": NAMED, "ranks": 3}),
    "none to 3 stages": (6, (0, 0, 0, 1, 1, 1), 3, {"stages": [1, 2, 3], "ranks": 3}),
    "bounded": (4, FOUR, 4, {"pipeline_stages": 2, "ranks": 2, "mode": "bounded"}),
}


class Move(Callback):
    """Moves the training after its second step."""

    def __init__(self, model, how) -> None:
        self.model, self.how = model, how

    def on_train_step_end(self, run_context) -> None:
        if run_context.original_args().cur_step_num == 2:
            self.model.reshard(**self.how)


def train(communicator, case: Case, begin: dict[str, object], how: dict[str, object]):
    model, network = make_model(case)
    data, losses = rows(ROWS * 4), Losses()
    if begin:
        model.build(data)
        model.reshard(**begin)
    callbacks = [losses, *([Move(model, how)] if how else [])]
    model.train(1, data, callbacks=callbacks, dataset_sink_mode=False)
    return losses.found, held_boxes(model, network) if model.active else None


@cache
def on_one_device():
    return run_world(1, train, ALONE, {}, {})[0]


@pytest.mark.parametrize("name", MOVES)
def test_it_goes_on_as_one_device_does(name: str) -> None:
    losses, weights = on_one_device()
    world, stages, count, how = MOVES[name]
    begin: dict[str, object] = {"ranks": count} if count < world else {}
    if name.startswith("none"):
        begin = {"ranks": 2, "pipeline_stages": 1}
    seen: set[str] = set()
    for found, held in run_world(world, train, replace(MASKED, stages=stages), begin, how):
        wanted = losses[: len(found)] if held is None else losses[-len(found) :]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)
        if held is None:
            continue
        seen |= held.keys()
        for key, (box, values) in held.items():
            whole = weights[key][1]
            np.testing.assert_allclose(values, whole[box.within(type(box).whole(whole.shape))], rtol=0, atol=1e-9)
    assert seen == weights.keys()


REFUSED: list[tuple[dict[str, object], str]] = [
    (
        {"pipeline_stages": 4},
        r"in stages 0 \(.*\), 1 \(.*\); set pipeline_stage of its cells, or stages of nn.PipelineCell or Model.reshard",
    ),
    ({"stages": [1, 1, 2, 3]}, "are 7 layers, and the network has 6"),
    ({"stages": [3, 3], "pipeline_stages": 4}, r"are in stages 0 \(.*\), 1 \(.*\); set"),
    ({"stages": "auto"}, "stages 'auto' are not a number of layers for each stage"),
]


def test_stages_that_cannot_be_are_refused_and_all_is_as_before() -> None:
    def job(communicator):
        model, network = make_model(MASKED)
        model.train(1, rows(ROWS), dataset_sink_mode=False)
        for given, message in REFUSED:
            with pytest.raises(ConfigurationError, match=message):
                model.reshard(**given)
        model.train(1, rows(ROWS), dataset_sink_mode=False)
        return [cell.pipeline_stage for cell in (network.embedding, *network.blocks, network.head)]

    assert run_world(4, job) == [[0, 0, 0, 1, 1, 1]] * 4
