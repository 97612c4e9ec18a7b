"""Schedules are their formulas, in the program of an optimizer, and go on where a saved training stopped."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Model, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.context import GRAPH_MODE, PYNATIVE_MODE, set_context
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError
from mpiparallel.train import Callback, CheckpointConfig, ModelCheckpoint

CASES = {
    "exponential": (nn.ExponentialDecayLR(0.1, 0.9, 4), lambda t: 0.1 * 0.9 ** (t / 4)),
    "exponential stair": (nn.ExponentialDecayLR(0.1, 0.9, 4, True), lambda t: 0.1 * 0.9 ** (t // 4)),
    "natural": (nn.NaturalExpDecayLR(0.1, 0.3, 4), lambda t: 0.1 * math.exp(-0.3 * t)),
    "natural stair": (nn.NaturalExpDecayLR(0.1, 0.3, 4, True), lambda t: 0.1 * math.exp(-0.3 * 4 * (t // 4))),
    "inverse": (nn.InverseDecayLR(0.1, 0.5, 4), lambda t: 0.1 / (1 + 0.5 * t / 4)),
    "inverse stair": (nn.InverseDecayLR(0.1, 0.5, 4, True), lambda t: 0.1 / (1 + 0.5 * (t // 4))),
    "cosine": (
        nn.CosineDecayLR(0.01, 0.1, 6),
        lambda t: 0.01 + 0.5 * (0.1 - 0.01) * (1 + math.cos(math.pi * min(t, 6) / 6)),
    ),
    "polynomial": (
        nn.PolynomialDecayLR(0.1, 0.01, 4, 0.5),
        lambda t: (0.1 - 0.01) * (1 - min(t, 4) / 4) ** 0.5 + 0.01,
    ),
    "polynomial, longer and longer": (
        nn.PolynomialDecayLR(0.1, 0.01, 4, 2.0, True),
        lambda t: (0.1 - 0.01) * (1 - t / (4 * max(math.ceil(t / 4), 1))) ** 2.0 + 0.01,
    ),
    "warm up": (nn.WarmUpLR(0.2, 5), lambda t: 0.2 * min(t, 5) / 5),
}


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
@pytest.mark.parametrize("case", CASES)
def test_each_schedule_is_its_formula(case, mode) -> None:
    schedule, formula = CASES[case]
    set_context(mode=mode)
    try:
        found = [float(schedule(ms.Tensor(step, ms.int32))) for step in range(14)]
    finally:
        set_context(mode=GRAPH_MODE)
    np.testing.assert_allclose(found, [formula(step) for step in range(14)], rtol=1e-6, atol=1e-12)


class WarmUpThenCosine(nn.LearningRateSchedule):
    """One schedule after another, as users write it."""

    def __init__(self, rate, warm_up, decay):
        super().__init__()
        self.warm_up, self.steps = nn.WarmUpLR(rate, warm_up), warm_up
        self.cosine = nn.CosineDecayLR(0.0, rate, decay)

    def construct(self, global_step):
        rising = global_step < self.steps
        return ops.select(rising, self.warm_up(global_step), self.cosine(global_step - self.steps))


def rate_of_user(step, rate=0.2, warm_up=3, decay=4):
    if step < warm_up:
        return rate * step / warm_up
    return 0.5 * rate * (1 + math.cos(math.pi * min(step - warm_up, decay) / decay))


def descended(communicator, optimizer_parallel):
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=optimizer_parallel,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    first, second = (ms.Parameter(np.zeros((8, 2)), name) for name in ("first", "second"))

    class Sum(nn.Cell):
        def __init__(self):
            super().__init__()
            self.first, self.second = first, second

        def construct(self, x):
            return (x * self.first).sum() + (x * self.second).sum()

    groups = [{"params": [first], "lr": nn.ExponentialDecayLR(0.1, 0.9, 2)}, {"params": [second]}]
    network = Sum()
    optimizer = nn.SGD(groups, WarmUpThenCosine(0.2, 3, 4))
    step = nn.TrainOneStepCell(network, optimizer)
    for _ in range(9):
        step(ms.Tensor(np.ones((8, 2))))
    return first.asnumpy().copy(), second.asnumpy().copy()


@pytest.mark.parametrize(("ranks", "optimizer_parallel"), [(1, False), (4, False), (4, True)])
def test_optimizers_and_groups_follow_their_schedules(ranks, optimizer_parallel) -> None:
    of_group = sum(0.1 * 0.9 ** (step / 2) for step in range(9))
    of_all = sum(rate_of_user(step) for step in range(9))
    for first, second in run_world(ranks, descended, optimizer_parallel):
        np.testing.assert_allclose(first, -of_group, rtol=1e-6)
        np.testing.assert_allclose(second, -of_all, rtol=1e-6)


def test_get_lr_tells_the_rate_of_the_next_step() -> None:
    weight = ms.Parameter(np.zeros(1), "weight")
    optimizer = nn.SGD([weight], nn.ExponentialDecayLR(0.1, 0.5, 1))
    optimizer([ms.Tensor(np.ones(1))])
    assert float(optimizer.get_lr()) == pytest.approx(0.05)


class Losses(Callback):
    def __init__(self, last):
        self.values, self.last = [], last

    def step_end(self, run_context):
        self.values.append(float(run_context.original_args().net_outputs))
        if run_context.original_args().cur_step_num == self.last:
            run_context.request_stop()


def trained(last, folder=None, restored=None):
    ms.set_seed(2)
    random = np.random.default_rng(4)
    data = NumpySlicesDataset((random.normal(size=(24, 3)), random.normal(size=(24, 2))), ["x", "y"], shuffle=False)
    network = nn.SequentialCell(nn.Dense(3, 2, dtype=np.float64))
    optimizer = nn.Momentum(network.trainable_params(), WarmUpThenCosine(0.2, 3, 8), 0.9)
    model = Model(network, nn.MSELoss(), optimizer, loss_scale_manager=ms.DynamicLossScaleManager(16.0, 2, 3))
    if restored is not None:
        parameters = ms.load_checkpoint(restored)
        ms.load_param_into_net(model.train_network, parameters)
        model.step = int(parameters["global_step"].asnumpy()[0])
    losses = Losses(last)
    saver = [ModelCheckpoint("net", str(folder), CheckpointConfig(5))] if folder else []
    model.train(2, data.batch(4), [losses, *saver], dataset_sink_mode=False)
    return losses.values, float(model.train_network.scale_sense.asnumpy())


def test_rate_and_scale_of_the_loss_go_on_from_a_checkpoint_as_if_never_stopped(tmp_path) -> None:
    straight, scale = trained(10)
    trained(5, tmp_path)
    (saved,) = tmp_path.glob("rank_0/*.h5")
    resumed, resumed_scale = trained(10, restored=saved)
    assert resumed == straight[5:]
    assert resumed_scale == scale == 16.0 * 8


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: nn.ExponentialDecayLR(0.0, 0.9, 4), "ExponentialDecayLR: learning_rate 0.0 must be a number above 0"),
    (lambda: nn.ExponentialDecayLR(0.1, 0, 4), "ExponentialDecayLR: decay_rate 0 must be a number above 0"),
    (lambda: nn.InverseDecayLR(0.1, -1.0, 4), "decay_rate -1.0 must be a number above 0"),
    (lambda: nn.NaturalExpDecayLR(0.1, 0.9, 0), "decay_steps 0 must be a number of at least 1"),
    (lambda: nn.CosineDecayLR(0.2, 0.1, 4), "CosineDecayLR: max_lr 0.1 must be above min_lr 0.2"),
    (lambda: nn.CosineDecayLR(0.1, 0.1, 4), "CosineDecayLR: max_lr 0.1 must be above min_lr 0.1"),
    (lambda: nn.CosineDecayLR(-0.1, 0.1, 4), "CosineDecayLR: min_lr -0.1 must be a number of at least 0"),
    (lambda: nn.CosineDecayLR(0.0, 0.1, 0), "CosineDecayLR: decay_steps 0 must be a number of at least 1"),
    (lambda: nn.PolynomialDecayLR(0.1, -0.1, 4, 1.0), "end_learning_rate -0.1 must be a number of at least 0"),
    (lambda: nn.PolynomialDecayLR(0.1, 0.0, 0, 1.0), "decay_steps 0 must be a number of at least 1"),
    (lambda: nn.PolynomialDecayLR(0.1, 0.0, 4, 0.0), "power 0.0 must be a number above 0"),
    (lambda: nn.WarmUpLR(0.1, "5"), "warmup_steps '5' must be a number of at least 1"),  # type: ignore[arg-type]
    (lambda: nn.WarmUpLR(0.1, 0), "WarmUpLR: warmup_steps 0 must be a number of at least 1"),
    (lambda: nn.WarmUpLR(0.1, True), "WarmUpLR: warmup_steps True must be a number of at least 1"),
    (lambda: nn.WarmUpLR(True, 5), "WarmUpLR: learning_rate True must be a number above 0"),
    (lambda: nn.SGD([ms.Parameter(np.zeros(1), "w")], "fast"), "or a LearningRateSchedule"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_wrong_use_is_refused_with_the_mend(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make()


@pytest.mark.parametrize(
    ("schedule", "first"),
    [
        (nn.ExponentialDecayLR(np.float32(0.5), 0.5, 1), 0.5),
        (nn.CosineDecayLR(0, 0.5, 1), 0.5),
        (nn.PolynomialDecayLR(0.5, 0, 1, 1), 0.5),
        (nn.WarmUpLR(2, 1), 0.0),
    ],
)
def test_one_step_whole_numbers_and_an_end_at_nothing_are_taken(schedule: nn.Cell, first: float) -> None:
    assert float(schedule(ms.Tensor(0, ms.int32))) == first


def test_a_decay_falls_smoothly_where_nothing_is_said_of_stairs() -> None:
    assert float(nn.ExponentialDecayLR(1.0, 0.25, 2)(ms.Tensor(1, ms.int32))) == 0.5
    assert float(nn.ExponentialDecayLR(1.0, 0.25, 2, is_stair=True)(ms.Tensor(1, ms.int32))) == 1.0
    assert float(nn.PolynomialDecayLR(1.0, 0.0, 2, 1.0)(ms.Tensor(3, ms.int32))) == 0.0
