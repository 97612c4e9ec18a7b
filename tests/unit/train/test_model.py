"""Model and callbacks: training, resuming, evaluation, prediction, and the lines that people see."""

from __future__ import annotations

import io
import re
from itertools import count, pairwise

import numpy as np
import pytest

import mpiparallel.ops as ops
from mpiparallel import Model, Parameter, Tensor, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, DatasetError, LayoutError, NonFiniteError
from mpiparallel.graph.execution.program import Profile
from mpiparallel.train import Callback, LossGuard, LossMonitor, ProgressMonitor, TimeMonitor
from mpiparallel.train.callback.callback import CallbackParameters
from mpiparallel.train.callback.progress import describe_progress


def line_data(count=24):
    x = np.random.default_rng(2).uniform(-1, 1, (count, 3)).astype(np.float32)
    return x, x @ np.array([[1.0], [-2.0], [0.5]], np.float32)


def line_dataset(batch=4, count=24):
    return NumpySlicesDataset(line_data(count), ["x", "y"], shuffle=True).batch(batch, drop_remainder=True)


def line_model(rate=0.3, dropout=None):
    layers = [nn.Dense(3, 1, weight_init="zeros")]
    if dropout:
        layers.insert(0, nn.Dropout(dropout))
    network = nn.SequentialCell(layers)
    return Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), rate, 0.5))


def weights(model):
    return {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}


def test_training_finds_the_line_and_predict_follows_it() -> None:
    model = line_model()
    model.train(20, line_dataset(), dataset_sink_mode=False)
    x, y = line_data()
    np.testing.assert_allclose(model.predict(Tensor(x)).asnumpy(), y, atol=1e-3)
    assert model.eval(line_dataset())["loss"] < 1e-5
    assert model.step == 20 * 6


def test_loss_lines_are_those_of_the_tutorials(capsys) -> None:
    line_model().train(2, line_dataset(), [LossMonitor(3), TimeMonitor()], dataset_sink_mode=False)
    lines = capsys.readouterr().out.splitlines()
    patterns = [
        r"epoch: 1 step: 3, loss is \d\.\d+",
        r"epoch: 1 step: 6, loss is",
        r"epoch time: [\d.]+ ms, per step time: ",
    ]
    assert len(lines) == 6
    for line, pattern in zip(lines, patterns, strict=False):
        assert re.match(pattern, line), line


def test_epoch_is_the_last_one_where_a_training_starts_later(capsys) -> None:
    line_model().train(3, line_dataset(), LossMonitor(), initial_epoch=1)
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "epoch: 2 step: 6",
        "epoch: 3 step: 6",
    ]
    for wrong in (3, -1, True, "1"):
        with pytest.raises(ConfigurationError, match=r"initial_epoch .* must be an integer from 0 and below epoch 3"):
            line_model().train(3, line_dataset(), initial_epoch=wrong)


@pytest.mark.parametrize("data_size", [None, 1, 600])
def test_the_time_of_a_step_is_that_of_an_epoch_by_its_steps(data_size, capsys) -> None:
    line_model().train(1, line_dataset(), TimeMonitor(data_size), dataset_sink_mode=False)
    epoch, step = map(float, re.findall(r"[\d.]+", capsys.readouterr().out))
    assert step == pytest.approx(epoch / 6, abs=1e-3)


@pytest.mark.parametrize("data_size", [0, -1, True, 1.0, "1"])
def test_a_time_monitor_of_no_number_of_steps_is_refused(data_size) -> None:
    with pytest.raises(ConfigurationError, match="TimeMonitor: data_size"):
        TimeMonitor(data_size)


def test_in_sink_mode_a_line_comes_each_epoch(capsys) -> None:
    line_model().train(3, line_dataset(), LossMonitor())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"epoch: {epoch} step: 6" for epoch in (1, 2, 3)]


def test_a_loss_that_is_no_number_ends_a_training_that_has_no_guard(capsys) -> None:
    x, y = line_data()
    x[0] = np.nan
    data = NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(8, drop_remainder=True)
    for sunk in (False, True):
        with pytest.raises(NonFiniteError, match=r"^epoch: 1 step: \d: the loss is nan, .* LossGuard\(\)"):
            line_model().train(2, data, [LossMonitor(0)], dataset_sink_mode=sunk)
    line_model().train(1, data, [LossGuard("skip", stream=io.StringIO()), LossMonitor()])
    assert capsys.readouterr().out.startswith("epoch: 1 step: ")


def test_progress_of_sunk_steps_is_shown_once_each() -> None:
    stream = io.StringIO()
    line_model().train(2, line_dataset(), ProgressMonitor(0.0, stream))
    shown = [line.split("  ")[0] for line in stream.getvalue().splitlines()]
    assert shown == [f"epoch {epoch}/2 step {step}/6" for epoch in (1, 2) for step in range(1, 7)]


@pytest.mark.parametrize(
    ("seconds", "shown"), [(59, "0:00:59"), (60, "0:01:00"), (3599, "0:59:59"), (3600, "1:00:00"), (90061, "25:01:01")]
)
def test_the_time_that_is_left_is_in_hours_minutes_and_seconds(seconds: int, shown: str) -> None:
    parameters = CallbackParameters(epoch_num=1, batch_num=2, cur_step_num=1, net_outputs=1.0)
    parameters.batch_size, parameters.pieces = 1, 1
    assert describe_progress(parameters, float(seconds), 1).endswith(f"  {shown} left")


def test_progress_is_plain_where_there_is_no_terminal_and_rank_0_only() -> None:
    stream = io.StringIO()
    line_model().train(2, line_dataset(), ProgressMonitor(0.0, stream), dataset_sink_mode=False)
    lines = stream.getvalue().splitlines()
    pattern = r"epoch 1/2 step 1/6  loss \d\.\d{4}  [\d.]+ ms/step  \d+ samples/s  \d:\d\d:\d\d left"
    assert re.fullmatch(pattern, lines[0])

    def on_rank(communicator):
        quiet = io.StringIO()
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        line_model().train(1, line_dataset(), ProgressMonitor(0.0, quiet), dataset_sink_mode=False)
        return bool(quiet.getvalue())

    assert run_world(2, on_rank) == [True, False]


class Samples(Callback):
    """Notes how many samples of all ranks a step takes."""

    def begin(self, run_context):
        parameters = run_context.original_args()
        self.a_step = parameters.batch_size * parameters.pieces


@pytest.mark.parametrize(
    ("mode", "full_batch", "times"), [("data_parallel", False, 2), ("semi_auto_parallel", True, 1)]
)
def test_progress_counts_the_samples_of_all_ranks(mode, full_batch, times) -> None:
    def samples(communicator):
        context.set_auto_parallel_context(parallel_mode=mode, full_batch=full_batch)
        noted = Samples()
        line_model().train(1, line_dataset(), noted)
        return noted.a_step

    assert run_world(2, samples) == [times * line_dataset().get_batch_size()] * 2


class Counted(Callback):
    """Notes the number of the step at its moments."""

    def __init__(self):
        self.seen = []

    def begin(self, run_context):
        self.seen.append(run_context.original_args().cur_step_num)

    step_begin = step_end = begin


# As the training loops of MindSpore 2 count: before a step that is not sunk, and after those that are.
@pytest.mark.parametrize(("sinks", "size"), [(False, -1), (True, 2), (True, -1)])
def test_a_callback_is_told_the_number_of_the_step_that_begins_or_the_last_of_those_that_are_sunk(sinks, size) -> None:
    counted, steps = Counted(), line_dataset().get_dataset_size()
    line_model().train(1, line_dataset(), counted, dataset_sink_mode=sinks, sink_size=size)
    one_by_one = [0, *(step for step in range(1, steps + 1) for _ in range(2))]
    ends = [*range(0, steps, steps if size == -1 else size), steps]
    together = [0, *(step for pair in pairwise(ends) for step in pair)]
    assert counted.seen == (together if sinks else one_by_one)


class StopAt(Callback):
    def __init__(self, step):
        self.step = step

    def step_end(self, run_context):
        if run_context.original_args().cur_step_num == self.step:
            run_context.request_stop()


def test_a_training_stopped_in_an_epoch_goes_on_as_if_it_had_not() -> None:
    whole = line_model(dropout=0.7)
    whole.train(3, line_dataset(), dataset_sink_mode=False)
    parts = line_model(dropout=0.7)
    parts.train(3, line_dataset(), StopAt(8), dataset_sink_mode=False)
    assert parts.step == 8
    parts.train(3, line_dataset(), dataset_sink_mode=False)
    for name, value in weights(whole).items():
        np.testing.assert_array_equal(weights(parts)[name], value, err_msg=name)


def test_a_training_called_again_trains_as_many_epochs_more(capsys) -> None:
    whole = line_model(dropout=0.7)
    whole.train(3, line_dataset(), dataset_sink_mode=False)
    parts = line_model(dropout=0.7)
    for _ in range(3):
        parts.train(1, line_dataset(), LossMonitor(6), dataset_sink_mode=False)
    assert re.findall(r"epoch: (\d)", capsys.readouterr().out) == ["1", "2", "3"]
    for name, value in weights(whole).items():
        np.testing.assert_array_equal(weights(parts)[name], value, err_msg=name)


def test_a_training_that_a_reshard_left_with_nothing_to_do_says_so(caplog) -> None:
    model = line_model()
    model.train(2, line_dataset(), dataset_sink_mode=False)
    model.reshard(ranks=1)
    model.train(2, line_dataset(), dataset_sink_mode=False)
    assert model.step == 12
    assert "nothing is left to train, since step 12 ends the last of 2 epochs; ask for more" in caplog.text


def test_another_dataset_after_the_first_is_trained_whole(capsys) -> None:
    model = line_model()
    model.train(1, line_dataset(), dataset_sink_mode=False)
    model.train(2, line_dataset(batch=6), LossMonitor(1), dataset_sink_mode=False)
    lines = re.findall(r"epoch: (\d+) step: (\d)", capsys.readouterr().out)
    assert lines == [(epoch, step) for epoch in "34" for step in "1234"]


@pytest.mark.parametrize(("full_batch", "batch"), [(True, 4), (False, 2)])
def test_feeding_the_whole_batch_or_each_rank_its_piece_trains_the_same(full_batch, batch) -> None:
    alone = line_model()
    alone.train(2, line_dataset(), dataset_sink_mode=False)

    def on_rank(communicator):
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=full_batch)
        x, y = line_data()
        rows = np.concatenate([one["x"] for one in line_dataset().iterate(0)])
        rows = np.concatenate([rows, *(one["x"] for one in line_dataset().iterate(1))])
        found = {tuple(row): target for row, target in zip(x, y, strict=True)}
        targets = np.stack([found[tuple(row)] for row in rows])
        if not full_batch:
            own = (np.arange(len(rows)) % 4) // 2 == communicator.rank
            rows, targets = rows[own], targets[own]
        dataset = NumpySlicesDataset((rows, targets), ["x", "y"], shuffle=False).batch(batch)
        model = line_model()
        model.train(1, dataset, dataset_sink_mode=False)
        return weights(model)

    for found in run_world(2, on_rank):
        for name, value in weights(alone).items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-7, err_msg=name)


def test_wrong_use_is_refused_with_the_mend() -> None:
    model = line_model()
    with pytest.raises(ConfigurationError, match="epoch 0 must be an integer of at least 1"):
        model.train(0, line_dataset())
    with pytest.raises(DatasetError, match="no batch; use a smaller batch_size"):
        model.train(1, line_dataset(batch=100))
    with pytest.raises(ConfigurationError, match="is not a Callback"):
        model.train(1, line_dataset(), callbacks=[print])
    with pytest.raises(ConfigurationError, match="training needs an optimizer"):
        Model(nn.Dense(3, 1)).train(1, line_dataset())


def test_a_network_cut_for_more_devices_than_ranks_says_how_many_to_start() -> None:
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8, full_batch=True)
    try:
        with pytest.raises(ConfigurationError, match="cut for 8 devices, but the world has 1 ranks; start as many"):
            line_model().train(1, line_dataset())
    finally:
        context.reset_auto_parallel_context()


class Scale(nn.Cell):
    def __init__(self, strategy):
        super().__init__()
        self.w = Parameter(np.arange(12.0).reshape(4, 3), "w")
        self.mul = ops.Mul().shard(strategy)

    def construct(self, x):
        return self.mul(x, self.w)


def test_a_network_used_alone_can_be_cut_later_but_not_cut_anew() -> None:
    def on_rank(_communicator):
        cell = Scale(((2, 1), (2, 1)))
        x = Tensor(np.ones((4, 3)))
        whole = cell(x).asnumpy()
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        np.testing.assert_array_equal(cell(x).asnumpy(), whole)
        assert cell.w.asnumpy().shape == (2, 3)
        context.reset_auto_parallel_context()
        with pytest.raises(LayoutError, match=r"'w' is laid out as .* make the network anew"):
            cell(Tensor(np.ones((4, 3), np.float32)))

    run_world(2, on_rank)


@pytest.mark.parametrize("sink_size", [0, -2, True, 1.5])
def test_a_sink_size_that_is_none_is_refused(sink_size) -> None:
    with pytest.raises(ConfigurationError, match=f"Model.train: sink_size {sink_size} must be -1 or at least 1"):
        line_model().train(1, line_dataset(), sink_size=sink_size)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LossMonitor(-1), "LossMonitor: per_print_times -1 must be at least 0"),
        (lambda: TimeMonitor(data_time=1), "TimeMonitor: data_time 1 must be True or False"),
    ],
)
def test_a_monitor_of_wrong_arguments_is_refused(make, message) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_one_line_is_kept_up_to_date_and_ends_as_a_line_that_stays(monkeypatch) -> None:
    status = pytest.importorskip("rich.status")
    told = []

    class Status:
        def __init__(self, words, **options):
            told.append(words)

        def start(self):
            told.append("start")

        def update(self, words):
            told.append(words.split("  ")[0])

        def stop(self):
            told.append("stop")

    monkeypatch.setattr(status, "Status", Status)
    stream = Terminal()
    line_model().train(1, line_dataset(), ProgressMonitor(3600.0, stream), dataset_sink_mode=False)
    assert told == ["compiling", "start", *(f"epoch 1/1 step {step}/6" for step in range(1, 7)), "stop"]
    assert [line.split("  ")[0] for line in stream.getvalue().splitlines()] == ["epoch 1/1 step 6/6"]


def test_a_model_tells_by_what_its_steps_are_timed() -> None:
    model = line_model()
    assert model.profile is None
    # Each look at the clock takes a second: two for each kernel, and one at the begin and the end of a step.
    model.profile = profile = Profile(clock=count().__next__)
    model.train(1, line_dataset(), dataset_sink_mode=False)
    assert model.profile is profile
    assert {seconds for _, seconds in profile.nodes} == {1}
    assert profile.total == profile.steps * (2 * len(profile.nodes) + 1)
    assert sum(profile.operators.values()) == sum(profile.kinds.values()) == profile.steps * len(profile.nodes)
