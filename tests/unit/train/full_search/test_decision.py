"""Everything chosen together: the result is that of one device, fits the memory, and is kept as a file."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.context.settings import current_configuration
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, StrategyFileError
from mpiparallel.pipeline.registry import SCHEDULES
from mpiparallel.search import found_strategies
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.forecast.forecast import make_forecast
from mpiparallel.search.forecast.timeline import counted_seconds
from mpiparallel.search.machine.machine import Link, Machine
from mpiparallel.search.problem.clock import Clock
from mpiparallel.train import Callback
from mpiparallel.train.full_search import decision
from mpiparallel.train.full_search.candidates import Openness, candidates
from mpiparallel.train.full_search.open_training import pipeline_of
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.full_search.trials import Trials

ROWS, WIDTH, LAYERS, STEPS = 8, 16, 4, 3
LITTLE = 9e5
"""Bytes: less than what the quickest plan of the wide model needs."""
EVERYTHING = {"parallel_mode": "auto_parallel", "auto_parallel_search_mode": "everything", "full_batch": True}
SLOW_LINKS = Machine(products=((1e3, 1e6),), operation_rate=1e8, launch=1e-8, inside=Link(1e-5, 1e6))
"""On which work must be shared out, and whatever moves little wins."""


@pytest.fixture(autouse=True)
def _assumed_machine(monkeypatch) -> None:
    monkeypatch.setattr(found_strategies, "kept_machine", Machine)


@pytest.mark.parametrize(
    ("recomputed", "words"), [((), "nothing recomputed"), ((3,), "1 layer recomputed"), ((0, 2), "2 layers recomputed")]
)
def test_a_plan_says_how_many_layers_are_computed_again(recomputed, words) -> None:
    told = str(Plan(4, stages=2, micro_batches=8, schedule="gpipe", recomputes=recomputed, shards=True))
    assert told == f"2 stages by gpipe, 8 micro-batches, {words}, with optimizer shards"


def network(width: int = WIDTH) -> nn.SequentialCell:
    draw = np.random.default_rng(1)
    layers = [nn.Dense(width, width, activation="tanh") for _ in range(LAYERS)]
    for layer in layers:
        layer.weight.set_data(draw.normal(size=(width, width)) / 4)
        layer.bias.set_data(np.zeros(width))
    return nn.SequentialCell(layers)


def rows(width: int = WIDTH, count: int = ROWS * STEPS, batch: int = ROWS) -> NumpySlicesDataset:
    draw = np.random.default_rng(2)
    columns = draw.normal(size=(count, width)), draw.normal(size=(count, width))
    return NumpySlicesDataset(columns, ["x", "y"], shuffle=False).batch(batch)


class Losses(Callback):
    def __init__(self) -> None:
        self.found: list[float] = []

    def on_train_step_end(self, run_context) -> None:
        self.found.append(float(run_context.original_args().net_outputs.asnumpy()))


def model(wrapped=lambda net: net) -> Model:
    net = network()
    return Model(wrapped(net), nn.MSELoss(), nn.Adam(net.trainable_params(), 0.01))


def trained(communicator, settings, wrapped=lambda net: net):
    """Return the losses, and what has been decided of stages, micro-batches, recomputation and shards."""
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(**settings)
    made, losses = model(wrapped), Losses()
    made.train(1, rows(), callbacks=[losses], dataset_sink_mode=False)
    now, cell = current_configuration(), pipeline_of(made.train_network)
    return (
        losses.found,
        (now.pipeline_stages, now.pipeline_schedule, now.enable_parallel_optimizer),
        (None if cell is None else cell.micro_size),
    )


@pytest.fixture(scope="module")
def of_one_rank():
    return run_world(1, trained, {"parallel_mode": "stand_alone"})[0][0]


@pytest.mark.parametrize(
    ("machine", "stages"),
    [
        # Where links cost next to nothing, all ranks work on all of it; where they cost all, layers stay apart.
        (Machine(inside=Link(1e-9, 1e12)), 1),
        (SLOW_LINKS, 2),
    ],
)
def test_losses_of_what_is_found_are_those_of_one_rank_and_all_ranks_have_the_same(
    machine, stages, of_one_rank, monkeypatch
) -> None:
    monkeypatch.setattr(found_strategies, "kept_machine", lambda: machine)
    ranks = run_world(2, trained, EVERYTHING)
    assert all(one == ranks[0] for one in ranks)
    losses, (found, schedule, _), count = ranks[0]
    np.testing.assert_allclose(losses, of_one_rank, rtol=1e-12)
    assert found == stages
    assert bool(schedule) == (count > 1) == (stages > 1)


@pytest.mark.parametrize(("devices", "seconds"), [(1, inf), (2, 5.0)])
def test_ranks_that_do_not_train_one_network_together_search_to_the_end_so_that_all_find_the_same(
    devices, seconds, monkeypatch
) -> None:
    asked = []

    def found(training, cell, batch, configuration, ranks):
        asked.append((ranks.rank, configuration.search_timeout))
        return Plan(devices)

    monkeypatch.setattr(decision, "_found", found)

    def job(communicator):
        context.set_auto_parallel_context(**EVERYTHING, device_num=devices)
        configuration = replace(current_configuration(), search_timeout=5.0)
        return decision.decide(model().train_network, [np.zeros((ROWS, WIDTH))] * 2, configuration)

    assert run_world(2, job) == [Plan(devices)] * 2
    assert sorted(asked) == [(rank, seconds) for rank in range(2 if devices == 1 else 1)]


def test_a_plan_is_kept_in_the_strategy_file_and_loaded_as_any_other(tmp_path, of_one_rank, monkeypatch) -> None:
    monkeypatch.setattr(found_strategies, "kept_machine", lambda: SLOW_LINKS)
    file = tmp_path / "plan.json"
    found = run_world(2, trained, {**EVERYTHING, "strategy_ckpt_save_file": str(file)})[0]
    for mode in ("semi_auto_parallel", "auto_parallel"):
        loaded = run_world(
            2, trained, {"parallel_mode": mode, "full_batch": True, "strategy_ckpt_load_file": str(file)}
        )[0]
        assert loaded[1:] == found[1:]
        np.testing.assert_allclose(loaded[0], of_one_rank, rtol=1e-12)
    # It may be made by hand, too: layers that are recomputed change no loss.
    content = json.loads(file.read_text())
    content["plan"]["recomputes"] = [0, 2]
    file.write_text(json.dumps(content))
    again = run_world(2, trained, {**EVERYTHING, "strategy_ckpt_load_file": str(file)})[0]
    np.testing.assert_allclose(again[0], of_one_rank, rtol=1e-12)
    # For other ranks it says nothing.
    others = run_world(1, trained, {"parallel_mode": "auto_parallel", "strategy_ckpt_load_file": str(file)})[0]
    assert others[1][0] == 1
    content = json.loads(file.read_text())
    del content["plan"]["stages"]
    file.write_text(json.dumps(content))
    context.set_auto_parallel_context(parallel_mode="auto_parallel", strategy_ckpt_load_file=str(file))
    with pytest.raises(StrategyFileError, match="plan: stages is not as a search writes it"):
        model()


def test_what_the_user_has_set_stays(of_one_rank) -> None:
    def wrapped(net):
        return nn.PipelineCell(net, 4, stages=[1, 3])

    losses, (stages, _, shards), count = run_world(
        2, trained, {**EVERYTHING, "pipeline_stages": 2, "enable_parallel_optimizer": True}, wrapped
    )[0]
    assert (stages, shards, count) == (2, True, 4)
    np.testing.assert_allclose(losses, of_one_rank, rtol=1e-12)


def on_laptop(ranks: int = 4, **settings) -> None:
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(**EVERYTHING, device_num=ranks, global_rank=0, **settings)


def wide_model() -> tuple[Model, NumpySlicesDataset]:
    net = network(64)
    return Model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 0.01)), rows(64, 64, 64)


def bytes_and_seconds(staged) -> tuple[int, float]:
    forecast = make_forecast(staged, current_configuration(), Prices(Machine()))
    return forecast.fullest.memory.total, counted_seconds(staged, Prices(Machine()))


def test_a_plan_fits_the_memory_costs_no_less_than_one_without_limit_and_what_fits_nothing_says_by_how_much() -> None:
    found = []
    for limit in (None, LITTLE / 1e9):
        on_laptop(2, search_memory_gb=limit)
        made, data = wide_model()
        found.append(bytes_and_seconds(made.build(data)))
    (free, quickest), (held, seconds) = found
    assert held <= LITTLE < free
    assert quickest <= seconds
    on_laptop(2, search_memory_gb=1e-4, pipeline_stages=2, pipeline_config={"pipeline_scheduler": "1f1b"})
    made, data = wide_model()
    with pytest.raises(ConfigurationError, match=r"may need 0.0001 GB, and nothing fits; .* GB too much: .* stages"):
        made.build(data)


def test_what_is_found_is_no_dearer_than_any_plan_there_is(monkeypatch) -> None:
    """Truth is each plan laid out and priced, one by one."""
    monkeypatch.setattr(found_strategies, "kept_machine", lambda: SLOW_LINKS)
    on_laptop(2)
    made = model(lambda net: nn.PipelineCell(net, 4, stages="auto"))
    batch = [np.zeros((ROWS, WIDTH)), np.zeros((ROWS, WIDTH))]
    cell = pipeline_of(made.train_network)
    prices = Prices(SLOW_LINKS)
    plans = candidates(current_configuration(), Openness.of(cell, ROWS))
    trials = Trials(made.train_network.set_train(), cell, batch, current_configuration(), prices, Clock(inf), plans)
    every = [one for one in map(trials.tried, plans) if one is not None]
    assert len(every) == len(plans)
    assert {one.schedule for one in plans} == {"", *SCHEDULES}
    staged = made.build(rows())
    assert counted_seconds(staged, prices) <= min(one.seconds for one in every) * (1 + 1e-9)
    assert min(one.seconds for one in every) < every[0].seconds
    for one in every:
        assert 0 < trials.floor(one.plan.stages) <= one.seconds


def test_all_that_is_left_open_is_among_the_candidates() -> None:
    on_laptop(4)
    now = current_configuration()
    found = candidates(now, Openness(8, 4, 1, True, True))
    assert {one.stages for one in found} == {1, 2, 4}
    assert {one.micro_batches for one in found if one.stages == 2} == {2, 4, 8}
    assert {one.schedule for one in found if one.stages == 4} == {"gpipe", "1f1b", "zb_h1"}
    assert {one.shards for one in found} == {False, True}
    asked = replace(now, pipeline_stages=2, pipeline_schedule="1f1b", enable_parallel_optimizer=True)
    assert candidates(asked, Openness(8, 4, 2)) == (Plan(4, 2, 2, "1f1b", (), True),)
    with pytest.raises(
        ConfigurationError, match="nothing is left to choose for 4 ranks, 4 layers and a batch of 7 rows"
    ):
        candidates(replace(now, pipeline_stages=2), Openness(7, 4, 1, True, True))


@pytest.mark.parametrize(("stages", "most"), [(2, 16), (4, 32), (32, 128), (64, 64)])
def test_more_micro_batches_than_help_or_than_messages_allow_are_not_tried(stages: int, most: int) -> None:
    on_laptop(stages)
    asked = replace(current_configuration(), pipeline_stages=stages, pipeline_schedule="gpipe")
    found = candidates(asked, Openness(4096, stages, 1, finds_size=True))
    assert max(one.micro_batches for one in found) == most
    # Eight for each stage, and 4,096 crossings of all micro-batches between all stages.
    assert most == min(8 * stages, 4096 // stages)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"full_batch": False}, "set full_batch=True"),
        ({"strategy_ckpt_save_file": "plan.ckpt"}, "a name that ends in .json"),
        ({"pipeline_stages": [1, 3]}, "takes pipeline_stages as a number"),
    ],
)
def test_what_does_not_go_with_it_is_refused(settings, told) -> None:
    context.set_auto_parallel_context(**{**EVERYTHING, "device_num": 4, "global_rank": 0, **settings})
    with pytest.raises(ConfigurationError, match=told):
        model().build(rows())


@pytest.mark.parametrize("limit", [0, -1, True, "1"])
def test_a_memory_limit_is_gigabytes(limit) -> None:
    with pytest.raises(ConfigurationError, match=r"search_memory_gb .* must be gigabytes above 0"):
        context.set_auto_parallel_context(search_memory_gb=limit)


def test_a_training_step_that_is_given_whole_is_searched_without_stages() -> None:
    draw = np.random.default_rng(3)
    x, y, weight = (draw.normal(size=shape) for shape in ((ROWS, 4), (ROWS, 2), (2, 4)))

    def on_rank(communicator):
        context.reset_auto_parallel_context()
        context.set_auto_parallel_context(**EVERYTHING)
        net, losses = nn.Dense(4, 2, has_bias=False), Losses()
        net.weight.set_data(weight)
        made = Model(nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1)))
        data = NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(ROWS)
        made.train(1, data, callbacks=[losses], dataset_sink_mode=False)
        return losses.found, current_configuration().pipeline_stages, pipeline_of(made.train_network)

    for losses, stages, cell in run_world(2, on_rank):
        assert (stages, cell) == (1, None)
        np.testing.assert_allclose(losses, [((x @ weight.T - y) ** 2).mean()], rtol=1e-6)
