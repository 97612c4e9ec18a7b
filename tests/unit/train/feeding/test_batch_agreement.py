"""What ranks must have alike in their data: asked of ranks in threads, and told to all of them alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import context
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError, DatasetError
from mpiparallel.train import LossGuard, LossMonitor, ModelCheckpoint
from mpiparallel.train.feeding.batch_agreement import check_batches, check_callbacks

SEMI, OWN = "semi_auto_parallel", "data_parallel"


def specs(*shapes: tuple[int, ...]) -> list[TensorSpec]:
    return [TensorSpec(shape, np.dtype(np.float32)) for shape in shapes]


def told(ranks: int, mode: str, check: Callable[[int], None]) -> str:
    """Return what all ranks are told alike, "" for nothing."""

    def on_rank(communicator: Any) -> str:
        context.set_auto_parallel_context(parallel_mode=mode)
        try:
            check(communicator.rank)
        except (ConfigurationError, DatasetError) as error:
            return str(error)
        return ""

    (said,) = set(run_world(ranks, on_rank))
    return said


@pytest.mark.parametrize(
    ("mode", "steps", "shapes", "said"),
    [
        (SEMI, (2, 2), [((4, 3), (4,))] * 2, ""),
        (OWN, (2, 2), [((4, 3),), ((5, 2),)], ""),
        (OWN, (1, 1), [((),), ((),)], ""),
        (
            SEMI,
            (2, 0),
            [((4, 3),), ()],
            "Model.train: the dataset has no batch; use a smaller batch_size, or fewer ranks: rank 0 has 2 steps, rank "
            "1 has 0 steps",
        ),
        (
            OWN,
            (2, 3),
            [((4, 3),)] * 2,
            "Model.train: all ranks take equally many steps an epoch, but rank 0 has 2 steps, rank 1 has 3 steps; give "
            "all as many samples: num_shards and shard_id do",
        ),
        (
            OWN,
            (2, 2),
            [((4, 3),), ((0, 3), (4,))],
            "Model.train: a batch has no row: rank 0 has float32 (4, 3), rank 1 has float32 (0, 3) and float32 (4,); "
            "give every batch at least one",
        ),
        (
            SEMI,
            (2, 2),
            [((4, 3),), ((4, 2),)],
            "Model.train: in semi_auto_parallel mode all ranks have batches of the same shapes, but rank 0 has float32 "
            "(4, 3), rank 1 has float32 (4, 2); feed all the same dataset, or equal pieces of each batch with "
            "full_batch=False",
        ),
    ],
)
def test_ranks_go_together_through_equally_many_batches_with_rows(
    mode: str, steps: tuple[int, ...], shapes: Any, said: str
) -> None:
    assert told(2, mode, lambda rank: check_batches(steps[rank], specs(*shapes[rank]))) == said


def test_too_few_batches_for_a_step_are_told_with_how_many_it_takes() -> None:
    said = told(1, OWN, lambda rank: check_batches(0, specs((4,)), 3))
    assert said == (
        "Model.train: the dataset has fewer than the 3 batches of a step; use a smaller batch_size, or fewer ranks: "
        "rank 0 has 0 steps"
    )


def test_ranks_that_train_alone_need_not_agree() -> None:
    assert told(2, "stand_alone", lambda rank: check_batches(rank + 1, specs((rank + 1,)))) == ""


def test_a_rank_that_is_alone_is_told_all_columns_however_many() -> None:
    said = told(1, SEMI, lambda rank: check_batches(2, specs(*[(0, 3)] * 60)))
    columns = " and ".join(["float32 (0, 3)"] * 60)
    assert said == f"Model.train: a batch has no row: rank 0 has {columns}; give every batch at least one"


def test_ten_steps_are_neither_none_nor_no_rows() -> None:
    assert told(2, SEMI, lambda rank: check_batches(10, specs((10, 1)))) == ""


@pytest.mark.parametrize(
    ("callbacks", "said"),
    [
        # Those that act on their own rank alone may be anywhere.
        (lambda rank: [LossMonitor()] * rank, ""),
        (lambda rank: [LossGuard(), *[LossMonitor()] * rank, ModelCheckpoint()], ""),
        (lambda rank: [LossGuard()] if rank else [], "rank 0 has callbacks none, rank 1 LossGuard, of those in which"),
        (
            lambda rank: [ModelCheckpoint(), LossGuard()][:: -1 if rank == 2 else 1],
            "rank 0 has callbacks ModelCheckpoint, LossGuard, rank 2 LossGuard, ModelCheckpoint, of those in which all "
            "ranks take part; give all ranks the same, in the same order",
        ),
        (lambda rank: [LossGuard()] if rank < 1 else [], "rank 0 has callbacks LossGuard, rank 1 none, of those"),
    ],
)
def test_callbacks_that_act_together_are_the_same_on_all_ranks(callbacks: Callable[[int], Any], said: str) -> None:
    found = told(3, SEMI, lambda rank: check_callbacks(callbacks(rank)))
    assert found.startswith(f"Model.train: {said}" if said else said)
    assert bool(found) == bool(said)
