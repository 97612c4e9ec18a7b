"""Spares wait while others train; they meet the survivors when one of these dies, wherever they have heard of it."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel.communication.threads import run_world
from mpiparallel.errors import RankFailureError
from tests.conformance.trainings.moving_product import At, alone, compare, make_model, rows
from tests.conformance.trainings.moving_training import Losses
from tests.unit.train.elastic.thread_survival import Death, once, thread_survival


@pytest.fixture
def survival(monkeypatch: pytest.MonkeyPatch) -> Any:
    return thread_survival(monkeypatch)


def waits(survival, model):
    """Let a spare hear of the next death instead of what the leader says."""
    membership = model.resharding.membership
    hear = membership.hear

    def fail():
        if not survival.has_happened_to(membership.number):
            survival.wait(membership.number)
        return hear()

    membership.hear = fail


def test_a_spare_meets_the_survivors_and_may_be_called_later(survival, capsys) -> None:
    def job(communicator):
        model, losses, number = make_model(), Losses(), communicator.rank
        if number == 3:
            waits(survival, model)
        legs = [At(2, lambda: model.reshard(ranks=3)), At(5, once(lambda: survival.die(number, (2,))))]
        legs.append(At(8, lambda: model.reshard(ranks=[3, 0])))
        try:
            model.train(3, rows(), [losses, *legs], dataset_sink_mode=False)
        except Death:
            return None
        return losses.by_step, model.training_ranks

    results = run_world(4, job)
    said = "Model.train: rank 2 has died; 2 ranks go on from step 5 (slices of replicas); 1 more waits\n"
    assert capsys.readouterr().out == said
    compare(results[0][0], alone())
    compare(results[3][0], {step: loss for step, loss in alone().items() if step < 3 or step > 8})
    assert [one and one[1] for one in results] == [(3, 0), (3, 0), None, (3, 0)]


def test_spares_cannot_go_on_without_those_who_trained(survival) -> None:
    def job(communicator):
        model, number = make_model(), communicator.rank
        if number == 2:
            waits(survival, model)
        legs = [At(2, lambda: model.reshard(ranks=2)), At(5, once(lambda: survival.die(number, (0, 1))))]
        try:
            model.train(3, rows(), legs, dataset_sink_mode=False)
        except Death:
            return None
        except RankFailureError as error:
            return str(error)

    why = "all ranks that trained have died"
    again = "start the job again, so that it resumes from its last checkpoint"
    said = f"Model.train: ranks 0, 1 have died, and the others cannot go on without: {why}; {again}"
    assert run_world(3, job) == [None, None, said]


def test_a_spare_that_is_called_while_a_rank_dies_meets_the_survivors(survival, capsys) -> None:
    def job(communicator):
        model, losses, number = make_model(), Losses(), communicator.rank
        resharding = model.resharding
        carry_out, orders = resharding.carry_out, []

        def carry_out_or_die(command):
            orders.append(command)
            if len(orders) == 2:
                survival.die(number, (2,))
            return carry_out(command)

        resharding.carry_out = carry_out_or_die
        legs = [At(2, lambda: model.reshard(ranks=3)), At(5, once(lambda: model.reshard(ranks=4)))]
        legs.append(At(8, lambda: model.reshard(ranks=[3, 0])))
        try:
            model.train(3, rows(), [losses, *legs], dataset_sink_mode=False)
        except Death:
            return None
        return losses.by_step, model.training_ranks

    results = run_world(4, job)
    said = "Model.train: rank 2 has died; 2 ranks go on from step 5 (slices of replicas); 1 more waits\n"
    assert capsys.readouterr().out == said
    compare(results[0][0], alone())
    compare(results[3][0], {step: loss for step, loss in alone().items() if step < 3 or step > 8})
    assert [one and one[1] for one in results] == [(3, 0), (3, 0), None, (3, 0)]
