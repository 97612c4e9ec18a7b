"""By every schedule, in any stages, whatever else is asked for, a training is that of one device.

``make test`` tries each schedule and each feature once, ``make soak`` all of them together on each network.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from mpiparallel.communication.threads import run_world
from mpiparallel.pipeline import SCHEDULES
from tests.reliability.counts import share
from tests.unit.train.pipelines.scheduled_networks import FEATURES, NETWORKS, Scheduled, trained
from tests.unit.train.staged_networks import same_as

COUNTS = (2, 3, 4)
FEW = [
    *(
        Scheduled("blocks", schedule, COUNTS[place % 3], feature, place % 2 == 0)
        for place, (schedule, feature) in enumerate(zip(SCHEDULES, (*FEATURES, "recompute"), strict=True))
    ),
    Scheduled("Transformer", "zb_v", 2, "tied embeddings", False),
    Scheduled("Transformer", "interleaved_1f1b", 2, "recompute", True),
    Scheduled("ResNet-18", "zb_h1", 2, "recompute", False),
    Scheduled("ResNet-18", "v_half", 2, "data parallel", True),
]


def every_case() -> list[Scheduled]:
    """Return every network by every schedule in all stages with every feature that it can have, even and uneven."""
    every = (Scheduled(*one) for one in product(NETWORKS, SCHEDULES, COUNTS, FEATURES, (True, False)))
    return [case for case in every if (case.network, case.feature) != ("ResNet-18", "tied embeddings")]


@cache
def on_one_device(case: Scheduled):
    """Return the training on one rank: of blocks on whole batches, of the others on the same micro-batches."""
    return run_world(1, trained, case)[0]


@pytest.mark.parametrize("case", every_case() if share() else FEW, ids=str)
def test_losses_and_weights_after_5_updates_are_those_of_one_device(case: Scheduled) -> None:
    losses, wanted = on_one_device(case.on_one_device())
    found = run_world(case.ranks, trained, case, overlaps=case.feature == "optimizer parallel")
    for of_rank, _ in found:
        np.testing.assert_allclose(of_rank, losses, rtol=0, atol=1e-9)
    same_as(wanted, [held for _, held in found])
