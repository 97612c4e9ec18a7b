"""Processes that a training starts join it, and all are told where none can be started."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from mpiparallel import communication
from mpiparallel.communication import world
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.threads.communicator import ThreadCommunicator
from mpiparallel.errors import CommunicationError, ConfigurationError, ReshardError
from mpiparallel.train import Callback
from mpiparallel.train.elastic import membership, resharding
from tests.conformance.trainings.moving_product import At, alone, compare, make_model, rows
from tests.conformance.trainings.moving_training import Losses

MPI = "mpiparallel.communication.mpi"
CANNOT = "Model.reshard: thread ranks cannot start processes; start the job with mpirun"


def test_where_no_process_can_be_started_all_are_told_and_the_training_goes_on() -> None:
    def job(communicator):
        model, losses, said = make_model(), Losses(), []

        def grow():
            with pytest.raises(CommunicationError) as raised:
                model.reshard(ranks=4, spawn=True)
            said.append(str(raised.value))

        legs = [At(2, lambda: model.reshard(ranks=2)), At(4, grow), At(6, lambda: model.reshard(ranks=3))]
        model.train(3, rows(), [losses, *legs], dataset_sink_mode=False)
        return losses.by_step, said

    results, wanted = run_world(3, job), alone()
    assert [said for _, said in results] == [[CANNOT], [CANNOT], []]
    compare(results[0][0], wanted)
    compare(results[2][0], {step: loss for step, loss in wanted.items() if step < 3 or step > 6})


def test_a_spare_that_calls_reshard_itself_is_told_too() -> None:
    def job(communicator):
        model = make_model()
        model.reshard(ranks=1)
        said: list[Exception] = []

        def grow():
            try:
                model.reshard(ranks=3, spawn=True)
            except CommunicationError as error:
                said.append(error)

        if model.active:
            model.train(1, rows(), At(2, grow), dataset_sink_mode=False)
        else:
            grow()
            with pytest.raises(ReshardError) as ended:
                model.reshard(ranks=2)
            assert str(ended.value) == "Model.reshard: the ranks that train have refused: their training has ended"
        return [str(error) for error in said]

    assert run_world(2, job) == [[CANNOT]] * 2


def test_processes_are_started_by_a_training_alone_and_only_while_no_number_is_missing() -> None:
    def job(communicator):
        model, said = make_model(), []

        def refused():
            with pytest.raises(ConfigurationError) as raised:
                model.reshard(ranks=4, spawn=True)
            said.append(str(raised.value))

        refused()
        legs = [At(2, lambda: model.reshard(ranks=[0, 2], retire="end")), At(3, refused)]
        # Where enough ranks are left, none is missing.
        legs.append(At(4, lambda: model.reshard(ranks=2, spawn=True)))
        model.train(3, rows(), legs, dataset_sink_mode=False)
        return said, model.generation

    outside = "Model.reshard: processes that are started join a training (spawn=True); reshard in a callback of train"
    left = (
        "Model.reshard: processes cannot be started any more (spawn=True), because ranks have left; let them wait "
        "instead (retire='wait')"
    )
    assert run_world(3, job) == [([outside, left], 2), ([outside], 1), ([outside, left], 2)]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An MPI library that starts processes: the thread ranks that have not been asked yet; and what ends them."""
    found: Any = ModuleType(MPI)
    found.at_exit = []
    found.started = []
    found.everyone = {}

    def grow(communicator, count):
        number = communicator.ranks[communicator.rank]
        found.started.append((number, count))
        return found.everyone[number]

    found.grow = grow
    monkeypatch.setitem(sys.modules, MPI, found)
    monkeypatch.setitem(vars(communication), "mpi", found)
    monkeypatch.setattr(ThreadCommunicator, "library", "a library")
    monkeypatch.setattr(resharding.atexit, "register", lambda call: found.at_exit.append(call))
    # Those that were started see all ranks at once.
    monkeypatch.setattr(membership, "joined", lambda: world.initialised() and world.current().size == 4)
    return found


def grown(library, train):
    """Return what a rank does of which two begin and two are started later."""

    def job(communicator):
        library.everyone[communicator.rank] = communicator
        communicator.barrier()
        if communicator.rank > 1:
            return train(communicator.rank)
        with world.use(communicator.group([0, 1])):
            return train(communicator.rank)

    return job


@pytest.mark.parametrize("stops", [False, True])
def test_started_processes_join_with_the_losses_of_one_rank_and_stop_with_the_others(library, stops) -> None:
    class Stop(Callback):
        def step_end(self, run_context):
            if stops and run_context.original_args().cur_step_num == 5:
                run_context.request_stop()

    def train(number):
        model, losses = make_model(), Losses()
        legs = [Stop(), At(5, lambda: model.reshard(ranks=4, spawn=True)), At(9, lambda: model.reshard(ranks=[3, 1]))]
        model.train(3, rows(), [losses, *legs], dataset_sink_mode=False)
        return losses.by_step, model.training_ranks

    results = run_world(4, grown(library, train))
    wanted = alone()
    last = 5 if stops else 12
    compare(results[1][0], {step: loss for step, loss in wanted.items() if step <= last})
    for number, end in ((2, min(9, last)), (3, last)):
        compare(results[number][0], {step: loss for step, loss in wanted.items() if 5 < step <= end})
    assert [ranks for _, ranks in results] == [(0, 1, 2, 3) if stops else (3, 1)] * 4
    assert sorted(library.started) == [(0, 2), (1, 2)]
    assert len(library.at_exit) == 4


def test_a_program_that_has_ended_listens_on_and_refuses_until_the_leader_ends(library) -> None:
    def train(number):
        model, losses, said = make_model(), Losses(), []
        if number < 2:
            model.reshard(ranks=1)

        def refused(**asked):
            with pytest.raises(ReshardError) as raised:
                model.reshard(**asked)
            said.append(str(raised.value))

        legs = [At(2, lambda: refused(ranks=2)), At(4, lambda: refused(ranks=4, spawn=True))]
        if number != 1:
            model.train(3, rows(), [losses, *legs], dataset_sink_mode=False)
        model.resharding._attend_at_exit()
        return said, losses.by_step

    wanted = alone()
    (said, losses), *others = run_world(4, grown(library, train))
    assert said == ["rank 1: its program has ended, so it cannot train"] * 2
    compare(losses, wanted)
    assert others == [([], {})] * 3


def test_a_spare_in_a_training_ends_it_when_the_leader_has_nothing_more_to_say(library) -> None:
    def train(number):
        model, losses = make_model(), Losses()
        model.reshard(ranks=1)
        if model.active:
            model.resharding._attend_at_exit()
        else:
            model.train(3, rows(), losses, dataset_sink_mode=False)
        return losses.by_step, model.active

    results = run_world(4, grown(library, lambda number: train(number) if number < 2 else None))
    assert results == [({}, True), ({}, False), None, None]
