"""The end of a training by a signal: at one step on all ranks, saved, with an exit code that says so."""

from __future__ import annotations

import io
import os
import signal
import sys

import numpy as np
import pytest

from mpiparallel.checkpoint.catalogue import catalogue
from mpiparallel.cluster.preemption_signal import PreemptionHandler
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.train import Callback, CheckpointConfig, ModelCheckpoint, ProgressMonitor
from mpiparallel.train.preemption import Preempted
from tests.conformance import patience
from tests.conformance.trainings.moving_product import DATA_PARALLEL, At, make_model, rows, shard_rows
from tests.conformance.trainings.moving_training import Losses

STEPS = 12
RANKS = 3
MANNERS = {
    "step by step": {"dataset_sink_mode": False},
    "sunk by epochs": {},
    "sunk by threes": {"sink_size": 3},
}


class PreemptAt(Callback):
    """Is told, on one rank only, that the machine is wanted back: while it makes a step ready, or at a moment."""

    def __init__(self, rank, step, moment=None):
        self.rank, self.step = rank, step if moment else step - 1
        for one in (moment,) if moment else ("begin", "every_step"):
            setattr(self, one, self.act)

    def act(self, run_context):
        parameters = run_context.original_args()
        if (parameters.rank, parameters.cur_step_num) == (self.rank, self.step):
            run_context.request_preemption()


class Moments(Callback):
    """Notes what it is told when."""

    def __init__(self):
        self.told = []
        for moment in ("step_end", "epoch_end", "end", "preempted", "broken_off"):
            setattr(self, moment, lambda run_context, moment=moment: self.note(moment, run_context))

    def note(self, moment, run_context):
        self.told.append((moment, run_context.original_args().cur_step_num))


def life(folder, *callbacks, every=1000, make=make_model, data=rows, config=None, **options):
    """Train 12 steps from where the newest checkpoint stands; return exit code, losses, last step, and who is told."""
    model, losses, moments, code = make(), Losses(), Moments(), 0
    model.resume(folder, data())
    saver = ModelCheckpoint("net", folder, config or CheckpointConfig(every, keep_checkpoint_max=99))
    try:
        model.train(3, data(), [losses, saver, moments, *callbacks], **options)
    except Preempted as end:
        code = end.code
    return code, losses.by_step, model.step, moments.told, model.predict_network.weight.asnumpy().copy()


def steps_in(folder):
    return [entry.manifest.training["step"] for entry in catalogue(folder)]


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize(("rank", "step"), [(0, 1), (2, 4), (1, 7), (2, 11)])
def test_one_rank_is_told_and_all_save_that_step_and_go_on_from_it(tmp_path, manner, rank, step) -> None:
    settings = MANNERS[manner]
    wanted = run_world(RANKS, lambda _: life(tmp_path / "left alone", **settings))
    ended = run_world(RANKS, lambda _: life(tmp_path / "told", PreemptAt(rank, step), **settings))
    assert [(code, last) for code, _, last, *_ in ended] == [(85, step)] * RANKS
    assert steps_in(tmp_path / "told") == [step]
    assert all(told[-2:] == [("step_end", step), ("preempted", step)] for *_, told, _ in ended)
    again = run_world(RANKS, lambda _: life(tmp_path / "told", **settings))
    for before, after, whole in zip(ended, again, wanted, strict=True):
        assert (after[0], after[2]) == (0, STEPS)
        np.testing.assert_array_equal(after[4], whole[4])
        if manner == "step by step":
            assert before[1] | after[1] == whole[1]


def test_ranks_with_batches_of_their_own_end_at_one_step_too(tmp_path) -> None:
    def job(_, *callbacks):
        make = lambda: make_model(settings=DATA_PARALLEL)  # noqa: E731
        return life(tmp_path, *callbacks, make=make, data=shard_rows, dataset_sink_mode=False)

    assert [end[::2][:2] for end in run_world(RANKS, lambda _: job(_, PreemptAt(1, 5)))] == [(85, 5)] * RANKS
    assert [end[::2][:2] for end in run_world(RANKS, job)] == [(0, STEPS)] * RANKS


@pytest.mark.parametrize(
    ("moment", "step", "last"),
    [("begin", 0, 1), ("step_begin", 5, 5), ("every_step", 5, 6), ("step_end", 5, 6), ("epoch_end", 4, 5)],
)
def test_the_notice_may_come_at_any_moment(tmp_path, moment, step, last) -> None:
    ended = run_world(2, lambda _: life(tmp_path, PreemptAt(1, step, moment), dataset_sink_mode=False))
    assert [(code, reached) for code, _, reached, *_ in ended] == [(85, last)] * 2
    assert steps_in(tmp_path) == [last]


@pytest.mark.parametrize("writing", ["at once", "by a thread"])
def test_what_is_saved_already_is_not_saved_again(tmp_path, writing) -> None:
    config = CheckpointConfig(2, keep_checkpoint_max=99, async_save=writing == "by a thread")
    ended = run_world(2, lambda _: life(tmp_path, PreemptAt(0, 6), config=config, dataset_sink_mode=False))
    assert [end[0] for end in ended] == [85, 85]
    assert steps_in(tmp_path) == [2, 4, 6]


@pytest.mark.parametrize("manner", MANNERS)
def test_a_training_that_is_complete_with_that_step_ends_well(tmp_path, manner) -> None:
    ended = run_world(2, lambda _: life(tmp_path, PreemptAt(1, STEPS), **MANNERS[manner]))
    assert [end[0] for end in ended] == [0, 0]
    assert steps_in(tmp_path) == [STEPS]


def test_one_that_a_callback_stops_anyway_ends_well_and_with_that_step_although_more_are_sunk(tmp_path) -> None:
    class Stop(Callback):
        def every_step(self, run_context):
            if run_context.original_args().cur_step_num == 6:
                run_context.request_stop()

    ended = run_world(2, lambda _: life(tmp_path, Stop(), PreemptAt(1, 6)))
    assert [(end[0], end[2]) for end in ended] == [(0, 6)] * 2
    assert ended[0][3][-2:] == [("epoch_end", 6), ("end", 6)]


def test_without_a_checkpoint_it_is_said_that_nothing_is_saved_and_the_signal_is_the_exit_code(capsys) -> None:
    def job(_):
        model = make_model()
        with pytest.raises(SystemExit) as end:
            model.train(3, rows(), PreemptAt(1, 5))
        return end.value.code

    assert run_world(2, job) == [128 + signal.SIGUSR1] * 2
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Model.train:")]
    assert told == [
        "Model.train: preempted by SIGUSR1 after step 5, and nothing is saved: give Model.train a ModelCheckpoint; "
        "exit code 138"
    ]


def test_a_callback_that_saves_by_its_own_means_says_so_and_counts() -> None:
    class Saver(Callback):
        def preempted(self, run_context):
            parameters = run_context.original_args()
            if parameters.rank == 0:
                run_context.report_saved(parameters.cur_step_num, "my own file")

    def job(_):
        with pytest.raises(Preempted) as end:
            make_model().train(3, rows(), [PreemptAt(1, 5), Saver()])
        return end.value.code, str(end.value)

    ended = run_world(2, job)
    assert [code for code, _ in ended] == [85, 85]
    assert "step 5 is saved in my own file" in ended[0][1]
    assert "step 5 is saved in files of another rank" in ended[1][1]


def fill_up(folder):
    """Let nothing be saved any more."""
    for rank in range(2):
        path = folder / f"rank_{rank}"
        path.rename(folder / f"moved_{rank}")
        path.write_text("no folder")


def test_a_save_that_fails_is_an_error_but_where_failures_are_suffered_the_last_one_stands(tmp_path, capsys) -> None:
    def job(communicator, folder, on_error):
        def spoil():
            communicator.barrier()
            if communicator.rank == 0:
                fill_up(folder)
            communicator.barrier()

        config = CheckpointConfig(4, on_error=on_error)
        callbacks = PreemptAt(1, 6), At(5, spoil)
        return life(folder, *callbacks, config=config, dataset_sink_mode=False)[0]

    with pytest.raises(CheckpointError, match="rank_0"):
        run_world(2, job, tmp_path / "raise", "raise")
    assert run_world(2, job, tmp_path / "warn", "warn") == [85, 85]
    assert "preempted by SIGUSR1 after step 6, which could not be saved: step 4 is saved" in capsys.readouterr().out


def test_ranks_that_wait_end_as_those_do_that_train(tmp_path) -> None:
    def job(communicator):
        model = make_model()
        model.reshard(ranks=2)
        saver = ModelCheckpoint("net", tmp_path, CheckpointConfig(100))
        with pytest.raises(Preempted) as end:
            model.train(3, rows(), [saver, PreemptAt(1, 5)])
        return end.value.code, model.active

    assert run_world(4, job) == [(85, True), (85, True), (85, False), (85, False)]
    assert steps_in(tmp_path) == [5]


@pytest.mark.parametrize("moment", ["every_step", "step_end"])
def test_a_training_that_moves_at_that_very_step_ends_on_the_ranks_that_it_has_then(tmp_path, moment) -> None:
    def job(communicator):
        model = make_model()
        saver = ModelCheckpoint("net", tmp_path, CheckpointConfig(100))
        callbacks = [saver, PreemptAt(1, 5), At(5, lambda: model.reshard(ranks=[2, 1]), moment)]
        with pytest.raises(Preempted) as end:
            model.train(3, rows(), callbacks, dataset_sink_mode=False)
        return end.value.code, model.active

    assert run_world(3, job) == [(85, False), (85, True), (85, True)]
    assert steps_in(tmp_path) == [5]


@pytest.mark.parametrize("moment", ["every_step", "step_end"])
def test_a_rank_that_is_told_and_then_trains_no_longer_has_passed_it_on(tmp_path, moment) -> None:
    def job(communicator):
        model = make_model()
        saver = ModelCheckpoint("net", tmp_path, CheckpointConfig(100))
        callbacks = [saver, PreemptAt(0, 5, moment), At(5, lambda: model.reshard(ranks=[2, 1]), moment)]
        with pytest.raises(Preempted) as end:
            model.train(3, rows(), callbacks, dataset_sink_mode=False)
        return end.value.code, model.active

    assert run_world(3, job) == [(85, False), (85, True), (85, True)]
    assert steps_in(tmp_path) == [5 if moment == "every_step" else 6]


PROGRAM = """
import os, signal, sys, threading
import numpy as np
{before}
from mpiparallel import Model, nn
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import Callback, ModelCheckpoint

class Kill(Callback):
    def step_begin(self, run_context):
        if run_context.original_args().cur_step_num == 2:
            os.kill(os.getpid(), signal.{name})

data = NumpySlicesDataset((np.ones((12, 3)), np.ones((12, 1))), ["x", "y"]).batch(3)
network = nn.Dense(3, 1).to_float("float64")
model = Model(network, nn.MSELoss(), nn.Adam(network.trainable_params()))
try:
    model.train(2, data, [ModelCheckpoint("net", "saved"), Kill()], dataset_sink_mode=False)
finally:
    print("finally", model.step)
print("done", model.step)
"""


def ended(tmp_path, name, before="", **variables):
    program = PROGRAM.format(name=name, before=before)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    done = patience.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize(
    ("name", "named"), [("SIGUSR1", ""), ("SIGUSR2", "USR2"), ("SIGTERM", "usr1,SIGTERM"), ("SIGINT", "INT")]
)
def test_a_process_that_is_sent_the_signal_saves_leaves_in_order_and_has_the_exit_code(tmp_path, name, named) -> None:
    code, lines, errors = ended(tmp_path, name, MPIPARALLEL_PREEMPTION_SIGNAL=named)
    assert (code, errors) == (85, "")
    assert lines[0].startswith(f"Model.train: preempted by {name}: step 2 is saved in saved/net-1_2.manifest.json")
    assert lines[1:] == ["finally 2"]
    assert steps_in(tmp_path / "saved") == [1, 2]


def test_where_it_is_off_the_signal_does_what_it_always_does(tmp_path) -> None:
    assert ended(tmp_path, "SIGUSR1", MPIPARALLEL_PREEMPTION_SIGNAL="off")[0] == -signal.SIGUSR1


def test_a_signal_that_is_named_wrongly_is_refused_with_the_mend(tmp_path) -> None:
    code, _, errors = ended(tmp_path, "SIGUSR1", MPIPARALLEL_PREEMPTION_SIGNAL="SIGKILL")
    assert code == 1
    assert "MPIPARALLEL_PREEMPTION_SIGNAL: 'SIGKILL' is not one of HUP, INT" in errors


def test_a_handler_of_the_programs_own_is_called_too(tmp_path) -> None:
    own = "signal.signal(signal.SIGUSR1, lambda *_: print('my own'))"
    code, lines, _ = ended(tmp_path, "SIGUSR1", own)
    assert (code, lines[0]) == (85, "my own")


def test_a_signal_after_the_end_changes_nothing(tmp_path) -> None:
    late = "import atexit, mpiparallel.communication as late\n"
    late += "atexit.register(os.kill, os.getpid(), signal.SIGUSR1)\nlate.init()"
    code, lines, errors = ended(tmp_path, "SIGCONT", late)
    assert (code, lines[-1], errors) == (0, "done 8", "")


def test_python_s_own_handler_of_an_interrupt_is_not_called() -> None:
    handler = PreemptionHandler(signal.SIGINT, signal.default_int_handler)
    handler(signal.SIGINT, None)
    assert handler.has_come


def test_one_that_saves_nothing_is_told_to_go_on_from_what_it_was_resumed_from(tmp_path) -> None:
    run_world(1, lambda _: life(tmp_path, PreemptAt(0, 4, "every_step"), dataset_sink_mode=False))

    def again(_):
        model = make_model()
        model.resume(tmp_path, rows())
        with pytest.raises(Preempted) as end:
            model.train(3, rows(), PreemptAt(0, 6, "every_step"), dataset_sink_mode=False)
        return end.value.code, end.value.why

    ((code, why),) = run_world(1, again)
    assert code == 85
    assert f" after step 6, which could not be saved: step 4 is saved in {tmp_path}; exit code 85: start the job" in why


def test_the_last_step_of_a_training_that_is_preempted_is_shown() -> None:
    stream = io.StringIO()

    def on_rank(_):
        callbacks = [ProgressMonitor(3600.0, stream), PreemptAt(0, 2, "every_step")]
        with pytest.raises(Preempted):
            make_model().train(3, rows(), callbacks, dataset_sink_mode=False)

    run_world(1, on_rank)
    assert [line.split("  ")[0] for line in stream.getvalue().splitlines()] == ["epoch 1/3 step 2/4"]
