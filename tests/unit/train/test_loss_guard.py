"""A loss that is no number: named step, ranks and parameter, one verdict on all ranks, nothing lost."""

from __future__ import annotations

import io

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Model, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, NonFiniteError
from mpiparallel.train import Callback, CheckpointConfig, DynamicLossScaleManager, LossGuard, ModelCheckpoint
from mpiparallel.train.preemption import Preempted
from tests.conformance.trainings.saved_training import At

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 3, 4, 4)).astype(np.float32)
Y = RANDOM.normal(size=(40, 4)).astype(np.float32)
BATCH, BAD_STEP, BAD_ROW = 8, 3, 18
PLACES = [("", 1), ("data_parallel", 4), ("semi_auto_parallel", 4)]
OF_ROW = 1
"""The rank of four that is fed the bad row in data parallel mode."""


def set_up(communicator, mode):
    ms.set_seed(3)
    if communicator.size > 1:
        full = mode == "semi_auto_parallel"
        ms.set_auto_parallel_context(parallel_mode=mode, gradients_mean=True, full_batch=full)


def dataset(communicator, mode, bad_rows, value=np.nan):
    x = X.copy()
    x[bad_rows] = value
    batches = np.arange(len(x)).reshape(-1, BATCH)
    if mode == "data_parallel":
        share = BATCH // communicator.size
        batches = batches[:, communicator.rank * share : (communicator.rank + 1) * share]
    made = NumpySlicesDataset((x[batches.ravel()], Y[batches.ravel()]), ["x", "y"], shuffle=False)
    return made.batch(batches.shape[1])


def make_model(**options):
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dense(64, 4)]
    network = nn.SequentialCell(layers)
    return Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.05, 0.9), **options)


def state(model):
    return {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}


def stopped(communicator, mode, sink):
    set_up(communicator, mode)
    model, good = make_model(), make_model()
    with pytest.raises(NonFiniteError) as caught:
        model.train(1, dataset(communicator, mode, [BAD_ROW]), LossGuard("stop"), dataset_sink_mode=sink)
    good.train_network.set_train()
    for columns in list(dataset(communicator, mode, []).iterate())[: BAD_STEP - 1]:
        good.run_step(list(columns.values()))
    return str(caught.value), state(model), state(good)


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize(("mode", "ranks"), PLACES)
def test_stop_names_step_ranks_and_weight_and_leaves_all_as_it_was(mode, ranks, sink) -> None:
    results = run_world(ranks, stopped, mode, sink)
    assert len({message for message, *_ in results}) == 1
    message = results[0][0]
    assert message.startswith("step 3 (epoch 1, step 3): the loss is not finite")
    assert "not finite are the gradients of '0.weight' and 4 more" in message
    where = {"": "inf or nan;", "data_parallel": f"inf or nan on rank {OF_ROW};"}
    assert f"input 0 of the batch holds {where.get(mode, 'inf or nan on all ranks;')}" in message
    assert "weights, optimizer states and moving averages are those from before the step" in message
    for _, found, wanted in results:
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)


def skipped(communicator, mode, **options):
    set_up(communicator, mode)
    model, stream = make_model(**options), io.StringIO()
    guard = LossGuard("skip", stream=stream)
    model.train(1, dataset(communicator, mode, [BAD_ROW]), guard)
    good = make_model()
    good.train_network.set_train()
    for number, columns in enumerate(dataset(communicator, mode, []).iterate(), 1):
        if number != BAD_STEP:
            good.run_step(list(columns.values()))
    return guard.skipped_steps, stream.getvalue(), state(model), state(good), model.step


@pytest.mark.parametrize(("mode", "ranks"), PLACES)
def test_skip_leaves_the_step_out_says_so_and_goes_on(mode, ranks) -> None:
    for rank, (steps, said, found, wanted, made) in enumerate(run_world(ranks, skipped, mode)):
        assert (steps, made) == ([BAD_STEP], 5)
        assert bool(said) == (rank == 0)
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)
        if rank == 0:
            assert said.splitlines()[0].endswith("the update is left out, 1 so far")
            assert said.splitlines()[-1] == "LossGuard: 1 updates were left out: steps 3"


def test_skip_stops_after_its_limit_of_steps_in_a_row() -> None:
    model = make_model()
    bad = dataset(None, "", slice(BATCH, None))
    with pytest.raises(NonFiniteError, match=r"that is 3 steps in a row \(LossGuard's limit\)"):
        model.train(1, bad, LossGuard("skip", limit=3, stream=io.StringIO()))
    assert model.step == 4


def rolled_back(communicator, mode, folder):
    set_up(communicator, mode)
    model, stream = make_model(), io.StringIO()
    guard = LossGuard("rollback", stream=stream)
    saver = ModelCheckpoint("net", folder, CheckpointConfig(2, keep_checkpoint_max=9))
    model.train(1, dataset(communicator, mode, [BAD_ROW + BATCH]), [guard, saver], dataset_sink_mode=False)
    good = make_model()
    good.train_network.set_train()
    for number, columns in enumerate(dataset(communicator, mode, []).iterate(), 1):
        if number in (1, 2, 5):
            good.run_step(list(columns.values()))
    return guard.skipped_steps, stream.getvalue(), state(model), state(good), model.step


@pytest.mark.parametrize(("mode", "ranks"), PLACES)
def test_rollback_goes_on_from_the_last_commit_with_the_batches_that_follow(mode, ranks, tmp_path) -> None:
    for rank, (steps, said, found, wanted, made) in enumerate(run_world(ranks, rolled_back, mode, tmp_path)):
        assert (steps, made) == ([BAD_STEP + 1], 5)
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)
        if rank == 0:
            assert said.splitlines()[0].endswith(f"; gone back to {tmp_path}/net-1_2: step 2, saved by {_said(ranks)}")
            assert said.startswith("LossGuard: step 4 (epoch 1, step 4): the loss is not finite")


def _said(ranks):
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


def test_rollback_stops_where_nothing_is_committed_and_after_its_limit(tmp_path) -> None:
    model = make_model()
    with pytest.raises(NonFiniteError, match=r"step 3 .*; nothing is committed to go back to; weights, optimizer"):
        model.train(1, dataset(None, "", [BAD_ROW]), LossGuard("rollback", stream=io.StringIO()))
    callbacks = [LossGuard("rollback", limit=3, stream=io.StringIO()), ModelCheckpoint("net", tmp_path)]
    model = make_model()
    with pytest.raises(NonFiniteError, match=r"that is 3 steps in a row"):
        model.train(1, dataset(None, "", slice(BATCH, None)), callbacks, dataset_sink_mode=False)
    assert model.step == 4


def test_rollback_undoes_the_update_of_a_step_with_a_construct_of_its_own(tmp_path) -> None:
    network = nn.SequentialCell(nn.Flatten(), nn.Dense(48, 4))
    model = Model(OwnStep(nn.WithLossCell(network, nn.MSELoss()), nn.SGD(network.trainable_params(), 0.1)))
    callbacks = [LossGuard("rollback", stream=io.StringIO()), ModelCheckpoint("net", tmp_path)]
    with np.errstate(all="ignore"):
        model.train(1, dataset(None, "", [BAD_ROW]), callbacks, dataset_sink_mode=False)
    assert all(np.isfinite(array).all() for array in state(model).values())


def test_warn_makes_the_update_and_off_does_not_look() -> None:
    for policy, lines in (("warn", 3), ("off", 0)):
        model, stream = make_model(), io.StringIO()
        with np.errstate(all="ignore"):
            model.train(1, dataset(None, "", [BAD_ROW]), LossGuard(policy, stream=stream))
        assert np.isnan(model.predict_network[0].weight.asnumpy()).all()
        assert len(stream.getvalue().splitlines()) == lines
    assert (model.train_network.finite_check is None) is True


def test_a_weight_that_was_no_number_before_is_named() -> None:
    model = make_model()
    model.predict_network[4].bias.set_data(np.array([0, np.inf, 0, 0], np.float32))
    with pytest.raises(NonFiniteError, match=r"the weight '4.bias' already held inf or nan"):
        model.train(1, dataset(None, "", []), LossGuard())


class NotANumberBackwards(nn.Cell):
    """A loss that is finite while its gradient is not: the square root at 0."""

    def __init__(self):
        super().__init__()
        self.scale = ms.Parameter(np.zeros(3, np.float32), "scale")
        self.shift = ms.Parameter(np.zeros(3, np.float32), "shift")

    def construct(self, x):
        return ops.ReduceSum()(ops.Sqrt()(self.scale * self.scale)) + ops.ReduceSum()(x * self.shift)


def test_a_gradient_is_looked_at_where_the_loss_is_finite() -> None:
    network = NotANumberBackwards()
    model = Model(network, optimizer=nn.SGD(network.trainable_params(), 0.1))
    data = NumpySlicesDataset((np.ones((2, 3), np.float32),), ["x"]).batch(1)
    with pytest.raises(NonFiniteError, match="the loss is finite; not finite are the gradients of 'scale';"):
        model.train(1, data, LossGuard())
    assert not network.scale.asnumpy().any()
    assert not network.shift.asnumpy().any()


def test_checkpoints_from_before_stay_and_no_later_one_is_written(tmp_path) -> None:
    model = make_model()
    saver = ModelCheckpoint("net", str(tmp_path), CheckpointConfig(1, keep_checkpoint_max=9))
    with pytest.raises(NonFiniteError):
        model.train(1, dataset(None, "", [BAD_ROW]), [LossGuard(), saver], dataset_sink_mode=False)
    assert sorted(path.name for path in tmp_path.glob("rank_0/*.h5")) == ["net-1_1.h5", "net-1_2.h5"]


def test_an_overflow_that_finds_the_scale_of_the_loss_is_no_fault_but_a_bad_loss_is() -> None:
    model, guard = make_model(amp_level="O2", loss_scale_manager=DynamicLossScaleManager(2.0**24)), LossGuard()
    model.train(1, dataset(None, "", []), guard)
    assert float(model.train_network.scale_sense.asnumpy()) < 2.0**24
    with pytest.raises(NonFiniteError, match="step 8 "):
        model.train(2, dataset(None, "", [BAD_ROW]), guard)


def test_a_training_without_a_guard_after_one_with_it_skips_nothing_silently() -> None:
    model = make_model()
    model.train(1, dataset(None, "", []), LossGuard())
    with np.errstate(all="ignore"):
        model.train(2, dataset(None, "", [BAD_ROW]))
    assert np.isnan(model.predict_network[0].weight.asnumpy()).all()


class OwnStep(nn.TrainOneStepCell):
    """A step as MindSpore's users write it."""

    def construct(self, *inputs):
        loss = self.network(*inputs)
        sens = ops.fill(loss.dtype, loss.shape, self.sens)
        gradients = self.grad(self.network, self.weights)(*inputs, sens)
        gradients = ops.clip_by_global_norm(self.grad_reducer(gradients), 0.5)
        self.optimizer(gradients)
        return loss


class ClippingStep(nn.TrainOneStepCell):
    """The same, with all that the step cell offers."""

    def prepared(self, gradients):
        return ops.clip_by_global_norm(gradients, 0.5)


def own_step(communicator, cell, mode):
    set_up(communicator, mode)
    first, second = nn.Dense(48, 6, weight_init="ones"), nn.Dense(6, 4, weight_init="ones")
    if mode == "semi_auto_parallel":
        first.matmul.shard(((2, 1), (2, 1)))
        second.matmul.shard(((1, 2), (2, 2)))
    network = nn.SequentialCell(nn.Flatten(), first, nn.Tanh(), second)
    with_loss = nn.WithLossCell(network, nn.MSELoss())
    model = Model(cell(with_loss, nn.SGD(network.trainable_params(), 1.0)))
    for columns in dataset(communicator, mode, []).iterate():
        model.run_step(list(columns.values()))
    return [(one.name, one.asnumpy().copy(), one.box) for one in network.get_parameters()]


@pytest.mark.parametrize(("mode", "ranks"), PLACES)
def test_clipping_in_a_step_of_ones_own_is_by_the_norm_of_all_gradients_wherever_they_are(mode, ranks) -> None:
    (wanted,) = run_world(1, own_step, ClippingStep, "")
    for cell in (OwnStep, ClippingStep):
        for found in run_world(ranks, own_step, cell, mode):
            for (name, array, box), (_, whole, all_of_it) in zip(found, wanted, strict=True):
                np.testing.assert_allclose(array, whole[box.within(all_of_it)], rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_step_with_a_construct_of_its_own_stops_by_its_loss() -> None:
    network = nn.SequentialCell(nn.Flatten(), nn.Dense(48, 4))
    model = Model(OwnStep(nn.WithLossCell(network, nn.MSELoss()), nn.SGD(network.trainable_params(), 0.1)))
    with pytest.raises(NonFiniteError, match=r"step 3 .* the update was made, because this TrainOneStepCell"):
        model.train(1, dataset(None, "", [BAD_ROW]), LossGuard("skip"))


def test_wrong_use_is_refused_with_the_mend() -> None:
    with pytest.raises(
        ConfigurationError, match="policy 'ignore' is not one of 'stop', 'skip', 'rollback', 'warn', 'off'"
    ):
        LossGuard("ignore")
    with pytest.raises(ConfigurationError, match="limit 0 must be an integer of at least 1"):
        LossGuard(limit=0)


def test_a_scaled_loss_that_stays_no_number_is_told_and_ends_the_training_though_nobody_asked(capsys) -> None:
    model = make_model(loss_scale_manager=DynamicLossScaleManager(4.0, 2, 5))
    with pytest.raises(NonFiniteError, match=r"step 100 .*that is 100 steps in a row"):
        model.train(30, dataset(None, "", slice(None)))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 99
    assert lines[0].startswith("LossGuard: step 1 (epoch 1, step 1): the loss is not finite;")
    quiet = make_model(loss_scale_manager=DynamicLossScaleManager(4.0, 2, 5))
    quiet.train(30, dataset(None, "", slice(None)), LossGuard("off"))
    assert capsys.readouterr().out == ""
    assert quiet.train_network.optimizer.step == 0


def test_rollback_goes_back_to_what_was_resumed_where_nothing_is_saved_since(tmp_path) -> None:
    saved = make_model()
    saved.train(1, dataset(None, "", []), ModelCheckpoint("net", tmp_path, CheckpointConfig(5)))
    wanted, model, stream = state(saved), make_model(), io.StringIO()
    assert model.resume(tmp_path, dataset(None, "", slice(None)), "net").step == 5
    guard = LossGuard("rollback", limit=9, stream=stream)
    model.train(2, dataset(None, "", slice(None)), guard, dataset_sink_mode=False)
    assert guard.skipped_steps
    assert f"gone back to {tmp_path}/net-1_5: step 5" in stream.getvalue()
    for name, array in state(model).items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)


def test_rollback_stops_where_what_was_committed_is_gone(tmp_path) -> None:
    folder = tmp_path / "saved"
    callbacks = [
        LossGuard("rollback", stream=io.StringIO()),
        ModelCheckpoint("net", folder, CheckpointConfig(2)),
        At(2, lambda: (folder / "net-1_2.manifest.json").unlink()),
    ]
    words = rf"step 3 .*; what was committed in {folder} is gone; weights, optimizer states and moving averages are"
    with pytest.raises(NonFiniteError, match=words):
        make_model().train(1, dataset(None, "", [BAD_ROW]), callbacks, dataset_sink_mode=False)


def test_of_a_step_of_several_batches_moving_averages_are_not_said_to_be_those_from_before() -> None:
    network = nn.SequentialCell(nn.Flatten(), nn.Dense(48, 4))
    optimizer = nn.SGD(network.trainable_params(), 0.1)
    step = ms.amp.build_train_network(network, optimizer, nn.MSELoss(), accumulation_steps=2)
    with pytest.raises(NonFiniteError, match=r"; weights and optimizer states are those from before the step\. "):
        Model(step).train(1, dataset(None, "", slice(None)), LossGuard("stop"))


class PreemptAt(Callback):
    """Is told at the end of a step that the machine is wanted back."""

    def __init__(self, step):
        self.step = step

    def every_step(self, run_context):
        if run_context.original_args().cur_step_num == self.step:
            run_context.request_preemption()


def test_what_was_left_out_is_said_of_a_training_that_is_preempted_too() -> None:
    stream = io.StringIO()
    with pytest.raises(Preempted):
        make_model().train(
            1, dataset(None, "", [BAD_ROW]), [LossGuard("skip", stream=stream), PreemptAt(4)], dataset_sink_mode=False
        )
    assert stream.getvalue().splitlines()[-1] == "LossGuard: 1 updates were left out: steps 3"
