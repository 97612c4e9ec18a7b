"""What holds where a program sets nothing, and what each setting changes in the configuration of its networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import context
from mpiparallel.context.settings import current_configuration

PARALLEL: dict[str, Any] = {
    "parallel_mode": "stand_alone",
    "device_num": None,
    "global_rank": None,
    "gradients_mean": False,
    "parameter_broadcast": False,
    "full_batch": None,
    "dataset_strategy": "data_parallel",
    "loss_repeated_mean": True,
    "strategy_ckpt_save_file": "",
    "strategy_ckpt_load_file": "",
    "enable_parallel_optimizer": False,
    "parallel_optimizer_config": {},
    "optimizer_weight_shard_size": -1,
    "pipeline_stages": 1,
    "grad_accumulation_step": 1,
    "force_fp32_communication": False,
    "dump_local_norm": False,
    "dump_device_local_norm": False,
    "auto_pipeline": False,
    "pipeline_interleave": False,
    "pipeline_segments": 1,
    "sharding_propagation": False,
}
GENERAL: dict[str, Any] = {
    "mode": context.GRAPH_MODE,
    "device_target": "CPU",
    "device_id": None,
    "save_graphs": False,
    "save_graphs_path": ".",
    "debug_level": 0,
    "enable_auto_mixed_precision": False,
    "enable_loop_sink": True,
    "enable_mem_reuse": True,
    "enable_sparse": False,
    "enable_task_sink": True,
    "grad_for_scalar": False,
    "load_compile_cache": False,
    "precompile_only": False,
    "save_compile_cache": False,
    "support_binary": False,
}


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    context.reset_auto_parallel_context()
    context.set_context(save_graphs=False, save_graphs_path=".")


@pytest.mark.parametrize(
    ("get", "defaults"), [(context.get_auto_parallel_context, PARALLEL), (context.get_context, GENERAL)]
)
def test_what_nobody_sets_has_its_default(get: Callable[[str], Any], defaults: dict[str, Any]) -> None:
    found = {name: get(name) for name in defaults}
    assert found == defaults
    assert {name: type(value) for name, value in found.items()} == {name: type(one) for name, one in defaults.items()}


def test_to_set_the_defaults_says_nothing(remarks: Callable[[], list[str]]) -> None:
    context.set_context(**{name: value for name, value in GENERAL.items() if value is not None})
    context.set_auto_parallel_context(**{name: value for name, value in PARALLEL.items() if value is not None})
    context.set_auto_parallel_context(parallel_optimizer_config={"gradient_accumulation_shard": False})
    assert remarks() == []


UNSET: dict[str, Any] = {
    "device_num": 1,
    "rank": 0,
    "full_batch": False,
    "input_cuts": (),
    "gradients_mean": False,
    "parameter_broadcast": False,
    "enable_parallel_optimizer": False,
    "optimizer_threshold": 64,
    "optimizer_shard_size": -1,
    "strategy_of_all": False,
    "save_graphs": 0,
    "save_graphs_path": ".",
    "device_id": None,
    "allows_tf32": False,
    "convolves_in_tf32": False,
    "search_memory": inf,
    "search_timeout": inf,
    "pipeline_stages": 1,
    "pipeline_schedule": "",
}
MANY = {"parallel_mode": "semi_auto_parallel", "device_num": 4}


def test_a_network_of_a_program_that_sets_nothing_runs_on_one_device() -> None:
    configuration = current_configuration()
    assert {name: getattr(configuration, name) for name in UNSET} == UNSET


@pytest.mark.parametrize(
    ("settings", "changed"),
    [
        ({"gradients_mean": True}, {"gradients_mean": True}),
        ({"parameter_broadcast": True}, {"parameter_broadcast": True}),
        ({"enable_parallel_optimizer": True}, {"enable_parallel_optimizer": True}),
        ({"parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}, {"optimizer_threshold": 0}),
        ({"optimizer_weight_shard_size": 2}, {"optimizer_shard_size": 2}),
        (
            {"optimizer_weight_shard_size": 2, "parallel_optimizer_config": {"optimizer_weight_shard_size": 4}},
            {"optimizer_shard_size": 4},
        ),
        ({"strategy_ckpt_config": {"only_trainable_params": False}}, {"strategy_of_all": True}),
        ({"strategy_ckpt_config": {"only_trainable_params": True}}, {"strategy_of_all": False}),
        ({"strategy_ckpt_config": {"save_file": "a"}}, {"strategy_save_file": "a"}),
        ({"search_memory_gb": 0.5}, {"search_memory": 5e8}),
        ({"search_timeout": 3}, {"search_timeout": 3.0}),
        ({"search_mode": "optimal"}, {"search_mode": "optimal"}),
        ({"auto_parallel_search_mode": "optimal"}, {"search_mode": "optimal"}),
        ({"group_ckpt_save_file": "groups"}, {"group_info_file": "groups"}),
        ({**MANY, "global_rank": 3}, {"device_num": 4, "rank": 3}),
        ({**MANY, "full_batch": True}, {"full_batch": True}),
        ({**MANY, "dataset_strategy": "full_batch"}, {"full_batch": True}),
        ({**MANY, "dataset_strategy": "full_batch", "full_batch": False}, {"full_batch": False}),
        ({**MANY, "dataset_strategy": ((4, 1), (4,))}, {"full_batch": False, "input_cuts": ()}),
        ({**MANY, "dataset_strategy": ((1, 1), (1,))}, {"full_batch": True, "input_cuts": ()}),
        ({**MANY, "dataset_strategy": [(2, 2), (4,)]}, {"full_batch": False, "input_cuts": ((2, 2), (4,))}),
        ({**MANY, "dataset_strategy": ((4, 1), (1,))}, {"full_batch": False, "input_cuts": ((4, 1), (1,))}),
        (
            {"parallel_mode": "data_parallel", "device_num": 4, "dataset_strategy": ((2, 2),)},
            {"full_batch": False, "input_cuts": ()},
        ),
        ({"parallel_mode": "data_parallel", "device_num": 4, "full_batch": True}, {"full_batch": False}),
        ({**MANY, "pipeline_stages": 2}, {"pipeline_stages": 2, "stage_ranks": ()}),
        ({**MANY, "pipeline_stages": [1, 3]}, {"pipeline_stages": 2, "stage_ranks": ((0,), (1, 2, 3))}),
        ({**MANY, "pipeline_stages": [[2, 0], [3, 1]]}, {"pipeline_stages": 2, "stage_ranks": ((0, 2), (1, 3))}),
        ({**MANY, "pipeline_stages": 2, "dataset_strategy": ((2, 1),)}, {"full_batch": False, "input_cuts": ()}),
        ({"pipeline_config": {"pipeline_interleave": False}}, {"pipeline_schedule": ""}),
        ({"pipeline_config": {"pipeline_scheduler": "1f1b"}}, {"pipeline_schedule": "1f1b"}),
    ],
)
def test_a_setting_changes_what_it_says_of_the_configuration(settings: dict[str, Any], changed: dict[str, Any]) -> None:
    context.set_auto_parallel_context(**settings)
    configuration = current_configuration()
    assert {name: getattr(configuration, name) for name in changed} == changed


@pytest.mark.parametrize(("asked", "level"), [(False, 0), (True, 2), (0, 0), (1, 1), (2, 2), (3, 3)])
def test_graphs_are_written_as_far_as_is_asked(asked: Any, level: int) -> None:
    context.set_context(save_graphs=asked, save_graphs_path="there")
    configuration = current_configuration()
    assert (configuration.save_graphs, configuration.save_graphs_path) == (level, "there")


def test_a_configuration_for_other_devices_is_that_of_the_settings_but_for_their_number() -> None:
    context.set_auto_parallel_context(**MANY)
    assert current_configuration(8).device_num == 8
    assert current_configuration().device_num == 4
    context.set_auto_parallel_context(parallel_mode="stand_alone")
    assert current_configuration().device_num == 1


def test_the_groups_file_is_that_of_the_environment_where_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUP_INFO_FILE", "there")
    assert current_configuration().group_info_file == "there"
    context.set_auto_parallel_context(group_ckpt_save_file="here")
    assert current_configuration().group_info_file == "here"


@pytest.mark.parametrize(("seed", "of_numpy"), [(0, 0), (2**32 - 1, 2**32 - 1), (2**32 + 5, 5), (2**63 - 1, 2**32 - 1)])
def test_a_seed_too_large_for_numpy_is_taken_by_its_last_bits(seed: int, of_numpy: int) -> None:
    ms.set_seed(seed)
    assert ms.get_seed() == seed
    assert np.random.rand() == np.random.RandomState(of_numpy).rand()
    assert ms.manual_seed(seed) == seed
