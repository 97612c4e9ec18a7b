"""One step of training: what gradients are multiplied by, what is done about numbers that are not finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Parameter, Tensor, nn, ops
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.wrap.own_training import OwnTraining
from mpiparallel.nn.wrap.train_one_step import DistributedGradReducer


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    ms.reset_auto_parallel_context()


REDUCED: list[tuple[str, bool, bool | None, float, list[float]]] = [
    ("stand_alone", True, None, 1.0, [8.0, 8.0]),
    ("semi_auto_parallel", True, None, 1.0, [8.0, 8.0]),
    ("data_parallel", False, None, 1.0, [8.0, 8.0]),
    ("data_parallel", True, None, 1.0, [2.0, 8.0]),
    ("hybrid_parallel", True, None, 1.0, [2.0, 8.0]),
    ("data_parallel", True, False, 1.0, [8.0, 8.0]),
    ("data_parallel", False, True, 1.0, [2.0, 8.0]),
    ("data_parallel", True, None, 0.5, [1.0, 4.0]),
    ("semi_auto_parallel", True, True, 0.5, [4.0, 4.0]),
]


@pytest.mark.parametrize(("mode", "gradients_mean", "mean", "share", "wanted"), REDUCED)
def test_gradients_are_means_over_ranks_with_batches_of_their_own_where_that_is_asked_for(
    mode: str, gradients_mean: bool, mean: bool | None, share: float, wanted: list[float]
) -> None:
    ms.set_auto_parallel_context(parallel_mode=mode, device_num=4, gradients_mean=gradients_mean)
    weights = [Parameter(np.ones(1), "a"), Parameter(np.ones(1), "own", layerwise_parallel=True)]
    reduced = DistributedGradReducer(weights, mean)([Tensor([8.0])] * 2, share)
    assert [one.item() for one in reduced] == wanted


class Line(nn.Cell):
    """The loss is the sum of the input times the weight, whose gradient is so the input itself."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(np.zeros(2, np.float32), "weight")
        self.other = Parameter(np.zeros(2, np.float32), "other")

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.weight * x).sum() + (self.other * y).sum() + 3.0


def made(**options: Any) -> nn.TrainOneStepCell:
    network = Line()
    scale = options.pop("loss_scale", 1.0)
    optimizer = nn.SGD(network.trainable_params(), 1.0, loss_scale=scale)
    return nn.TrainOneStepCell(network, optimizer, **options).set_train()


def weights(step: Any) -> list[list[float]]:
    return [one.asnumpy().tolist() for one in step.weights]


X, Y = Tensor(np.array([1.0, 2.0], np.float32)), Tensor(np.array([4.0, 8.0], np.float32))


@pytest.mark.parametrize(
    ("options", "factor"),
    [
        ({}, 1.0),
        ({"sens": 4.0}, 4.0),
        ({"sens": 4.0, "loss_scale": 4.0}, 1.0),
        ({"loss_scale": 4.0}, 0.25),
        ({"sens": 0.0}, 0.0),
    ],
)
def test_a_loss_is_returned_as_it_is_and_differentiated_times_its_scale(
    options: dict[str, float], factor: float
) -> None:
    step = made(**options)
    assert step(X, Y).item() == 3.0
    assert weights(step) == [[-factor, -2 * factor], [-4 * factor, -8 * factor]]
    assert step.optimizer.step == 1


def test_several_batches_make_one_step_along_the_mean_of_their_gradients() -> None:
    step = made(accumulation_steps=2)
    assert step.batches_a_step == 2
    step(X, Y)
    assert weights(step) == [[0.0, 0.0], [0.0, 0.0]]
    step(Y, Y)
    assert weights(step) == [[-2.5, -5.0], [-4.0, -8.0]]
    assert step.optimizer.step == 1


def test_as_many_batches_a_step_as_the_context_asks_for_are_those_of_the_cell() -> None:
    step = made(accumulation_steps=3)
    for wanted in (1, 3):
        step.check_accumulation(wanted)
    said = (
        "^Model: grad_accumulation_step 2 does not change a TrainOneStepCell, which was made for 3 a step; give "
        r"Model\(network, loss_fn, optimizer\), which adds up gradients itself$"
    )
    with pytest.raises(ConfigurationError, match=said):
        step.check_accumulation(2)


def test_a_step_may_do_more_to_gradients_than_to_reduce_them() -> None:
    class Halved(nn.TrainOneStepCell):
        def prepared(self, gradients: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(one * 0.5 for one in gradients)

    network = Line()
    step = Halved(network, nn.SGD(network.trainable_params(), 1.0))
    step(X, Y)
    assert weights(step) == [[-0.5, -1.0], [-2.0, -4.0]]


BAD = Tensor(np.array([np.inf, 1.0], np.float32))


@pytest.mark.parametrize("accumulation_steps", [1, 2])
def test_an_unsound_step_is_left_out_where_that_is_asked_for_and_says_whose_gradients_were_unsound(
    accumulation_steps: int,
) -> None:
    step = made(accumulation_steps=accumulation_steps)
    check = step.check_finite(skip=True)
    assert step.check_finite(skip=False) is check
    assert (step.skips_unsound, check.judges, check.was_sound) == (True, False, True)
    for _ in range(accumulation_steps):
        step(X, BAD)
    assert weights(step) == [[0.0, 0.0], [0.0, 0.0]]
    assert (check.judges, check.was_sound, check.culprits()) == (True, False, ["other"])
    # Nothing times infinity is no number, and so is the loss.
    assert not check.loss_was_finite
    assert step.optimizer.step == 0
    for _ in range(accumulation_steps):
        step(X, Y)
    assert weights(step) == [[-1.0, -2.0], [-4.0, -8.0]]
    assert (check.was_sound, check.loss_was_finite, check.culprits()) == (True, True, [])


@pytest.mark.parametrize("skip", [True, False])
def test_moving_averages_of_an_unsound_step_are_left_out_with_it(skip: bool) -> None:
    norm = nn.BatchNorm1d(2, momentum=0.5)
    step = nn.TrainOneStepCell(nn.WithLossCell(norm, nn.MSELoss()), nn.SGD(norm.trainable_params(), 0.0)).set_train()
    step.check_finite(skip=skip)
    x = np.array([[1.0, 3.0], [3.0, 5.0]], np.float32)
    step(Tensor(x), Tensor(np.full((2, 2), np.inf, np.float32)))
    assert norm.moving_mean.asnumpy().tolist() == ([0.0, 0.0] if skip else [1.0, 2.0])
    step(Tensor(x), Tensor(x))
    # Half of what was there and half of the mean of the batch, which is 2 and 4.
    assert norm.moving_mean.asnumpy().tolist() == ([1.0, 2.0] if skip else [1.5, 3.0])


def test_an_unsound_step_is_made_and_told_where_it_is_only_looked_for() -> None:
    step = made()
    check = step.check_finite(skip=False)
    step(BAD, Y)
    assert weights(step) == [[-np.inf, -1.0], [-4.0, -8.0]]
    assert (check.was_sound, check.culprits(), step.optimizer.step) == (False, ["weight"], 1)
    step.check_as_made()
    assert (step.finite_check, step.skips_unsound, step.seeks_scale) == (None, False, False)


def test_ranks_agree_that_a_step_of_one_of_them_was_unsound() -> None:
    def trained(communicator: Communicator) -> tuple[Any, ...]:
        ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        step = made()
        check = step.check_finite(skip=True)
        found = []
        for unsound in (1, None):
            step(X, BAD if communicator.rank == unsound else Y)
            found.append((check.was_sound, check.loss_was_finite, check.culprits(), weights(step)))
        return tuple(found)

    first = (False, False, ["other"], [[0.0, 0.0], [0.0, 0.0]])
    assert run_world(2, trained) == [(first, (True, True, [], [[-1.0, -2.0], [-4.0, -8.0]]))] * 2


def test_a_step_takes_its_masks_from_the_place_that_is_said() -> None:
    class Dropping(Line):
        def construct(self, x: Tensor) -> Tensor:
            return (ops.dropout(x, 0.5) + 0.0 * (self.weight.sum() + self.other.sum())).sum()

    network = Dropping()
    step = nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.0)).set_train()
    data = Tensor(np.arange(64, dtype=np.float32))
    losses = [step.run(place, [data]).item() for place in (0, 1, 0, 5)]
    assert losses[0] == losses[2]
    assert len(set(losses)) == 3
    assert [step(data).item() for _ in range(2)] == [step.run(place, [data]).item() for place in (4, 5)]


class OneStep(nn.Cell):
    """A network that makes the update itself."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(np.ones(1, np.float32), "weight")
        self.optimizer = nn.SGD([self.weight], 0.5)

    def construct(self, x: Tensor) -> Tensor:
        loss = (self.weight * x).sum()
        self.optimizer([x])
        return loss


def test_a_network_that_trains_itself_is_left_to_do_so() -> None:
    network = OneStep()
    step = OwnTraining(network)
    # Of several the first counts the steps.
    network.later = nn.SGD([Parameter(np.ones(1), "other")], 0.5)
    assert OwnTraining(network).optimizer is step.optimizer is network.optimizer
    assert step(Tensor(np.array([4.0], np.float32))).item() == 4.0
    assert network.weight.item() == -1.0


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: made(return_grad=True), "TrainOneStepCell: return_grad=True is not supported"),
    (lambda: made(accumulation_steps=0), "accumulation_steps 0 must be an integer of at least 1"),
    (lambda: OwnTraining(Line()), "Model: training needs an optimizer; give Model"),
    (lambda: OwnTraining(OneStep(), 2), "Model: grad_accumulation_step 2 needs an optimizer; give Model"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_is_not_offered_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make()


@pytest.mark.parametrize(("cast", "wanted"), [(False, np.float16), (True, np.float32)])
def test_outputs_and_labels_of_floats_are_widened_for_metrics_where_that_is_asked_for(cast: bool, wanted: Any) -> None:
    class Difference(nn.Cell):
        def construct(self, outputs: Tensor, label: Tensor) -> Tensor:
            return (outputs - label).sum()

    cell = nn.WithEvalCell(nn.ReLU(), Difference(), cast)
    x = Tensor(np.array([1.0, -2.0], np.float16))
    loss, outputs, label = cell(x, x)
    assert {one.dtype for one in (loss, outputs, label)} == {np.dtype(wanted)}
    assert (loss.item(), outputs.tolist(), label.tolist()) == (2.0, [1.0, 0.0], [1.0, -2.0])
    assert cell(x, Tensor(np.array([1, 0], np.int32)))[2].dtype == np.int32
