"""16 bits train to the loss of float32, on one rank or several; float16 by a scale, whose overflow changes nothing."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Model, Tensor, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.dataset.text import translation_dataset
from mpiparallel.errors import ConfigurationError
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork
from mpiparallel.nn.transformer import TransformerOpParallelConfig
from mpiparallel.train import Callback, DynamicLossScaleManager, FixedLossScaleManager

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.normal(size=(16, 3, 6, 6)).astype(np.float32)
TARGETS = RANDOM.normal(size=(16, 4)).astype(np.float32)
TOLERANCE = 0.03
"""How far losses of float16 may be from those of float32, relatively: its 11 bits over some steps."""
BFLOAT16_TOLERANCE = 0.1
"""The same of bfloat16, of 8 bits."""


class Losses(Callback):
    def __init__(self):
        self.values = []

    def every_step(self, run_context):
        self.values.append(float(run_context.original_args().net_outputs))


def set_up(communicator, mode, optimizer_parallel=False):
    ms.set_seed(3)
    if communicator.size > 1:
        ms.set_auto_parallel_context(
            parallel_mode=mode,
            gradients_mean=True,
            full_batch=mode == "semi_auto_parallel",
            enable_parallel_optimizer=optimizer_parallel,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        )


def images(communicator, mode):
    rows = np.arange(len(IMAGES))
    count = communicator.size if mode == "data_parallel" else 1
    own = rows[rows % count == communicator.rank % count]
    return NumpySlicesDataset((IMAGES[own], TARGETS[own]), ["x", "y"], shuffle=False).batch(8 // count)


def image_network():
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dense(144, 4)]
    return nn.SequentialCell(layers)


def image_model(manager=None, level="O0"):
    network = image_network()
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    return Model(network, nn.MSELoss(), optimizer, amp_level=level, loss_scale_manager=manager)


def train_images(communicator, mode, level, epochs=5):
    set_up(communicator, mode)
    model = image_model(DynamicLossScaleManager(256.0, 2, 4) if level != "O0" else None, level)
    losses = Losses()
    model.train(epochs, images(communicator, mode), losses)
    return losses.values, {one.name: one.dtype for one in model.train_network.get_parameters()}


def mean_losses(found):
    return np.mean([losses for losses, *_ in found], axis=0)


@cache
def losses_in_float32(ranks, train, *options):
    return mean_losses(run_world(ranks, train, *options))


@pytest.mark.parametrize(("mode", "ranks"), [("", 1), ("data_parallel", 4), ("semi_auto_parallel", 4)])
@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
def test_a_convolutional_network_trains_in_float16_as_in_float32(mode, ranks, level) -> None:
    wanted = losses_in_float32(ranks, train_images, mode, "O0")
    found = run_world(ranks, train_images, mode, level)
    np.testing.assert_allclose(mean_losses(found), wanted, rtol=TOLERANCE)
    assert wanted[-1] < 0.7 * wanted[0]
    assert {name: dtype for name, dtype in found[0][1].items() if dtype == np.float16} == {}


def train_images_in_bfloat16(communicator, mode, level):
    set_up(communicator, mode)
    network = ms.amp.auto_mixed_precision(image_network(), level, ms.bfloat16)
    losses = Losses()
    model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.05, 0.9))
    model.train(5, images(communicator, mode), losses)
    return losses.values, {str(one.dtype) for one in network.get_parameters()}


@pytest.mark.parametrize(("mode", "ranks"), [("", 1), ("data_parallel", 4), ("semi_auto_parallel", 4)])
@pytest.mark.parametrize("level", ["O1", "O2", "auto"])
def test_a_convolutional_network_trains_in_bfloat16_without_a_scale_as_in_float32(mode, ranks, level) -> None:
    wanted = losses_in_float32(ranks, train_images, mode, "O0")
    found = run_world(ranks, train_images_in_bfloat16, mode, level)
    np.testing.assert_allclose(mean_losses(found), wanted, rtol=BFLOAT16_TOLERANCE)
    assert found[0][1] == {"Float32"}


def pairs():
    words = [f"w{number}" for number in range(30)]
    lengths = np.random.default_rng(5).integers(2, 8, 32)
    choose = np.random.default_rng(6).choice
    return [(" ".join(choose(words, length)), " ".join(choose(words, length))) for length in lengths]


def train_translation(communicator, level, optimizer_parallel):
    set_up(communicator, "semi_auto_parallel", optimizer_parallel)
    dataset = translation_dataset(pairs(), 5, 6, 43, 8, 3, float_type=np.float32, start_token=True)
    config = TranslationConfig(
        batch_size=8,
        source_length=5,
        target_length=6,
        vocab_size=43,
        hidden_size=16,
        num_heads=4,
        dropout_rate=0.0,
    )
    ranks = communicator.size
    cuts = TransformerOpParallelConfig(data_parallel=max(ranks // 2, 1), model_parallel=min(ranks, 2))
    network = TranslationNetwork(config, cuts)
    optimizer = nn.Adam(network.trainable_params(), 1e-2, weight_decay=1e-3)
    manager = DynamicLossScaleManager(1024.0, 2, 5) if level != "O0" else None
    model = Model(network, optimizer=optimizer, amp_level=level, loss_scale_manager=manager)
    losses = Losses()
    model.train(3, dataset, losses)
    scale = float(model.train_network.scale_sense.asnumpy()) if level != "O0" else 0.0
    return losses.values, scale


@pytest.mark.parametrize(("ranks", "optimizer_parallel"), [(1, False), (4, False), (4, True)])
def test_a_transformer_trains_in_float16_as_in_float32(ranks, optimizer_parallel) -> None:
    wanted = losses_in_float32(1, train_translation, "O0", False)
    found = run_world(ranks, train_translation, "O2", optimizer_parallel)
    np.testing.assert_allclose(mean_losses(found), wanted, rtol=TOLERANCE)
    assert wanted[-1] < 0.9 * wanted[0]
    assert {scale for _, scale in found} == {1024.0 * 2 ** (len(wanted) // 5)}


def overflow_on_one_rank(communicator, mode):
    set_up(communicator, mode)
    model = image_model(DynamicLossScaleManager(256.0, 2, 100), "O2")
    model.train(1, images(communicator, mode))
    before = {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}
    batch = [column.copy() for column in next(iter(images(communicator, mode).iterate())).values()]
    if communicator.rank == communicator.size - 1 or mode != "data_parallel":
        batch[0][-1, 0, 0, 0] = 1e6
    model.run_step(batch)
    after = {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}
    model.run_step(list(next(iter(images(communicator, mode).iterate())).values()))
    return before, after, model.train_network.optimizer.step


COUNTERS = {"scale_sense", "current_iterator_step", "last_overflow_iterator_step"}


@pytest.mark.parametrize(("mode", "ranks"), [("", 1), ("data_parallel", 4), ("semi_auto_parallel", 4)])
def test_an_overflow_on_one_rank_changes_nothing_on_any_rank_but_the_scale(mode, ranks) -> None:
    for before, after, steps in run_world(ranks, overflow_on_one_rank, mode):
        for name in before.keys() - COUNTERS:
            np.testing.assert_array_equal(after[name], before[name], err_msg=name)
        assert after["scale_sense"] == before["scale_sense"] / 2 == 128.0
        assert after["last_overflow_iterator_step"] == before["current_iterator_step"] == 3
        assert steps == 3


def scales(loss_scale, factor, window, overflows):
    """What MindSpore's documentation says of the dynamic scale, step by step."""
    found, last = [], 0
    for step, overflow in enumerate(overflows, 1):
        if overflow:
            loss_scale, last = max(loss_scale / factor, 1.0), step
        elif step - last >= window:
            loss_scale, last = loss_scale * factor, step
        found.append(loss_scale)
    return found


def test_the_scale_falls_with_overflows_and_rises_after_a_window_without() -> None:
    network = nn.SequentialCell(nn.Dense(2, 1, weight_init="ones"))
    optimizer = nn.SGD(network.trainable_params(), 1e-3)
    update = nn.DynamicLossScaleUpdateCell(4.0, 2, 3)
    step = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(network, nn.MSELoss()), optimizer, update)
    overflows = [False] * 4 + [True] + [False] * 2 + [True] * 5 + [False] * 7
    found = []
    for overflow in overflows:
        x = np.array([[np.inf if overflow else 1.0, 1.0]], np.float32)
        loss, flag, _ = step(ms.Tensor(x), ms.Tensor([[0.0]]))
        assert bool(flag) == overflow == (not np.isfinite(loss.asnumpy()))
        found.append(float(step.scale_sense.asnumpy()))
    assert found == scales(4.0, 2, 3, overflows)
    assert step.optimizer.step == overflows.count(False)


def test_the_scale_of_the_loss_is_set_between_steps() -> None:
    network = nn.SequentialCell(nn.Dense(2, 1, weight_init="ones"))
    optimizer = nn.SGD(network.trainable_params(), 1e-3)
    step = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(network, nn.MSELoss()), optimizer, ms.Tensor(8.0))
    for scale in (8.0, 16.0, 2.0):
        step.set_sense_scale(ms.Tensor(scale) if scale > 8 else scale)
        assert float(step(ms.Tensor([[1.0, 1.0]]), ms.Tensor([[0.0]]))[2]) == scale


def test_a_fixed_scale_without_a_check_needs_an_optimizer_that_takes_it_back() -> None:
    manager = FixedLossScaleManager(64.0, drop_overflow_update=False)
    with pytest.raises(ConfigurationError, match=r"give it loss_scale=64\.0, or drop_overflow_update=True"):
        image_model(manager)
    losses = {}
    for scale in (1.0, 64.0):
        ms.set_seed(3)
        network = image_network()
        optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9, loss_scale=scale)
        scaled = FixedLossScaleManager(scale, drop_overflow_update=False)
        model = Model(network, nn.MSELoss(), optimizer, loss_scale_manager=scaled)
        record = Losses()
        model.train(2, NumpySlicesDataset((IMAGES, TARGETS), ["x", "y"], shuffle=False).batch(8), record)
        losses[scale] = record.values
    np.testing.assert_allclose(losses[64.0], losses[1.0], rtol=1e-6)


def test_norms_and_losses_stay_in_float32_at_level_o2_and_everywhere_where_asked() -> None:
    def kinds(level, keep=None):
        network = ms.amp.auto_mixed_precision(image_network(), level, keep_batchnorm_fp32=keep)
        return [None if cell.precision is None else str(cell.precision.dtype) for cell in network.cells()]

    assert kinds("O0") == [None] * 5
    assert kinds("O2") == ["float16", "float32", "float16", "float16", "float16"]
    assert kinds("O3") == ["float16"] * 5
    assert kinds("O3", True) == kinds("O2")
    assert kinds("O2", False) == kinds("O3")


@pytest.mark.parametrize("level", ["O1", "O2", "O3", "auto"])
def test_a_loss_is_computed_in_float32_at_every_level(level: str) -> None:
    dense = nn.Dense(1, 1, weight_init="ones", has_bias=False)
    network = ms.amp.auto_mixed_precision(nn.WithLossCell(dense, nn.MSELoss()), level)
    # The square of 300 is no number of float16.
    assert float(network(ms.Tensor([[300.0]]), ms.Tensor([[0.0]], ms.float16))) == 90000.0


@pytest.mark.parametrize(("level", "less"), [("O0", 2**-12), ("O1", 0.0), ("auto", 2**-12)])
def test_of_a_dense_layer_o1_adds_the_bias_in_16_bits_and_auto_in_the_widest_type(level: str, less: float) -> None:
    dense = nn.Dense(1, 1, weight_init="ones")
    dense.bias.set_data(np.float32([2**-12]))
    found = ms.amp.auto_mixed_precision(nn.SequentialCell(dense), level)(ms.Tensor([[1.0]]))
    assert found.asnumpy().tolist() == [[1.0 + less]]


def test_what_no_backend_computes_in_is_refused_with_what_to_use_instead() -> None:
    for wrong in (ms.int32, "half-ish"):
        with pytest.raises(ConfigurationError, match="is not one of bfloat16, float16, float32, float64"):
            nn.Dense(2, 2).to_float(wrong)
    with pytest.raises(ConfigurationError, match="amp_level 'O4' is not one of 'O0', 'O1', 'O2', 'O3', 'auto'"):
        image_model(level="O4")
    for wrong in (0, -1.0, float("inf"), float("nan"), True, "1"):
        with pytest.raises(ConfigurationError, match="must be a number above 0"):
            FixedLossScaleManager(wrong)
    with pytest.raises(ConfigurationError, match="scale_factor 1 must be a number above 1"):
        DynamicLossScaleManager(1024.0, 1)
    scaled = nn.Momentum(image_network().trainable_params(), 0.1, 0.9, loss_scale=2.0)
    with pytest.raises(ConfigurationError, match=r"give Momentum loss_scale=1.0, not 2.0"):
        nn.TrainOneStepWithLossScaleCell(image_network(), scaled, 2.0)


def move_to_fewer(communicator):
    ms.set_seed(3)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    batches = [list(columns.values()) for columns in images(communicator, "").iterate()]
    model = image_model(DynamicLossScaleManager(256.0, 2, 3), "O2")
    model.predict_network[4].matmul.shard(((1, 1), (4, 1)))
    model.predict_network[4].bias_add.shard(((1, 4), (4,)))
    model.train_network.set_train()
    losses = [float(model.run_step(batches[step % 2])) for step in range(7)]
    model.reshard({"4.matmul": ((1, 1), (2, 1)), "4.bias_add": ((1, 2), (2,))}, ranks=2)
    if not model.active:
        return losses, None, None
    losses += [float(model.run_step(batches[step % 2])) for step in range(7, 10)]
    step = model.train_network
    return losses, float(step.scale_sense.asnumpy()), int(step.loss_scaling_manager.cur_iter.asnumpy())


def test_the_scale_and_its_counters_move_with_the_state_to_fewer_ranks() -> None:
    losses, _ = run_world(1, train_images, "", "O2")[0]
    for found, scale, counter in run_world(4, move_to_fewer)[:2]:
        np.testing.assert_allclose(found, losses, rtol=TOLERANCE)
        assert (scale, counter) == (256.0 * 2**3, 11)


def test_a_step_of_o2_scales_its_loss_dynamically_though_nobody_gave_a_manager_and_auto_is_o0_here() -> None:
    x, y = np.array([[0.1, 0.7]], np.float32), np.array([[0.3, 0.9]], np.float32)
    weight = np.array([[0.31, -0.23], [0.57, 0.11]], np.float32)
    # What float16 would be a thousandth away from.
    wanted = float(((x @ weight.T - y) ** 2).mean())

    def step_of(level):
        network = nn.Dense(2, 2, has_bias=False)
        network.weight.set_data(weight)
        optimizer = nn.SGD(network.trainable_params(), 0.5)
        return ms.amp.build_train_network(network, optimizer, nn.MSELoss(), level=level)

    step, plain = step_of("O2"), step_of("auto")
    # The first scale of DynamicLossScaleManager.
    assert float(step.scale_sense.asnumpy()) == 2.0**24
    assert not hasattr(plain, "scale_sense")
    assert float(plain(Tensor(x), Tensor(y))) == pytest.approx(wanted, rel=1e-6)
