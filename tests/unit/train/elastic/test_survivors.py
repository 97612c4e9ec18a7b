"""A training goes on when thread ranks die, with the losses of one rank that lives, or says why it cannot."""

from __future__ import annotations

import re
import shutil
from functools import cache
from typing import Any

import numpy as np
import pytest

from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.communication import get_rank
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError, RankFailureError
from mpiparallel.train import Callback, CheckpointConfig, ModelCheckpoint
from mpiparallel.train.elastic import shrinking
from mpiparallel.train.elastic.snapshot import Snapshot
from tests.conformance.trainings.moving_product import At, alone, compare, make_model, rows
from tests.conformance.trainings.moving_training import Losses
from tests.unit.train.elastic.thread_survival import Death, once, thread_survival


@pytest.fixture
def survival(monkeypatch: pytest.MonkeyPatch) -> Any:
    return thread_survival(monkeypatch)


def training(survival, strategy, dead, *more, step=5, moment="step_end"):
    """Return what a rank does: it trains, and some ranks die after a step; its losses, or None where it dies."""

    def job(communicator):
        model, losses, number = make_model(strategy), Losses(), communicator.rank
        callbacks = [losses, At(step, once(lambda: survival.die(number, dead)), moment)]
        try:
            model.train(3, rows(), [*callbacks, *(make(model, number) for make in more)], dataset_sink_mode=False)
        except Death:
            return None
        return losses.by_step, model.active, model.training_ranks

    return job


@cache
def wanted():
    """Return the losses of one rank that lives."""
    return alone()


GO_ON = [
    (4, None, (3,), "rank 3 has died; 3 ranks go on from step 5 (slices of replicas)"),
    (4, None, (0,), "rank 0 has died; 3 ranks go on from step 5 (slices of replicas)"),
    (4, None, (0, 2), "ranks 0, 2 have died; 2 ranks go on from step 5 (slices of replicas)"),
    (2, None, (0,), "rank 0 has died; 1 rank goes on from step 5 (slices of replicas)"),
    (4, ((2, 1), (1, 1)), (3,), "rank 3 has died; 2 ranks go on from step 5 (slices of replicas); 1 more waits"),
    # Rank 2 has what rank 1 is to have, but survivors stay in their order.
    (6, ((1, 1), (1, 3)), (4,), "rank 4 has died; 3 ranks go on from step 5 (slices of replicas); 2 more wait"),
    (8, ((4, 1), (1, 1)), (0,), "rank 0 has died; 4 ranks go on from step 5 (slices of replicas); 3 more wait"),
]


@pytest.mark.parametrize(("ranks", "strategy", "dead", "said"), GO_ON)
def test_as_many_survivors_as_the_network_can_be_cut_for_go_on_where_they_were(
    ranks, strategy, dead, said, survival, capsys
) -> None:
    results = run_world(ranks, training(survival, strategy, dead))
    assert capsys.readouterr().out == f"Model.train: {said}\n"
    living = [rank for rank in range(ranks) if rank not in dead]
    count = next(int(word) for word in re.findall(r"(\d) ranks? go", said))
    assert [one is None for one in results] == [rank in dead for rank in range(ranks)]
    losses = wanted()
    for rank in living:
        found, active, training_ranks = results[rank]
        assert (active, training_ranks) == (rank in living[:count], tuple(living[:count]))
        compare(found, losses if active else {step: losses[step] for step in range(1, 6)})
    assert not survival.given_up
    assert not survival.revoked


AGAIN = "; start the job again, so that it resumes from its last checkpoint"
CANNOT = [
    (4, None, (1, 2, 3), "ranks 1, 2, 3 have died", "fewer than half of the ranks that trained are left"),
    (5, None, (1, 2, 3), "ranks 1, 2, 3 have died", "fewer than half of the ranks that trained are left"),
    (4, ((2, 1), (1, 2)), (1,), "rank 1 has died", "*cuts into 4 parts, but there are 3 devices*"),
    (
        4,
        ((1, 1), (1, 2)),
        (2, 3),
        "ranks 2, 3 have died",
        "slices of 'moments.weight' and 1 more tensors are lost, and there is no checkpoint; give Model.train a "
        "ModelCheckpoint",
    ),
]


@pytest.mark.parametrize(("ranks", "strategy", "dead", "who", "why"), CANNOT)
def test_where_survivors_cannot_go_on_all_of_them_say_why(ranks, strategy, dead, who, why, survival) -> None:
    run = training(survival, strategy, dead)

    def words(communicator):
        try:
            return run(communicator)
        except RankFailureError as error:
            return str(error)

    results = run_world(ranks, words)
    assert [one is None for one in results] == [rank in dead for rank in range(ranks)]
    said = f"Model.train: {who}, and the others cannot go on without: {why}{AGAIN}"
    pattern = re.escape(said).replace(r"\*", ".*")
    assert all(re.fullmatch(pattern, one) for one in results if one is not None), results


def test_no_rank_is_said_to_have_died_where_only_a_collective_has_failed(survival) -> None:
    with pytest.raises(RankFailureError) as raised:
        run_world(2, training(survival, None, ()))
    assert str(raised.value) == f"Model.train: a collective has failed, but no rank has died{AGAIN}"


def test_who_dies_while_the_others_recover_is_left_out_too(survival, capsys) -> None:
    survival.meanwhile = {1}
    results = run_world(4, training(survival, None, (3,)))
    assert capsys.readouterr().out == (
        "Model.train: ranks 1, 3 have died; 2 ranks go on from step 5 (slices of replicas)\n"
    )
    assert results[1] is results[3] is None
    for found, _, training_ranks in (results[0], results[2]):
        compare(found, wanted())
        assert training_ranks == (0, 2)
    assert survival.revoked == [(0, 1, 2, 3)] * 2


def test_a_death_while_a_survivor_decides_makes_it_decide_again(survival, monkeypatch) -> None:
    deaths = iter((RankFailureError("one more"),))

    def propose(*given):
        for death in deaths:
            raise death
        return proposed(*given)

    proposed = shrinking.propose
    monkeypatch.setattr(shrinking, "propose", propose)
    found, _, ranks = run_world(2, training(survival, None, (0,)))[1]
    compare(found, wanted())
    assert (ranks, survival.revoked) == ((1,), [(1,)])


def stepping(run, *callbacks):
    """Return what a rank does whose steps ``run`` does: it gets the model and what does a step of given batches."""

    def job(communicator):
        model, losses = make_model(), Losses()
        session = model._session
        run_step = session.run_step
        session.run_step = lambda *batches: run(model, lambda: run_step(*batches))
        try:
            model.train(3, rows(), [losses, *callbacks], dataset_sink_mode=False)
        except Death:
            return None
        return losses.by_step

    return job


def test_who_has_not_ended_the_step_takes_back_what_it_has_done_of_it(survival, capsys) -> None:
    def die(numbers):
        if get_rank() in numbers and not survival.has_happened_to(get_rank()):
            survival.die(get_rank(), (3,))

    def run(model, step):
        loss = step()
        if model._session.step == 5:
            die((1, 3))
        return loss

    results = run_world(4, stepping(run, At(5, lambda: die(range(4)))))
    assert "3 ranks go on from step 4 (slices of replicas)\n" in capsys.readouterr().out
    for found in results[:3]:
        compare(found, wanted())


def test_batches_that_a_step_has_added_up_when_it_is_broken_off_are_not_added_up_again(survival, capsys) -> None:
    def job(communicator):
        model, losses, number = make_model(accumulation_steps=2), Losses(), communicator.rank
        run = model.train_network.run

        def run_or_die(batch, *given):
            # The second one of the fourth step.
            if batch == 7 and not survival.has_happened_to(number):
                survival.die(number, (1,))
            return run(batch, *given)

        model.train_network.run = run_or_die
        try:
            model.train(3, rows(), losses, dataset_sink_mode=False)
        except Death:
            return None
        return losses.by_step

    results = run_world(3, job)
    assert "2 ranks go on from step 3 (slices of replicas)\n" in capsys.readouterr().out
    for found in (results[0], results[2]):
        compare(found, alone(accumulation_steps=2))


def test_the_furthest_whole_step_is_the_copy_of_one_rank_and_the_state_of_others(survival, monkeypatch, capsys) -> None:
    take = Snapshot.take

    def take_or_die(snapshot, parameters, step, position):
        if step == 5 and get_rank() != 0 and not survival.has_happened_to(get_rank()):
            survival.die(get_rank(), (3,))
        take(snapshot, parameters, step, position)

    def run(model, step):
        if model._session.step == 5 and get_rank() == 0 and not survival.has_happened_to(0):
            model.predict_network.scale.set_data(np.full(12, 7.0))
            survival.die(0, (3,))
        return step()

    monkeypatch.setattr(Snapshot, "take", take_or_die)
    results = run_world(4, stepping(run))
    assert "3 ranks go on from step 5 (slices of replicas)\n" in capsys.readouterr().out
    for found in results[:3]:
        compare(found, wanted())


def test_a_death_before_the_first_step_ends_the_training_and_tells_the_callbacks(survival) -> None:
    told = []

    class Tell(Callback):
        def broken_off(self, run_context):
            told.append(get_rank())

    def job(communicator):
        try:
            run(communicator)
        except RankFailureError as error:
            return str(error)

    run = training(survival, None, (1,), lambda model, number: Tell(), step=0, moment="begin")
    assert run_world(3, job) == ["a rank has died", None, "a rank has died"]
    assert sorted(told) == [0, 1, 2]


def saving(folder):
    """Return what makes a callback that saves every fourth step."""
    return lambda model, number: ModelCheckpoint("net", str(folder), CheckpointConfig(4))


def test_what_nobody_holds_any_more_is_loaded_from_the_last_checkpoint(survival, tmp_path, capsys) -> None:
    epochs: dict[int, list[int]] = {rank: [] for rank in range(4)}

    class Epochs(Callback):
        def epoch_end(self, run_context):
            parameters = run_context.original_args()
            epochs[parameters.rank].append(parameters.cur_epoch_num)

    more = saving(tmp_path), lambda model, number: Epochs()
    results = run_world(4, training(survival, ((1, 1), (1, 2)), (2, 3), *more, step=6))
    assert epochs == {0: [1, 2, 3], 1: [1, 2, 3], 2: [1], 3: [1]}
    assert capsys.readouterr().out == (
        "Model.train: ranks 2, 3 have died; 2 ranks go on from step 4 (checkpoint net-1_4, step 4)\n"
    )
    assert results[2:] == [None, None]
    for found, *_ in results[:2]:
        compare(found, wanted())


def test_who_waits_while_the_others_load_joins_them_later_as_any_spare(survival, tmp_path, capsys) -> None:
    def moves(model, number):
        return At(10, lambda: model.reshard(ranks=[5, 2, 3]))

    results = run_world(6, training(survival, ((1, 1), (1, 3)), (0, 1), saving(tmp_path), moves, step=6))
    assert capsys.readouterr().out == (
        "Model.train: ranks 0, 1 have died; 3 ranks go on from step 4 (checkpoint net-1_4, step 4); 1 more waits\n"
    )
    assert [one and one[1:] for one in results] == [None] * 2 + [(rank != 4, (5, 2, 3)) for rank in (2, 3, 4, 5)]
    for rank, without in ((2, ()), (4, (11, 12)), (5, (7, 8, 9, 10))):
        compare(results[rank][0], {step: loss for step, loss in wanted().items() if step not in without})


def test_survivors_save_in_the_folders_of_their_own_that_they_had(survival, tmp_path) -> None:
    def own(model, number):
        return ModelCheckpoint("net", str(tmp_path / f"device{number}"), CheckpointConfig(4))

    run_world(3, training(survival, None, (0,), own))
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.h5"))
    assert written == [
        "device0/net-1_4.h5",
        *(f"device{number}/net-{epoch}_4.h5" for number in (1, 2) for epoch in (1, 2, 3)),
    ]
    last = Manifest.load(next(tmp_path.rglob("net-3_4.manifest.json")))
    assert [shard and shard.file for shard in last.shards] == ["device1/net-3_4.h5", "device2/net-3_4.h5"]


def test_a_checkpoint_that_is_gone_is_said_to_be_missing(survival, tmp_path) -> None:
    folder = tmp_path / "saved"

    def job(communicator):
        try:
            training(survival, ((1, 1), (1, 2)), (2, 3), gone, saving(folder), step=6)(communicator)
        except CheckpointError as error:
            return str(error)

    def gone(model, number):
        return At(5, lambda: number == 0 and shutil.rmtree(folder))

    said = f"Model.train: ranks 2, 3 have died, and {folder} has no checkpoint to go on from"
    assert run_world(4, job) == [said, said, None, None]
