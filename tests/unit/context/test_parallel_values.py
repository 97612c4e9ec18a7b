"""What a program cannot set in parallel is refused with what it can, and what is just allowed is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mpiparallel import context
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError
from mpiparallel.pipeline.registry import make_schedule


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    context.reset_auto_parallel_context()


@pytest.mark.parametrize(
    ("name", "least", "taken"),
    [
        ("device_num", 1, (1, 7)),
        ("pipeline_stages", 1, (1, 7)),
        ("grad_accumulation_step", 1, (1, 7)),
        ("global_rank", 0, (0, 7)),
        ("optimizer_weight_shard_size", -1, (-1, 1, 7)),
    ],
)
def test_counts_are_integers_from_the_least_on(name: str, least: int, taken: tuple[int, ...]) -> None:
    for value in taken:
        context.set_auto_parallel_context(**{name: value})
        assert context.get_auto_parallel_context(name) == value
    for wrong in (least - 1, True, 1.0, "1"):
        said = f"set_auto_parallel_context: {name} {wrong!r} must be an integer of at least {least}"
        with pytest.raises(ConfigurationError, match=re.escape(said)):
            context.set_auto_parallel_context(**{name: wrong})


@pytest.mark.parametrize(("name", "what"), [("search_timeout", "seconds"), ("search_memory_gb", "gigabytes")])
def test_a_search_is_bounded_by_a_number_above_nothing_or_not_at_all(name: str, what: str) -> None:
    for value in (1, 0.25, None):
        context.set_auto_parallel_context(**{name: value})
    for wrong in (0, -1, True, "1", float("nan")):
        said = f"set_auto_parallel_context: {name} {wrong!r} must be {what} above 0, or None for no end"
        with pytest.raises(ConfigurationError, match=re.escape(said)):
            context.set_auto_parallel_context(**{name: wrong})


@pytest.mark.parametrize("name", ["gradients_mean", "parameter_broadcast", "enable_parallel_optimizer", "full_batch"])
def test_a_flag_is_true_or_false(name: str) -> None:
    for wrong in (1, "True", 0):
        with pytest.raises(ConfigurationError, match=f"{name} {wrong!r} must be True or False"):
            context.set_auto_parallel_context(**{name: wrong})


STAGES: list[Any] = [[], [0, 1], [-1], [True, 1], ["1"], [1.0, 1], [1, [0]], [[]], [[0], []], [[0], [0]], [[0], [2]]]


@pytest.mark.parametrize("stages", [*STAGES, [[1], [2]], [[0, 1.0]], [[True, 0]], [[0], 1], [(0,), "1"]], ids=str)
def test_stages_of_unequal_ranks_name_each_rank_once(stages: Any) -> None:
    with pytest.raises(ConfigurationError, match="is neither a number of stages, nor how many ranks each has"):
        context.set_auto_parallel_context(pipeline_stages=stages)


@pytest.mark.parametrize("strategy", ["rows", (), [], ((0, 1),), ((True,),), ((2, 1), [2]), ([2, 1],), ((2, -1),), 3])
def test_a_dataset_strategy_is_a_name_or_cuts_of_each_input(strategy: Any) -> None:
    said = f"set_auto_parallel_context: dataset_strategy {strategy!r} is not one of 'data_parallel', 'full_batch', nor"
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        context.set_auto_parallel_context(dataset_strategy=strategy)


@pytest.mark.parametrize(("strategy", "cuts"), [(((2, 1),), (2, 1)), (((4, 1), (8,)), (8,)), (((3,),), (3,))])
def test_an_input_that_is_cut_in_another_number_of_pieces_than_there_are_devices_is_refused(
    strategy: Any, cuts: tuple[int, ...]
) -> None:
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", device_num=4, dataset_strategy=strategy, full_batch=None
    )
    pieces = cuts[0]
    said = f"{cuts} makes {pieces} pieces, but 4 devices share a batch; cut an input in 4, for a piece each, or in 1"
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        current_configuration()


@pytest.mark.parametrize(("devices", "size"), [(4, 4), (4, 2), (1, 128), (4, -1)])
def test_shards_of_a_parameter_may_be_as_many_as_there_are_devices(devices: int, size: int) -> None:
    context.set_auto_parallel_context(device_num=devices, optimizer_weight_shard_size=size)
    assert current_configuration().optimizer_shard_size == size


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"zzz": 1}, "set_auto_parallel_context: 'zzz' is not a parameter; known are all_reduce_fusion_config, auto_"),
        ({"parallel_mode": "zzz"}, "parallel_mode 'zzz' is not one; did you mean 'stand_alone'?"),
        ({"parallel_mode": 3}, "parallel_mode 3 is not one; did you mean 'stand_alone'?"),
        ({"auto_parallel_search_mode": "zzz"}, "'zzz' is not one; did you mean 'recursive_programming'?"),
        ({"search_mode": "OPTIMA"}, "'OPTIMA' is not one; did you mean 'optimal'?"),
        ({"device_num": 4, "optimizer_weight_shard_size": 5}, "optimizer_weight_shard_size 5 is more than the 4 dev"),
        ({"parallel_optimizer_config": {"zzz": 1}}, "parallel_optimizer_config: 'zzz' is not a parameter; known are g"),
        (
            {"parallel_optimizer_config": {"optimizer_weight_shard_size": 0}},
            "config: optimizer_weight_shard_size 0 must",
        ),
        ({"pipeline_config": {"zzz": 1}}, "pipeline_config: 'zzz' is not a parameter; known are pipeline_interleave"),
        ({"pipeline_config": {"pipeline_scheduler": "zzz"}}, "nor is there a file 'zzz' with a list of actions"),
        ({"strategy_ckpt_config": {"zzz": 1}}, "strategy_ckpt_config: 'zzz' is not a parameter; known are load_file"),
        ({"search_machine": 3}, "search_machine 3 must be a path as text, or '' for none"),
    ],
)
def test_what_is_like_nothing_known_is_refused_with_what_is_known(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        context.set_auto_parallel_context(**settings)


@pytest.mark.parametrize("device", [-1, True, "0", 1.0])
def test_a_device_is_a_number_from_0_on(device: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"device_id {device!r} must be an integer of at least 0"):
        context.set_context(device_id=device)
    context.set_context(device_id=0)
    assert context.get_context("device_id") == 0


def test_a_mode_is_one_of_two() -> None:
    with pytest.raises(ConfigurationError, match=r"mode 2 is neither GRAPH_MODE \(0\) nor PYNATIVE_MODE \(1\)"):
        context.set_context(mode=2)
    for get in (context.get_context, context.get_auto_parallel_context):
        with pytest.raises(ConfigurationError, match=f"{get.__name__}: 'zzz' is not a parameter; known are"):
            get("zzz")


def test_strategies_are_searched_by_the_mode_that_was_said_under_either_name() -> None:
    context.set_auto_parallel_context(search_mode="dynamic_programming")
    assert context.get_auto_parallel_context("auto_parallel_search_mode") == "dynamic_programming"
    context.set_auto_parallel_context(auto_parallel_search_mode="optimal")
    assert context.get_auto_parallel_context("search_mode") == "optimal"
    context.set_auto_parallel_context(gradients_mean=True)
    assert context.get_auto_parallel_context("search_mode") == "optimal"


@pytest.mark.parametrize("last", ["optimal", "dynamic_programming"])
def test_of_two_names_of_the_search_mode_mindspores_newer_one_counts(last: str) -> None:
    context.set_auto_parallel_context(search_mode=last, auto_parallel_search_mode="sharding_propagation")
    for name in ("search_mode", "auto_parallel_search_mode"):
        assert context.get_auto_parallel_context(name) == last


def test_both_files_of_strategies_may_be_named_in_one_setting_and_nothing_else_is_changed_by_it() -> None:
    context.set_auto_parallel_context(strategy_ckpt_config={"load_file": "a.ckpt", "save_file": "b.ckpt"})
    assert context.get_auto_parallel_context("strategy_ckpt_load_file") == "a.ckpt"
    assert context.get_auto_parallel_context("strategy_ckpt_save_file") == "b.ckpt"
    assert not current_configuration().strategy_of_all
    context.set_auto_parallel_context(strategy_ckpt_config={"only_trainable_params": False})
    assert context.get_auto_parallel_context("strategy_ckpt_load_file") == "a.ckpt"


def test_a_file_of_actions_is_read_as_a_schedule_and_one_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "schedule.csv"
    path.write_text(str(make_schedule("1f1b", 2, 4)))
    context.set_auto_parallel_context(pipeline_config={"pipeline_scheduler": str(path)})
    assert current_configuration().pipeline_schedule == make_schedule("1f1b", 2, 4)
    path.write_text("what\n")
    with pytest.raises(ConfigurationError, match=f"^set_auto_parallel_context: pipeline_config: {path}, line 1"):
        context.set_auto_parallel_context(pipeline_config={"pipeline_scheduler": str(path)})
