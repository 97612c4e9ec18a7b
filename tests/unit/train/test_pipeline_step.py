"""What a step means is the same in stages: what is skipped, scaled, fed in pieces, or given by rank 0."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train.callback.loss_guard import LossGuard
from mpiparallel.train.loss_scale_manager import DynamicLossScaleManager
from tests.unit.train.staged_networks import (
    ROWS,
    STEPS,
    WORDS,
    Case,
    Losses,
    columns,
    held_boxes,
    make_model,
    rows,
    same_as,
)

THREE = (0, 0, 1, 1, 2, 2)
ONE, GPIPE = {"pipeline_scheduler": "1f1b"}, {"pipeline_scheduler": "gpipe"}
BAD_STEP, BAD_ROW = 3, 18
ODD_WORD = WORDS - 1


def alone(case: Case) -> Case:
    """Return the case on one device; batch norm has the statistics of micro-batches anywhere."""
    return replace(case, stages=(0,) * 6, micro_size=case.micro_size if case.normed else 0, schedule={}, settings={})


def skipped(communicator, case: Case):
    words, labels = columns()
    labels[BAD_ROW] = np.nan
    model, network = make_model(case)
    losses, guard = Losses(), LossGuard("skip", stream=io.StringIO())
    data = NumpySlicesDataset((words, labels), ["words", "labels"], shuffle=False).batch(ROWS)
    model.train(1, data, callbacks=[losses, guard], dataset_sink_mode=False)
    return losses.found, held_boxes(model, network), guard.skipped_steps, guard._stream.getvalue()


@pytest.mark.parametrize(
    ("ranks", "case"),
    [
        (2, Case(normed=True, schedule=ONE, micro_size=2)),
        (4, Case(tied=True, cut=2)),
        (3, Case(stages=THREE, accumulation=2, loss_inside=False)),
    ],
)
def test_a_step_that_is_not_finite_changes_nothing_in_any_stage(ranks: int, case: Case) -> None:
    ((losses, wanted, steps, said),) = run_world(1, skipped, alone(replace(case, cut=1)))
    found = run_world(ranks, skipped, case)
    same_as(wanted, [boxes for _, boxes, *_ in found])
    for of_rank, _, skips, _ in found:
        np.testing.assert_allclose(of_rank, losses, rtol=0, atol=1e-9)
        assert skips == steps == [BAD_STEP if case.accumulation == 1 else 2]
    assert [bool(one[-1]) for one in found] == [True] + [False] * (ranks - 1)
    assert said.split(" input 1")[0].split("finite; ")[1] in found[0][-1]


class Spike(nn.Cell):
    """The norm of each row beside it: its gradient is no number where a row is 0, while all values are finite."""

    def construct(self, x):
        return x + ops.sqrt((x * x).sum(1, keepdims=True)) / 10


def scaled(communicator, case: Case):
    words, labels = columns()
    words[words == ODD_WORD] = 0
    words[BAD_ROW] = ODD_WORD
    model, network = make_model(case, loss_scale_manager=DynamicLossScaleManager(2.0**10, 4, 2))
    table = network.embedding.table
    table.set_data(np.where(np.arange(WORDS)[:, None] == ODD_WORD, 0, table.asnumpy()))
    network.blocks[1].dropout = Spike()
    step, scales = model.train_network, []
    step.set_train()
    for row in range(0, ROWS * STEPS, ROWS):
        result = step(Tensor(words[row : row + ROWS]), Tensor(labels[row : row + ROWS]))
        scales.append([float(one) for one in result])
        if row == ROWS * (BAD_STEP - 1):
            culprits = step.finite_check.culprits()
    return scales, held_boxes(model, network), culprits


@pytest.mark.parametrize(("ranks", "stages"), [(2, (0, 0, 1, 1, 1, 1)), (3, THREE), (6, (0, 1, 1, 2, 2, 2))])
def test_an_overflow_in_one_stage_lowers_the_scale_of_all_and_no_stage_updates(ranks: int, stages) -> None:
    case = Case(stages=stages)
    ((scales, wanted, culprits),) = run_world(1, scaled, alone(case))
    assert [overflow for _, overflow, _ in scales] == [0, 0, 1, 0, 0]
    assert culprits == ["embedding.table", "blocks.0.first", "blocks.0.second", "blocks.1.first"]
    found = run_world(ranks, scaled, case)
    same_as(wanted, [boxes for _, boxes, _ in found])
    for of_rank, _, named in found:
        np.testing.assert_allclose(of_rank, scales, rtol=0, atol=1e-9)
        assert named == culprits


PIECES = {"full_batch": False}
CUTS = {"full_batch": None, "dataset_strategy": ((2, 1), (1, 2))}


def fed_pieces(communicator, case: Case):
    words, labels = columns()
    piece, count = communicator.rank % 2, communicator.size // (max(case.stages) + 1)
    if count > 1 and "dataset_strategy" in case.settings:
        labels = np.split(labels, 2, 1)[piece]
        words = np.concatenate([np.split(batch, 2)[piece] for batch in np.split(words, STEPS)])
        data = list(zip(np.split(words, STEPS), np.split(labels, STEPS), strict=True))
    else:
        data = [
            [np.split(column, count)[piece % count] for column in columns]
            for columns in zip(np.split(words, STEPS), np.split(labels, STEPS), strict=True)
        ]
    model, network = make_model(case)
    step = model.train_network.set_train()
    return [float(step(*map(Tensor, batch))) for batch in data], held_boxes(model, network)


@pytest.mark.parametrize("settings", [PIECES, CUTS], ids=["rows", "dataset_strategy"])
def test_each_stage_may_be_fed_a_batch_in_pieces(settings) -> None:
    case = Case(dropout=0.25, settings=settings)
    ((losses, wanted),) = run_world(1, fed_pieces, alone(case))
    found = run_world(4, fed_pieces, case)
    same_as(wanted, [boxes for _, boxes in found])
    for of_rank, _ in found:
        np.testing.assert_allclose(of_rank, losses, rtol=0, atol=1e-9)


def from_other_values(communicator, case: Case):
    model, network = make_model(case)
    for parameter in network.trainable_params():
        parameter.set_data(parameter.asnumpy() + communicator.rank)
    losses = Losses()
    model.train(1, rows(), callbacks=[losses], dataset_sink_mode=False)
    return losses.found, held_boxes(model, network)


@pytest.mark.parametrize("tied", [False, True])
def test_parameters_of_all_stages_start_from_the_values_of_rank_0_where_asked_to(tied: bool) -> None:
    case = Case(tied=tied, settings={"parameter_broadcast": True})
    ((losses, wanted),) = run_world(1, from_other_values, alone(case))
    found = run_world(4, from_other_values, case)
    same_as(wanted, [boxes for _, boxes in found])
    np.testing.assert_allclose([of_rank for of_rank, _ in found], [losses] * 4, rtol=0, atol=1e-9)
