"""Settings that MindSpore has: each is done, refused, or said to change nothing."""

from __future__ import annotations

import pytest

import mpiparallel as ms
from mpiparallel import context
from mpiparallel.context.accepted import GENERAL, OPTIMIZER, PARALLEL
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError

# What MindSpore 2.10's two functions know, but for what is internal or gone there.
PARALLEL_OF_MINDSPORE = """
all_reduce_fusion_config auto_parallel_search_mode auto_pipeline comm_fusion communi_parallel_mode dataset_strategy
device_num dump_device_local_norm dump_local_norm dump_local_norm_path enable_alltoall enable_parallel_optimizer
force_fp32_communication full_batch global_rank grad_accumulation_step gradient_fp32_sync gradients_mean
group_ckpt_save_file loss_repeated_mean optimizer_weight_shard_aggregated_save optimizer_weight_shard_size
parallel_mode parallel_optimizer_config parameter_broadcast pipeline_config pipeline_result_broadcast pipeline_segments
pipeline_stages search_mode sharding_propagation strategy_ckpt_config strategy_ckpt_load_file strategy_ckpt_save_file
"""
GENERAL_OF_MINDSPORE = """
mode device_id device_target deterministic max_call_depth variable_memory_max_size mempool_block_size
memory_optimize_level max_device_memory pynative_synchronize compile_cache_path inter_op_parallel_num
disable_format_transform jit_syntax_level jit_config exec_order op_timeout aoe_tune_mode aoe_config runtime_num_threads
save_graphs save_graphs_path enable_compile_cache ascend_config gpu_config print_file_path env_config_path debug_level
reserve_class_name_in_scope check_bprop enable_reduce_precision enable_graph_kernel graph_kernel_flags memory_offload
"""


@pytest.mark.parametrize("name", PARALLEL_OF_MINDSPORE.split())
def test_every_parallel_setting_of_mindspore_is_known(name) -> None:
    context.get_auto_parallel_context(name)


@pytest.mark.parametrize("name", GENERAL_OF_MINDSPORE.split())
def test_every_setting_of_mindspores_context_is_known(name) -> None:
    context.get_context(name)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("enable_alltoall", False),
        ("gradient_fp32_sync", True),
        ("optimizer_weight_shard_aggregated_save", False),
        ("pipeline_result_broadcast", False),
    ],
)
def test_a_setting_without_effect_has_mindspores_default(name, default) -> None:
    assert context.get_auto_parallel_context(name) is default


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("check_bprop", False),
        ("deterministic", "OFF"),
        ("disable_format_transform", False),
        ("enable_compile_cache", False),
        ("enable_graph_kernel", False),
        ("enable_reduce_precision", True),
        ("inter_op_parallel_num", 0),
        ("jit_syntax_level", 2),  # LAX
        ("max_call_depth", 1000),
        ("memory_offload", "OFF"),
        ("memory_optimize_level", "O0"),
        ("mempool_block_size", "1GB"),
        ("op_timeout", 900),
        ("pynative_synchronize", False),
        ("reserve_class_name_in_scope", True),
        ("runtime_num_threads", 30),
    ],
)
def test_mindspores_default_of_a_general_setting_is_taken_in_silence(name, default, remarks) -> None:
    assert context.get_context(name) == default
    context.set_context(**{name: default})
    assert remarks() == []


def other_than(default):
    return not default if isinstance(default, bool) else "something else"


@pytest.mark.parametrize("name", PARALLEL)
def test_a_parallel_setting_without_effect_says_so(name, remarks) -> None:
    context.set_auto_parallel_context(**{name: PARALLEL[name].default})
    assert remarks() == []
    context.set_auto_parallel_context(**{name: other_than(PARALLEL[name].default)})
    assert [f"set_auto_parallel_context: {name}=" in line for line in remarks()] == [True]
    assert PARALLEL[name].why in remarks()[0]


@pytest.mark.parametrize("name", GENERAL)
def test_a_setting_without_effect_says_so(name, remarks) -> None:
    context.set_context(**{name: other_than(GENERAL[name].default)})
    assert [f"set_context: {name}=" in line and GENERAL[name].why in line for line in remarks()] == [True]


@pytest.mark.parametrize(("name", "value"), [("gradient_accumulation_shard", True), ("optimizer_level", "level3")])
def test_an_option_of_the_parallel_optimizer_without_effect_says_so(name, value, remarks) -> None:
    context.set_auto_parallel_context(parallel_optimizer_config={name: value})
    assert [OPTIMIZER[name].why in line for line in remarks()] == [True]


@pytest.mark.parametrize(
    ("strategy", "devices", "full", "rows"),
    [
        (((1, 1), (1,)), 4, True, 1),
        (((4, 1), (4,)), 4, False, 4),
        (((8, 1, 1), (8, 1)), 8, False, 8),
        (((1,),), 1, True, 1),
        (((1, 1, 1, 8), (1,)), 8, False, 1),
        (((2, 4), (8,)), 8, False, 2),
    ],
)
def test_a_tuple_as_dataset_strategy_says_what_ranks_are_fed(strategy, devices, full, rows) -> None:
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", device_num=devices, global_rank=0, dataset_strategy=strategy
    )
    assert (current_configuration().full_batch, current_configuration().batch_pieces) == (full, rows)


@pytest.mark.parametrize("strategy", [((4, 1),), ((2, 2), (1,)), ((8, 1), (2,))])
def test_a_dataset_strategy_for_other_devices_is_refused(strategy) -> None:
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", device_num=8, global_rank=0, dataset_strategy=strategy
    )
    with pytest.raises(ConfigurationError, match=r"makes [24] pieces, but 8 devices share a batch; cut an input in 8"):
        current_configuration()


def test_settings_of_two_names_are_one() -> None:
    context.set_auto_parallel_context(
        strategy_ckpt_config={"save_file": "made.ckpt", "only_trainable_params": False},
        search_mode="sharding_propagation",
        group_ckpt_save_file="group.pb",
    )
    assert context.get_auto_parallel_context("strategy_ckpt_save_file") == "made.ckpt"
    assert context.get_auto_parallel_context("auto_parallel_search_mode") == "sharding_propagation"
    configuration = current_configuration()
    assert (configuration.strategy_save_file, configuration.group_info_file) == ("made.ckpt", "group.pb")
    assert configuration.strategy_of_all


def test_what_asks_for_none_is_taken_and_the_rest_refused() -> None:
    ms.set_ps_context(enable_ps=False, enable_ssl=False)
    ms.reset_ps_context()
    assert ms.get_ps_context("enable_ps") is False
    with pytest.raises(ConfigurationError, match="enable_ps=True: there are no parameter servers here"):
        ms.set_ps_context(enable_ps=True)
    for wrong in (ms.set_ps_context, lambda **given: ms.get_ps_context(next(iter(given)))):
        with pytest.raises(ConfigurationError, match="'server_num' is not a parameter"):
            wrong(server_num=1)
