"""Model.reshard: a training goes on, on other ranks and by another strategy, as if it had never moved."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.communication.threads import run_world
from tests.conformance.trainings.moving_training import (
    CUTS,
    SHARDS,
    STEPS,
    Losses,
    Network,
    ReshardAt,
    dataset,
    make_model,
    state,
    unmoved_losses,
)

OFF = {"enable_parallel_optimizer": False}
ROUND_TRIP = {2: {"ranks": 6, **OFF}, 5: {"ranks": 3, **SHARDS}, 7: {"ranks": 5}, 10: {"ranks": 8}}


@pytest.fixture(scope="module")
def wanted():
    return unmoved_losses()


def train_on_legs(communicator, ranks, legs, settings):
    model, losses = make_model(ranks, **settings), Losses()
    model.train(3, dataset(), [losses, ReshardAt(model, legs)], dataset_sink_mode=False)
    return losses.by_step, model.active, model.step


def union(results):
    """Return the losses by step, which all ranks that trained must have alike."""
    found = {}
    for losses, *_ in results:
        for step, loss in losses.items():
            assert found.setdefault(step, loss) == loss
    return found


def close(found, wanted):
    # The sums over ranks are made in another order than that of one rank.
    assert sorted(found) == sorted(wanted)
    np.testing.assert_allclose(
        [found[step] for step in sorted(found)], [wanted[step] for step in sorted(wanted)], rtol=1e-9
    )


def test_a_round_trip_in_a_training_leaves_the_losses_of_one_that_never_moved(wanted) -> None:
    results = run_world(8, train_on_legs, 8, ROUND_TRIP, SHARDS)
    close(union(results), wanted)
    assert [(active, step) for _, active, step in results] == [(True, STEPS)] * 8
    seen = [sorted(losses) for losses, *_ in results]
    assert (seen[7], seen[5]) == ([1, 2, 11, 12], [1, 2, 3, 4, 5, 11, 12])
    assert seen[3] == [*range(1, 6), 8, 9, 10, 11, 12]


def test_state_is_bit_identical_after_a_round_trip_without_steps() -> None:
    def there_and_back(communicator):
        model = make_model(8, **SHARDS)
        model.train(1, dataset(), dataset_sink_mode=False)
        before = state(model)
        for count in (6, 3, 5, 8):
            model.reshard(Network(*CUTS[count]), ranks=count, mode="bounded" if count == 3 else "safe", digest=True)
        assert (model.active, model.step) == (True, 4)
        after = state(model)
        assert before.keys() == after.keys()
        assert len(before) > 50
        for name, (layout, array) in before.items():
            assert after[name][0].canonical == layout.canonical
            assert after[name][1].dtype == array.dtype
            assert after[name][1].tobytes() == array.tobytes(), name
        model.train(2, dataset(), losses := Losses(), dataset_sink_mode=False)
        return losses.by_step

    moved = run_world(8, there_and_back)
    assert moved == [moved[0]] * 8

    def stay(communicator):
        model, losses = make_model(8, **SHARDS), Losses()
        model.train(2, dataset(), losses, dataset_sink_mode=False)
        return {step: loss for step, loss in losses.by_step.items() if step > 4}

    assert run_world(8, stay)[0] == moved[0]
