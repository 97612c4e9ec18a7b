"""Going on with a training that was killed: bit for bit on its ranks, with the right losses on others."""

from __future__ import annotations

import os

import numpy as np
import pytest

from mpiparallel.train import CheckpointConfig
from tests.conformance.resumed_training import CASES, leg

# Steps at which each case is killed; ``make soak`` asks for more.
KILLS = max(2, round(17 * float(os.environ.get("MPIPARALLEL_SOAK") or 0)))


@pytest.mark.parametrize("name", CASES)
def test_a_training_killed_at_any_step_goes_on_bit_for_bit(name, tmp_path) -> None:
    case = CASES[name]
    whole = leg(case, None)
    random = np.random.default_rng(sum(map(ord, name)))
    for attempt, kill in enumerate(random.permutation(np.arange(1, case.steps))[:KILLS].tolist()):
        folder = tmp_path / str(attempt)
        every, asynchronous = int(random.integers(1, 4)), bool(random.integers(2))
        config = CheckpointConfig(every, keep_checkpoint_max=2, async_save=asynchronous)
        leg(case, folder, kill, config)
        resumed = leg(case, folder, config=config)
        for rank, (found, losses, state, step) in enumerate(resumed):
            _, wanted, wanted_state, _ = whole[rank]
            where = f"rank {rank}, killed at {kill}, saved every {every}, asynchronous {asynchronous}"
            begin = 0 if found is None else found.step
            assert kill - every - asynchronous * every < begin <= kill, where
            assert losses == {one: loss for one, loss in wanted.items() if one > begin}, where
            assert state == wanted_state, where
            assert step == case.steps
