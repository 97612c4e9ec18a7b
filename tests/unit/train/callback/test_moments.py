"""In which order callbacks are told of the moments of a training, and what they find there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Model, nn
from mpiparallel.context import set_auto_parallel_context
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import Callback
from mpiparallel.train.callback.moment import Moment

TOLD = ("begin", "epoch_begin", "step_begin", "every_step", "step_end", "epoch_end", "end", "broken_off")


class Told(Callback):
    """Notes each moment with the steps and the epoch then, and may act at one of them."""

    def __init__(self, act: Any = None, at: tuple[str, int] | None = None) -> None:
        self.seen: list[Any] = []
        self._act, self._at = act, at
        for moment in TOLD:
            setattr(self, moment, self._noting(moment))

    def _noting(self, moment: str) -> Any:
        def note(run_context: Any) -> None:
            parameters = run_context.original_args()
            self.seen.append((moment, parameters.cur_step_num, parameters.cur_epoch_num))
            if (moment, parameters.cur_step_num) == self._at:
                self._act(run_context)

        return note


def data(batches: int = 2) -> NumpySlicesDataset:
    x = np.arange(2.0 * batches, dtype=np.float32).reshape(-1, 1) / 10
    return NumpySlicesDataset((x, 2 * x), ["x", "y"], shuffle=False).batch(2)


def model(**options: Any) -> Model:
    network = nn.Dense(1, 1, weight_init="zeros")
    return Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1), **options)


def epoch(number: int, *steps: tuple[str, int]) -> list[Any]:
    return [(moment, step, number) for moment, step in steps]


def test_each_step_that_is_not_sunk_begins_and_ends_by_itself() -> None:
    told = Told()
    model().train(2, data(), told, dataset_sink_mode=False)
    one = [("epoch_begin", 0), ("step_begin", 1), ("every_step", 1), ("step_end", 1)]
    one += [("step_begin", 2), ("every_step", 2), ("step_end", 2), ("epoch_end", 2)]
    two = [("epoch_begin", 2), ("step_begin", 3), ("every_step", 3), ("step_end", 3)]
    two += [("step_begin", 4), ("every_step", 4), ("step_end", 4), ("epoch_end", 4)]
    assert told.seen == [("begin", 0, 1), *epoch(1, *one), *epoch(2, *two), ("end", 4, 2)]


@pytest.mark.parametrize(("size", "ends"), [(-1, [3]), (1, [1, 2, 3]), (2, [2, 3]), (3, [3]), (9, [3])])
def test_sunk_steps_begin_and_end_together_and_never_beyond_their_epoch(size: int, ends: list[int]) -> None:
    told = Told()
    model().train(2, data(3), told, sink_size=size)
    found = [(moment, step) for moment, step, _ in told.seen if moment in ("step_end", "epoch_end")]
    assert found == [
        one for done in (0, 3) for one in [*(("step_end", done + end) for end in ends), ("epoch_end", done + 3)]
    ]
    assert [step for moment, step, _ in told.seen if moment == "every_step"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("moment", ["every_step", "step_end", "epoch_end"])
def test_a_stop_ends_the_epoch_and_the_training_as_if_they_were_over(moment: str) -> None:
    step = 3 if moment != "epoch_end" else 4
    told = Told(lambda run_context: run_context.request_stop(), (moment, step))
    trained = model()
    trained.train(5, data(), told, dataset_sink_mode=False)
    assert told.seen[-2:] == [("epoch_end", step, 2), ("end", step, 2)]
    assert trained.step == step


def test_a_stop_before_the_first_step_is_heeded_after_it() -> None:
    told = Told(lambda run_context: run_context.request_stop(), ("begin", 0))
    trained = model()
    trained.train(5, data(), told, dataset_sink_mode=False)
    assert (trained.step, told.seen[-1]) == (1, ("end", 1, 1))


def test_an_error_ends_a_training_without_an_end_and_is_told() -> None:
    def fail(run_context: Any) -> None:
        raise ZeroDivisionError

    told, other = Told(fail, ("step_end", 2)), Told()
    with pytest.raises(ZeroDivisionError):
        model().train(2, data(), [told, other], dataset_sink_mode=False)
    assert told.seen[-2:] == [("step_end", 2, 1), ("broken_off", 2, 1)]
    assert other.seen[-2:] == [("every_step", 2, 1), ("broken_off", 2, 1)]


def test_callbacks_are_told_of_a_moment_in_their_order_and_by_both_names() -> None:
    said: list[str] = []

    class Says(Callback):
        def __init__(self, name: str) -> None:
            self.name = name

        def begin(self, run_context: Any) -> None:
            said.append(self.name)

        def on_train_begin(self, run_context: Any) -> None:
            said.append(f"{self.name} too")

    model().train(1, data(), [Says("first"), Says("second")])
    assert said == ["first", "first too", "second", "second too"]


def test_a_callback_finds_what_is_trained_and_by_which_numbers() -> None:
    found: list[Any] = []

    class Look(Callback):
        def step_end(self, run_context: Any) -> None:
            found.append(run_context.original_args())

    trained, look, other = model(accumulation_steps=2), Look(), Callback()
    trained.train(4, data(4), [other, look], dataset_sink_mode=False, initial_epoch=1)
    parameters = found[0]
    assert parameters.network is trained.predict_network
    assert parameters.train_network is trained.train_network
    assert parameters.optimizer is trained.train_network.optimizer
    assert parameters.list_callback == (other, look)
    assert (parameters.epoch_num, parameters.initial_epoch, parameters.resumed) == (3, 1, None)
    # Two batches of two rows are a step, and two steps an epoch.
    assert (parameters.batch_num, parameters.batch_size, parameters.pieces) == (2, 4, 1)
    assert (parameters.parallel_mode, parameters.device_number, parameters.rank) == ("stand_alone", 1, 0)
    assert (parameters.cur_step_num, parameters.cur_epoch_num, trained.step) == (8, 4, 8)
    inputs = [batch[0] for batch in parameters.cur_batches]
    np.testing.assert_allclose(inputs, [[[0.4], [0.5]], [[0.6], [0.7]]], rtol=1e-6)
    assert not parameters.joins
    assert len(found) == 6


def test_batches_that_are_too_few_for_a_step_are_left_out_of_each_epoch() -> None:
    told = Told()
    trained = model(accumulation_steps=2)
    trained.train(2, data(5), told)
    assert trained.step == 4
    assert [step for moment, step, _ in told.seen if moment == "epoch_end"] == [2, 4]


def test_moments_are_ordered_as_a_training_comes_to_them_after_a_step() -> None:
    order = ["begin", "every_step", "step_end", "epoch_end", "epoch_begin", "step_begin", "preempted", "end"]
    assert sorted(order, key=lambda name: Moment(name).order) == order
    assert [Moment(name).order for name in order] == list(range(8))


def test_a_training_of_ranks_says_its_mode_in_which_it_is() -> None:
    found: list[str] = []

    class Look(Callback):
        def begin(self, run_context: Any) -> None:
            found.append(run_context.original_args().parallel_mode)

    set_auto_parallel_context(parallel_mode="data_parallel")
    model().train(1, data(), Look())
    assert found == ["data_parallel"]


@pytest.mark.parametrize(
    ("before", "given", "steps", "epochs"),
    [
        (0, {"epoch": 2}, [1, 2, 3, 4], [1, 2]),
        (1, {"epoch": 2}, [2, 3, 4], [1, 2]),
        (2, {"epoch": 2}, [3, 4], [2]),
        (3, {"epoch": 2}, [4], [2]),
        (4, {"epoch": 2}, [], []),
        (5, {"epoch": 2}, [], []),
        (0, {"epoch": 3, "initial_epoch": 2}, [5, 6], [3]),
        (3, {"epoch": 3, "initial_epoch": 1}, [4, 5, 6], [2, 3]),
        (1, {"epoch": 3, "initial_epoch": 1}, [3, 4, 5, 6], [2, 3]),
    ],
)
def test_a_training_goes_on_from_the_step_that_is_set_with_the_batches_of_that_step(
    before: int, given: dict[str, int], steps: list[int], epochs: list[int]
) -> None:
    seen: list[tuple[int, float]] = []

    class Look(Callback):
        def step_end(self, run_context: Any) -> None:
            parameters = run_context.original_args()
            seen.append((parameters.cur_step_num, float(parameters.cur_batches[0][0][0, 0])))

    told, trained = Told(), model()
    trained.step = before
    trained.train(train_dataset=data(), callbacks=[told, Look()], dataset_sink_mode=False, **given)
    assert [step for step, _ in seen] == steps
    # The first batch of an epoch begins with 0, the second with 0.2.
    np.testing.assert_allclose([first for _, first in seen], [0.2 * ((step - 1) % 2) for step in steps], rtol=1e-6)
    assert [number for moment, _, number in told.seen if moment == "epoch_end"] == epochs
    assert trained.step == max([before, *steps])


def test_a_call_after_one_that_has_ended_numbers_its_epochs_on_and_says_how_many_follow() -> None:
    counts: list[tuple[int, int]] = []

    class Look(Callback):
        def end(self, run_context: Any) -> None:
            parameters = run_context.original_args()
            counts.append((parameters.epoch_num, parameters.cur_epoch_num))

    trained = model()
    for epochs in (1, 2, 1):
        trained.train(epochs, data(), Look())
    assert trained.step == 8
    assert [last for _, last in counts] == [1, 3, 4]
