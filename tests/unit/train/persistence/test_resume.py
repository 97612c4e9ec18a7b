"""Going on with a training that was killed: bit for bit on its ranks, with the right losses on others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CheckpointError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from tests.conformance.trainings.resumed_training import CASES, ONE, OWN, SHARDS, Case, leg, losses_of, stopped
from tests.reliability.counts import count, record

KILLS = count(17, 2)


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
    record(f"training resumed in one process: {name}", resumes=KILLS, bits_different=0)


CUTS = {
    "1": Case(1, ONE),
    "2, cut": Case(2, ONE, ((1, 2), (1, 2))),
    "3, optimizer shards": Case(3, {**ONE, **SHARDS}),
    "4, cut, optimizer shards": Case(4, {**ONE, **SHARDS}, ((2, 1), (2, 1))),
}
MOVES = [("4, cut, optimizer shards", "2, cut"), ("2, cut", "3, optimizer shards"), ("1", "4, cut, optimizer shards")]
MOVES += [("3, optimizer shards", "1"), ("4, cut, optimizer shards", "3, optimizer shards")]
OWN_BATCHES = Case(1, OWN, scaled=False, normed=False)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-6)])
@pytest.mark.parametrize(("source", "target"), MOVES)
def test_on_other_ranks_and_cuts_the_losses_are_those_of_the_training_that_never_moved(
    source, target, dtype, tolerance, tmp_path
) -> None:
    source, target = (replace(CUTS[name], dtype=dtype, scaled=dtype == np.float64) for name in (source, target))
    compare(source, target, dtype, tolerance, tmp_path)


@pytest.mark.parametrize(("source", "target"), [(4, 2), (2, 4), (1, 2)])
def test_ranks_with_batches_of_their_own_may_be_others_too(source, target, tmp_path) -> None:
    source, target = (replace(OWN_BATCHES, ranks=ranks, dtype=np.float64) for ranks in (source, target))
    compare(source, replace(target, settings={**OWN, **SHARDS}), np.float64, 1e-9, tmp_path)


def compare(source, target, dtype, tolerance, folder) -> None:
    """Kill a training in the middle of an epoch, resume it elsewhere, and compare with one that was left alone."""
    kill = 17
    whole = losses_of(leg(source, None), dtype)
    leg(source, folder, kill)
    resumed = leg(target, folder)
    found = losses_of(resumed, dtype)
    assert sorted(found) == list(range(kill + 1, source.steps + 1))
    np.testing.assert_allclose(list(found.values()), [whole[step] for step in found], rtol=tolerance)
    assert {one.ranks for one, *_ in resumed} == {source.ranks}


NORMED = Case(4, OWN, dtype=np.float64, scaled=False)


def averages(ranks):
    """Return the moving means of each rank."""
    return [np.frombuffer(state["0.moving_mean"][1]) for _, _, state, _ in ranks]


def test_moving_averages_of_each_rank_are_taken_over_by_its_number_counted_round(tmp_path) -> None:
    saved = averages(leg(NORMED, tmp_path, 3))
    assert len({mean.tobytes() for mean in saved}) == 4
    for ranks, heirs in ((4, [0, 1, 2, 3]), (2, [0, 1]), (1, [0])):
        np.testing.assert_array_equal(
            averages(stopped(replace(NORMED, ranks=ranks), tmp_path)), [saved[i] for i in heirs]
        )
    together = averages(stopped(replace(NORMED, ranks=2, settings=ONE), tmp_path))
    np.testing.assert_array_equal(together, [saved[0]] * 2)
    alone = tmp_path / "alone"
    (mean,) = averages(leg(replace(NORMED, ranks=1), alone, 3))
    np.testing.assert_array_equal(averages(stopped(replace(NORMED, ranks=3), alone, strict=False)), [mean] * 3)


def test_weights_that_are_each_ranks_own_go_to_as_many_ranks_only(tmp_path) -> None:
    def on_rank(communicator, resumes):
        context.set_auto_parallel_context(**OWN)
        network = nn.Dense(3, 2)
        network.weight.layerwise_parallel = True
        network.weight.set_data(np.full((2, 3), 1.0 + communicator.rank, np.float32))
        model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1))
        data = NumpySlicesDataset((np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)), ["x", "y"]).batch(2)
        if resumes:
            model.resume(tmp_path, data, strict=False)
        else:
            model.train(1, data, ModelCheckpoint("net", tmp_path, CheckpointConfig(0)))
        return network.weight.asnumpy().copy()

    saved = run_world(2, on_rank, False)
    assert not np.array_equal(*saved)
    np.testing.assert_array_equal(run_world(2, on_rank, True), saved)
    with pytest.raises(CheckpointError, match=r"'weight' is layerwise_parallel, .* of 2 ranks do not fit 3"):
        run_world(3, on_rank, True)
