"""Ranks that come and go by Model.reshard: who trains, who waits, who leaves, and what each of them is told."""

from __future__ import annotations

import io
import json
import signal
from types import SimpleNamespace

import numpy as np
import pytest

from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.communication import get_group_size, get_rank
from mpiparallel.communication.threads import run_world
from mpiparallel.context.settings import current_configuration
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import (
    ConfigurationError,
    LayoutError,
    NonFiniteError,
)
from mpiparallel.train import (
    Callback,
    CheckpointConfig,
    LossGuard,
    ModelCheckpoint,
    ProgressMonitor,
)
from mpiparallel.train.elastic import leader_message
from mpiparallel.train.elastic.leader_message import PreemptionEnd, TrainingEnd
from mpiparallel.train.elastic.resharding import Resharding
from mpiparallel.train.elastic.spare_interrupts import interrupts_held
from mpiparallel.train.preemption import Preempted
from tests.conformance.trainings.moving_product import SEMI_AUTO, At, alone, compare, make_model, rows
from tests.conformance.trainings.moving_training import Losses


def test_a_program_may_begin_with_spares_that_join_later() -> None:
    def job(communicator):
        model, losses = make_model(), Losses()
        model.reshard(ranks=2)
        began_with = model.active, get_group_size(), current_configuration().device_num
        model.train(3, rows(), [losses, At(5, lambda: model.reshard(ranks=4))], dataset_sink_mode=False)
        return began_with, losses.by_step, get_rank(), model.step

    results = run_world(4, job)
    assert [began[0] for began, *_ in results] == [True, True, False, False]
    assert results[0][0][1:] == (2, 2)
    assert [(rank, step) for _, _, rank, step in results] == [(0, 12), (1, 12), (2, 12), (3, 12)]
    wanted = alone()
    compare(results[0][1], wanted)
    compare(results[3][1], {step: loss for step, loss in wanted.items() if step > 5})


def test_sunk_steps_and_ranks_in_any_order_go_on_alike() -> None:
    def job(communicator):
        model, losses = make_model(((4, 1), (1, 2))), Losses()
        legs = [
            At(4, lambda: model.reshard({"first": ((3, 1), (1, 2))}, ranks=[5, 0, 7, 2, 6, 1])),
            At(6, lambda: model.reshard({"first": ((1, 1), (1, 3))}, ranks=[3, 1, 5]), "every_step"),
        ]
        model.train(3, rows(), [losses, *legs], sink_size=4)
        return losses.by_step, model.active

    results, wanted = run_world(8, job), alone()
    compare(results[5][0], wanted)
    compare(results[3][0], {step: loss for step, loss in wanted.items() if step < 5 or step > 6})
    assert [active for _, active in results] == [rank in (3, 1, 5) for rank in range(8)]


def test_rank_0_may_retire_and_progress_is_then_shown_by_the_next_one() -> None:
    def job(communicator):
        model, losses, stream = make_model(), Losses(), io.StringIO()
        callbacks = [losses, ProgressMonitor(0.0, stream), At(5, lambda: model.reshard(ranks=[2, 1]))]
        model.train(3, rows(), callbacks, dataset_sink_mode=False)
        shown = [line.split("  ")[0] for line in stream.getvalue().splitlines()]
        return losses.by_step, shown, (get_rank(), get_group_size()), model.active

    results = run_world(3, job)
    compare(results[2][0], alone())
    assert len(results[0][0]) == 5
    assert [len(shown) for _, shown, *_ in results] == [5, 0, 7]
    assert [place for _, _, place, _ in results] == [(0, 3), (1, 2), (0, 2)]
    assert [active for *_, active in results] == [False, True, True]


def test_ranks_that_leave_return_from_train_and_are_not_waited_for() -> None:
    def job(communicator):
        model, losses = make_model(), Losses()
        legs = [At(3, lambda: model.reshard(ranks=3, retire="end")), At(6, lambda: model.reshard(ranks=2))]
        legs.append(At(9, lambda: model.reshard(ranks=[1, 2, 0])))
        model.train(3, rows(), [losses, *legs], dataset_sink_mode=False)
        if communicator.rank == 3:
            assert (model.has_left, model.active, len(losses.by_step)) == (True, False, 3)
            with pytest.raises(ConfigurationError, match="this rank has left the job"):
                model.reshard(ranks=4)
            model.train(3, rows())
            with pytest.raises(LayoutError, match=r"'weight' .* is held by other ranks"):
                model.predict_network.weight.asnumpy()
            with pytest.raises(ConfigurationError, match=r"Model\.eval: this rank does not train"):
                model.eval(rows())
        return losses.by_step

    results = run_world(4, job)
    compare(results[0], alone())
    assert sorted(results[2]) == [1, 2, 3, 4, 5, 6, 10, 11, 12]


def test_callbacks_that_come_after_a_reshard_in_a_moment_are_told_on_the_new_ranks_together() -> None:
    def job(communicator):
        model, seen = make_model(), []

        class Evaluate(Callback):
            def step_end(self, run_context):
                parameters = run_context.original_args()
                if parameters.cur_step_num in (4, 8):
                    here = parameters.rank, parameters.device_number, parameters.cur_epoch_num
                    seen.append((parameters.cur_step_num, here, model.eval(rows())["loss"]))

            def epoch_end(self, run_context):
                seen.append(("epoch", run_context.original_args().cur_epoch_num))

            def retired(self, run_context):
                seen.append("retired")

            def resharded(self, run_context):
                seen.append(("resharded", run_context.original_args().joins))

        legs = [At(4, lambda: model.reshard(ranks=2)), At(8, lambda: model.reshard(ranks=[0, 3]))]
        model.train(3, rows(), [*legs, Evaluate()], dataset_sink_mode=False)
        return seen

    results = run_world(4, job)
    assert results[2] == ["retired"]
    first, last = results[0], results[3]
    assert [one if isinstance(one, str) else one[0] for one in first] == [
        *("resharded", 4, "epoch"),
        *("resharded", 8, "epoch", "epoch"),
    ]
    assert last[:2] == ["retired", ("resharded", True)]
    assert last[2] == (8, (1, 2, 2), first[4][2])
    assert last[3:] == [("epoch", 2), ("epoch", 3)]


def test_ranks_may_have_callbacks_of_their_own_before_the_one_that_moves() -> None:
    def job(communicator):
        model, losses, told = make_model(), Losses(), []

        class Own(Callback):
            def step_end(self, run_context):
                told.append(run_context.original_args().cur_step_num)

        own = [Own() for _ in range(communicator.rank)]
        moves = [At(4, lambda: model.reshard(ranks=2)), At(8, lambda: model.reshard(ranks=[3, 0]))]
        model.train(3, rows(), [*own, *moves, Own(), losses], dataset_sink_mode=False)
        return losses.by_step, told

    results = run_world(4, job)
    compare(results[0][0], alone())
    assert results[0][1] == [*range(1, 13)]
    assert results[1][1] == [*(step for step in range(1, 9) for _ in range(2))][:-1]
    assert results[3][1] == [
        *(step for step in range(1, 4) for _ in range(4)),
        *(4,) * 3,
        8,
        *(9,) * 4,
        *(10,) * 4,
        *(11,) * 4,
        *(12,) * 4,
    ]


@pytest.mark.parametrize("caught", [False, True])
def test_spares_are_let_go_by_the_error_that_ends_a_training(caught) -> None:
    def job(communicator):
        model = make_model()
        data = np.full((48, 6), 1.0 if caught else np.inf), np.zeros((48, 12))

        def fail():
            raise KeyboardInterrupt if caught else NonFiniteError("no")

        dataset = NumpySlicesDataset(data, ["x", "y"], shuffle=False).batch(12)
        callbacks = [At(1, lambda: model.reshard(ranks=2)), At(2, fail) if caught else LossGuard()]
        model.reshard(ranks=2)
        try:
            model.train(3, dataset, callbacks, dataset_sink_mode=False)
        except BaseException as error:
            return type(error).__name__, str(error)

    results = run_world(3, job)
    assert results[0][0] == results[1][0] == ("KeyboardInterrupt" if caught else "NonFiniteError")
    assert results[2][0] == ("MpiParallelError" if caught else "NonFiniteError")
    assert "the training that this rank waited for has ended" in results[2][1]


def test_spares_are_let_go_when_a_callback_stops_the_training() -> None:
    def job(communicator):
        model = make_model()

        class Stop(Callback):
            def step_end(self, run_context):
                if run_context.original_args().cur_step_num == 5:
                    run_context.request_stop()

        model.train(3, rows(), [At(5, lambda: model.reshard(ranks=1)), Stop()], dataset_sink_mode=False)
        return model.active, model.step

    assert run_world(3, job) == [(True, 5), (False, 5), (False, 5)]


def test_checkpoints_are_those_of_the_ranks_that_train(tmp_path) -> None:
    def job(communicator):
        model = make_model()
        saver = ModelCheckpoint("net", str(tmp_path), CheckpointConfig(4))
        legs = [At(2, lambda: model.reshard(ranks=2)), At(6, lambda: model.reshard(ranks=[3, 0, 2]))]
        model.train(3, rows(), [*legs, saver], dataset_sink_mode=False)
        return Manifest.load(saver.last_manifest).rank_count, str(saver.last_checkpoint)

    results = run_world(4, job)
    assert results[3] == (3, f"{tmp_path}/rank_0/net-3_4.h5")
    assert results[0] == (3, f"{tmp_path}/rank_1/net-3_4.h5")
    written = sorted(path.name for path in (tmp_path / "rank_2").glob("*.h5"))
    assert written == ["net-2_4.h5", "net-3_4.h5"]


def test_settings_of_a_rank_and_of_the_count_follow() -> None:
    def job(communicator):
        own = {"device_num": get_group_size(), "global_rank": get_rank()}
        model = make_model(settings={**SEMI_AUTO, **own})
        model.train(1, rows())
        model.reshard(ranks=[2, 0], enable_parallel_optimizer=True)
        configuration = current_configuration()
        model.train(2, rows())
        return configuration.device_num, configuration.rank, configuration.enable_parallel_optimizer, model.active

    assert run_world(3, job) == [(2, 1, True, True), (3, 1, False, False), (2, 0, True, True)]


def test_a_command_is_the_same_after_it_was_sent() -> None:
    def job(communicator):
        model = make_model(((2, 1), (1, 2)), **{"settings": SEMI_AUTO})
        model.train(1, rows())
        heard = []
        tell = model.resharding.membership.tell
        model.resharding.membership.tell = lambda message: (heard.append(message), tell(message))
        model.reshard({"first": ((1, 1), (1, 3))}, ranks=3)
        return heard

    (sent,) = run_world(4, job)[0]
    assert json.loads(sent)["kind"] == "ReshardCommand"
    assert leader_message.encode(leader_message.decode(sent)) == sent


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("interrupts", [1, 2])
def test_an_interrupt_of_a_rank_that_waits_is_put_off_once_until_it_waits_no_more(interrupts) -> None:
    done = []

    def wait():
        with interrupts_held():
            for _ in range(interrupts):
                signal.raise_signal(signal.SIGINT)
            done.append("waited")

    with pytest.raises(KeyboardInterrupt):
        wait()
    assert len(done) == 2 - interrupts
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("heeded_interrupts")
def test_a_rank_that_waits_ignores_interrupts_where_its_program_does() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_held():
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_callback_may_move_more_than_once() -> None:
    def job(communicator):
        model, losses = make_model(), Losses()

        def there_and_back():
            model.reshard(ranks=1)
            model.reshard(ranks=[2, 0])
            model.reshard(ranks=[1, 2, 0])

        model.train(3, rows(), [At(5, there_and_back), losses], dataset_sink_mode=False)
        return losses.by_step

    wanted = alone()
    for found in run_world(3, job):
        compare(found, wanted)


def test_a_rank_that_fails_alone_leaves_no_other_waiting() -> None:
    def job(communicator):
        model = make_model()
        model.reshard(ranks=3)

        def fail():
            if get_rank() == 1:
                raise ValueError("the disk is full")

        model.train(3, rows(), At(2, fail), dataset_sink_mode=False)

    with pytest.raises(ValueError, match="the disk is full"):
        run_world(5, job)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, TrainingEnd()),
        (SystemExit(), TrainingEnd()),
        (SystemExit(0), TrainingEnd()),
        (SystemExit(3), TrainingEnd("SystemExit", "3", (2,))),
        (ValueError("no more rows"), TrainingEnd("ValueError", "no more rows", (2,))),
        (Preempted(75, "saved"), PreemptionEnd(75, "saved")),
    ],
    ids=repr,
)
def test_spares_hear_how_a_training_ends(error, told) -> None:
    heard = []
    Resharding.end(SimpleNamespace(_tell=heard.append, _origins=lambda error: (2,)), error)
    assert heard == [told]


def test_settings_that_name_a_rank_or_a_count_name_those_of_the_rank_that_gets_them() -> None:
    told = {"device_num": 4, "global_rank": 1, "parallel_mode": "auto_parallel"}
    assert leader_message.settings_for(told, 6, 5) == told | {"device_num": 6, "global_rank": 5}
    untold = told | {"device_num": None, "global_rank": None}
    assert leader_message.settings_for(untold, 6, 5) == untold
