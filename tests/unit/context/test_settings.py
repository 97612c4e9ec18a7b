"""The context: wrong names and values are refused with the nearest right one."""

from __future__ import annotations

import threading

import pytest

from mpiparallel import context
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _reset():
    yield
    context.reset_auto_parallel_context()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"paralel_mode": "x"}, "'paralel_mode' is not a parameter; did you mean 'parallel_mode'"),
        ({"parallel_mode": "semi_auto"}, "did you mean 'semi_auto_parallel'"),
        ({"parallel_mode": "DATA_PARALLEL"}, "did you mean 'data_parallel'"),
        ({"full_batch": "False"}, "full_batch 'False' must be True or False"),
        ({"gradients_mean": "yes"}, "gradients_mean 'yes' must be True or False"),
        ({"loss_repeated_mean": False}, "loss_repeated_mean False is not implemented yet; use True"),
        ({"strategy_ckpt_save_file": 3}, "strategy_ckpt_save_file 3 must be a path as text"),
        ({"device_num": True}, "device_num True must be an integer of at least 1"),
        ({"global_rank": -1}, "global_rank -1 must be an integer of at least 0"),
        ({"optimizer_weight_shard_size": 0}, "optimizer_weight_shard_size 0 must be at least 1, or -1"),
        ({"optimizer_weight_shard_size": "a"}, "optimizer_weight_shard_size 'a' must be an integer"),
        ({"parallel_optimizer_config": None}, "parallel_optimizer_config None must be a dict"),
        ({"parallel_optimizer_config": {"parallel_optimizer_threshold": -5}}, "-5 must be an integer of at least 0"),
        ({"auto_parallel_search_mode": "recursive"}, "did you mean 'recursive_programming'"),
        ({"device_num": 32, "optimizer_weight_shard_size": 128}, "128 is more than the 32 devices"),
        (
            {"device_num": 4, "parallel_optimizer_config": {"optimizer_weight_shard_size": 8}},
            "optimizer_weight_shard_size 8 is more than the 4 devices",
        ),
        ({"device_num": 0}, "device_num 0 must be an integer of at least 1"),
        ({"dataset_strategy": "full"}, "dataset_strategy 'full' is not one of 'data_parallel', 'full_batch'"),
        ({"parallel_optimizer_config": {"treshold": 1}}, "'treshold' is not a parameter"),
        ({"pipeline_stages": 0}, "pipeline_stages 0 must be an integer of at least 1"),
        ({"pipeline_config": "1f1b"}, "pipeline_config '1f1b' must be a dict of pipeline_interleave, pipeline_schedul"),
        ({"pipeline_config": {"scheduler": "1f1b"}}, "did you mean 'pipeline_scheduler'"),
        ({"pipeline_config": {"pipeline_scheduler": "2f2b"}}, "there is no schedule"),
        ({"pipeline_config": {"pipeline_interleave": "yes"}}, "pipeline_interleave 'yes' must be True or False"),
        ({"parallel_optimizer_config": {"optimizer_level": "level4"}}, "'level4' is not one of level1, level2, level3"),
        ({"dataset_strategy": ()}, "nor a tuple of the cuts of each input"),
        ({"dataset_strategy": ((2, "1"),)}, "nor a tuple of the cuts of each input"),
        ({"force_fp32_communication": True}, "force_fp32_communication True is not implemented yet; use False"),
        ({"dump_local_norm": True}, "dump_local_norm True is not implemented yet; use False"),
        ({"strategy_ckpt_config": {"safe_file": "x"}}, "did you mean 'save_file'"),
        ({"strategy_ckpt_config": {"save_file": 3}}, "strategy_ckpt_save_file 3 must be a path as text"),
        ({"strategy_ckpt_config": "strategy.ckpt"}, "strategy_ckpt_config .strategy.ckpt. must be a dict of"),
        ({"search_mode": "propagation"}, "did you mean 'sharding_propagation'"),
    ],
)
def test_wrong_parallel_settings_are_refused(settings, message) -> None:
    with pytest.raises(ConfigurationError, match=message):
        context.set_auto_parallel_context(**settings)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'device_target'"):
        context.set_context(device_taget="CPU")
    with pytest.raises(ConfigurationError, match="'TPU' is not one of"):
        context.set_context(device_target="TPU")
    with pytest.raises(ConfigurationError, match="device_id 'zero' must be an integer"):
        context.set_context(device_id="zero")
    with pytest.raises(ConfigurationError, match="save_graphs_path 3 must be a folder"):
        context.set_context(save_graphs_path=3)
    with pytest.raises(ConfigurationError, match="save_graphs 4 is not one of 0, 1, 2, 3, True"):
        context.set_context(save_graphs=4)
    with pytest.raises(ConfigurationError, match="must be an integer"):
        context.set_seed(-1)
    with pytest.raises(ConfigurationError, match="gpu_config 'fast' must be a dict"):
        context.set_context(gpu_config="fast")
    with pytest.raises(ConfigurationError, match="did you mean 'matmul_allow_tf32'"):
        context.set_context(gpu_config={"matmul_tf32": True})
    with pytest.raises(ConfigurationError, match="matmul_allow_tf32 1 must be True or False"):
        context.set_context(gpu_config={"matmul_allow_tf32": 1})


def test_factors_of_products_are_rounded_only_where_the_user_has_asked_for_it() -> None:
    assert not current_configuration().allows_tf32
    context.set_context(gpu_config={"matmul_allow_tf32": True})
    assert current_configuration().allows_tf32
    context.set_context(gpu_config={})
    assert not current_configuration().allows_tf32


def test_factors_of_convolutions_have_a_switch_of_their_own() -> None:
    context.set_context(gpu_config={"conv_allow_tf32": True})
    assert current_configuration().convolves_in_tf32
    assert not current_configuration().allows_tf32
    context.set_context(gpu_config={"matmul_allow_tf32": True})
    assert not current_configuration().convolves_in_tf32
    with pytest.raises(ConfigurationError, match="conv_allow_tf32 'yes' must be True or False"):
        context.set_context(gpu_config={"conv_allow_tf32": "yes"})


def test_reset_brings_the_defaults_back() -> None:
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8, full_batch=True)
    assert current_configuration().device_num == 8
    context.reset_auto_parallel_context()
    assert current_configuration().device_num == 1
    assert context.get_auto_parallel_context("parallel_mode") == "stand_alone"


def test_threads_have_settings_of_their_own() -> None:
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8)
    found = []
    thread = threading.Thread(target=lambda: found.append(current_configuration().device_num))
    thread.start()
    thread.join()
    assert found == [1]


@pytest.mark.parametrize("name", ["search_timeout", "search_memory_gb"])
def test_a_search_may_have_less_than_a_second_or_a_gigabyte(name: str) -> None:
    context.set_auto_parallel_context(**{name: 0.25})
    assert context.get_auto_parallel_context(name) == 0.25
