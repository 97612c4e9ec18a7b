"""Networks cut by the strategy file that another run, or MindSpore, has saved: strategy_ckpt_load_file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

import mpiparallel as ms
import mpiparallel.ops as ops
from mpiparallel import context, nn
from mpiparallel.checkpoint.strategy import node_strategy
from mpiparallel.checkpoint.strategy.strategy_file import build_searched_strategy, read_strategy
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, StrategyFileError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.nn.initializer import initializer

FIXTURES = Path(__file__).parents[3] / "fixtures" / "mindspore"
CUT = (((2, 1), (1, 4)), ((2, 4),), ((2, 4), (4, 1)))
UNEVEN = (((1, 2), (2, 3)), None, ((1, 3), (3, 2)))


class TwoMatMul(nn.Cell):
    def __init__(self, strategies=(None, None, None), names=("w1", "w2"), shapes=((64, 32), (32, 16))):
        super().__init__()
        self.w1 = Parameter(initializer("normal", shapes[0]), name=names[0])
        self.w2 = Parameter(initializer("normal", shapes[1]), name=names[1])
        self.first, self.relu, self.second, self.mean = ops.MatMul(), ops.ReLU(), ops.MatMul(), ops.ReduceMean()
        for operator, strategy in zip((self.first, self.relu, self.second), strategies, strict=True):
            if strategy is not None:
                operator.shard(strategy)

    def construct(self, x):
        return self.mean(self.second(self.relu(self.first(x, self.w1)), self.w2))


@pytest.fixture(autouse=True)
def _reset():
    yield
    context.reset_auto_parallel_context()


def build(network: nn.Cell, devices: int = 8, rows: int = 16, **settings: object):
    """Return the sharded training graph of a network, made with no ranks."""
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", device_num=devices, global_rank=0, full_batch=True, **settings
    )
    columns = network.w1.shape[0]
    dataset = NumpySlicesDataset(np.zeros((rows, columns), np.float32), ["x"], shuffle=False).batch(rows)
    staged = ms.Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9)).build(dataset)
    assert staged is not None
    return staged.of_rank(0)


def layouts(sharded):
    return {name: layout.canonical for name, layout in sharded.stored.items() if layout.global_shape}


@pytest.mark.parametrize("suffix", ["ckpt", "json"])
@pytest.mark.parametrize(("strategies", "devices"), [(CUT, 8), (UNEVEN, 6)], ids=["even", "uneven"])
def test_a_network_without_strategies_is_cut_as_the_one_that_saved_them(suffix, strategies, devices, tmp_path) -> None:
    file = str(tmp_path / f"strategy.{suffix}")
    saved = build(TwoMatMul(strategies), devices, strategy_ckpt_save_file=file)
    loaded = build(TwoMatMul(), devices, strategy_ckpt_load_file=file)
    assert layouts(loaded) == layouts(saved) != layouts(build(TwoMatMul(), devices))
    again = str(tmp_path / f"again.{suffix}")
    build(TwoMatMul(), devices, strategy_ckpt_load_file=file, strategy_ckpt_save_file=again)
    assert read_strategy(again) == read_strategy(file)


@pytest.mark.parametrize(
    ("case", "optimizer"), [("mm_dp2mp4_train", False), ("mm_dp2mp4_train_json", False), ("mm_dp2mp4_opt_train", True)]
)
def test_a_file_that_mindspore_wrote_cuts_a_network_as_mindspore_cut_it(case, optimizer, tmp_path) -> None:
    theirs = next((FIXTURES / case).glob("strategy_rank0.*"))
    ours = tmp_path / theirs.name
    build(
        TwoMatMul(names=("net.w1", "net.w2")),
        strategy_ckpt_load_file=str(theirs),
        strategy_ckpt_save_file=str(ours),
        enable_parallel_optimizer=optimizer,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    wanted, made = read_strategy(theirs), read_strategy(ours)
    assert made.layouts == wanted.layouts
    assert dict(made.strategies) == dict(wanted.strategies)


class Activations(nn.Cell):
    """A product, and operators without parameters, two of them of one kind."""

    def __init__(self, strategies):
        super().__init__()
        self.w1 = Parameter(initializer("normal", (16, 32)), name="w1")
        self.product, self.first, self.last, self.mean = ops.MatMul(), ops.ReLU(), ops.ReLU(), ops.ReduceMean()
        for name, strategy in strategies.items():
            getattr(self, name).shard(strategy)

    def construct(self, x):
        return self.mean(self.last(self.first(self.product(x, self.w1))))


GIVEN = {"first": ((2, 2),), "last": ((1, 4),), "mean": ((4, 1),)}


@pytest.mark.parametrize("suffix", ["ckpt", "json"])
def test_operators_without_parameters_are_saved_and_loaded_by_their_places(suffix, tmp_path) -> None:
    file = tmp_path / f"strategy.{suffix}"
    build(Activations(GIVEN), 4, strategy_ckpt_save_file=str(file))
    loaded = build(Activations({}), 4, strategy_ckpt_load_file=str(file))
    placed = {node.name: loaded.placements[node].strategy for node in loaded.graph.nodes if node.is_forward}
    cuts = {name: item.cuts for name, item in read_strategy(file).strategies.items()}
    assert sorted(name.split("/")[-1] for name in cuts) == ["MatMul_w1", "ReLU", "ReLU-1", "ReduceMean"]
    assert sorted(cuts.values()) == sorted([*GIVEN.values(), ((4, 1), (1, 1))])
    by_place = {name: strategy for name, strategy in cuts.items() if name in placed}
    assert len(by_place) == 3
    assert by_place == {name: placed[name] for name in by_place}


def test_a_file_with_places_is_a_strategy_file_to_mindspores_schema_and_its_names_are_as_without(tmp_path) -> None:
    names = {}
    for key, strategies in {"none": {}, "given": GIVEN}.items():
        file = tmp_path / f"{key}.ckpt"
        build(Activations(strategies), 4, strategy_ckpt_save_file=str(file))
        message = node_strategy.ParallelStrategyMap.FromString(file.read_bytes())
        assert message.IsInitialized()
        assert not UnknownFieldSet(message)
        items = {item.node_name: str(item.parallel_strategys) for item in message.parallel_strategy_item}
        names[key] = {name: cuts for name, cuts in items.items() if "/" not in name}
        layouts_of = {item.param_name: str(item.parallel_layouts) for item in message.parallel_layout_item}
        assert list(build_searched_strategy(str(file))) == list(layouts_of) == ["w1", "moments.w1"]
    assert names["given"] == names["none"]
    assert list(names["none"]) == ["MatMul_w1"]


def test_a_place_that_another_network_has_too_does_not_make_a_file_its_own(tmp_path) -> None:
    file = str(tmp_path / "strategy.ckpt")
    build(Activations(GIVEN), 4, strategy_ckpt_save_file=file)
    three = r'"MatMul_w1"(, "[^",]+"){2}'
    with pytest.raises(StrategyFileError, match=rf"no operator of the network is in it; it has {three}, \.\.\.: use"):
        build(TwoMatMul(names=("w", "v")), 4, strategy_ckpt_load_file=file)


def test_the_file_goes_before_the_programs_own_strategy_and_what_it_lacks_keeps_its_own(tmp_path) -> None:
    file = str(tmp_path / "strategy.ckpt")
    build(TwoMatMul((CUT[0], None, None), ("w1", "other")), strategy_ckpt_save_file=file)
    own = (((8, 1), (1, 1)), None, ((2, 2), (2, 1)))
    loaded = build(TwoMatMul(own), strategy_ckpt_load_file=file)
    used = {name: layout.canonical for name, layout in loaded.used.items()}
    assert used["w1"] == build(TwoMatMul((CUT[0], None, None))).used["w1"].canonical
    assert used["w2"] == build(TwoMatMul(own)).used["w2"].canonical


def test_training_with_a_loaded_file_is_that_of_one_rank(tmp_path) -> None:
    file = str(tmp_path / "strategy.json")
    build(TwoMatMul((((2, 1), (1, 2)), None, ((2, 2), (2, 1)))), 4, strategy_ckpt_save_file=file)
    rows = np.random.default_rng(0).normal(size=(3, 16, 64)).astype(np.float32)

    def train(_communicator, **settings):
        ms.set_seed(3)
        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, **settings)
        network = TwoMatMul()
        model = ms.Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.5, 0.9))
        losses = [float(model.run_step([batch])) for batch in rows]
        return losses, network.w1.asnumpy().shape

    ((expected, _),) = run_world(1, train)
    for losses, shape in run_world(4, lambda communicator: train(communicator, strategy_ckpt_load_file=file)):
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        assert shape == (64, 16)


def test_files_that_do_not_fit_are_refused_by_name(tmp_path) -> None:
    file = tmp_path / "strategy.ckpt"
    build(TwoMatMul(CUT), strategy_ckpt_save_file=str(file))
    with pytest.raises(StrategyFileError, match=r'ckpt: no operator of the network is in it; it has "MatMul_w1"'):
        build(TwoMatMul(names=("a", "b")), strategy_ckpt_load_file=str(file))
    with pytest.raises(StrategyFileError, match=r"missing\.ckpt"):
        build(TwoMatMul(), strategy_ckpt_load_file=str(tmp_path / "missing.ckpt"))
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(StrategyFileError, match=r"strategy\.ckpt"):
        build(TwoMatMul(), strategy_ckpt_load_file=str(file))


def test_a_file_of_another_number_of_devices_leaves_operators_their_own_strategies(tmp_path, caplog) -> None:
    file = str(tmp_path / "strategy.ckpt")
    build(TwoMatMul(CUT), strategy_ckpt_save_file=file)
    halves = (((2, 1), (1, 2)), None, ((1, 4), (4, 1)))
    assert layouts(build(TwoMatMul(halves), 4, strategy_ckpt_load_file=file)) == layouts(build(TwoMatMul(halves), 4))
    assert "is of 8 devices, and there are 4: operators keep their own strategies" in caplog.text


def test_a_parameter_that_would_be_laid_out_otherwise_is_refused(tmp_path) -> None:
    record = read_strategy(FIXTURES / "mm_dp2mp4_train_json" / "strategy_rank0.json")
    content = (FIXTURES / "mm_dp2mp4_train_json" / "strategy_rank0.json").read_text()
    file = tmp_path / "renamed.json"
    file.write_text(content.replace("MatMul_w2", "MatMul_elsewhere").replace("MatMul_net.w2", "MatMul_elsewhere"))
    name = next(name for name in record.layouts if name.endswith("w2") and not name.startswith("moments"))
    prefix = name.removesuffix("w2")
    with pytest.raises(StrategyFileError, match=f'parameter ".*{prefix}w2": the file lays it out as'):
        build(TwoMatMul(names=(f"{prefix}w1", f"{prefix}w2")), strategy_ckpt_load_file=str(file))


def test_a_network_that_runs_without_a_model_says_that_the_file_is_unread() -> None:
    def on_rank(_communicator):
        ms.set_auto_parallel_context(
            parallel_mode="semi_auto_parallel", full_batch=True, strategy_ckpt_load_file="strategy.ckpt"
        )
        with pytest.raises(ConfigurationError, match=r"'strategy\.ckpt' has not been read, which Model does"):
            TwoMatMul()(ms.Tensor(np.zeros((4, 64), np.float32)))

    run_world(2, on_rank)


def test_other_modes_do_not_cut_by_the_file(tmp_path) -> None:
    file = str(tmp_path / "strategy.ckpt")
    build(TwoMatMul(CUT), strategy_ckpt_save_file=file)

    def on_rank(_communicator):
        ms.set_auto_parallel_context(parallel_mode="data_parallel", strategy_ckpt_load_file=file)
        network = TwoMatMul()
        ms.Model(network).predict(ms.Tensor(np.zeros((4, 64), np.float32)))
        return network.w1.asnumpy().shape

    assert run_world(2, on_rank) == [(64, 32)] * 2
