"""Settings of MindSpore's contexts that change nothing here, and why: a program that sets one is told so once."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final, NamedTuple

from mpiparallel.compatibility.arguments import no_effect


class Accepted(NamedTuple):
    """The value with which nothing is asked for, and why another changes nothing."""

    default: Any
    why: str


_TOGETHER: Final = "small collectives that are ready together travel together anyway"
_EXCHANGE: Final = "a redistribution is always an exchange of what is needed, among the ranks that need it"
_BY_CELLS: Final = "pipeline_stage of the cells says where they are"
_BY_CONFIG: Final = "pipeline_config says it"
_DEVICE_MEMORY: Final = "each program plans its memory before it runs, and takes no more"
_ASCEND: Final = "it is for Ascend processors"
_COMPILER: Final = "it is for MindSpore's compiler"
_THREADS: Final = "the threads of a rank are set by OMP_NUM_THREADS, or by `mpiparallel run`"
_NO_CACHE: Final = "compiling takes about as long as reading a cache would"

PARALLEL: Final = MappingProxyType(
    {
        "all_reduce_fusion_config": Accepted(None, _TOGETHER),
        "auto_pipeline": Accepted(False, _BY_CELLS),
        "comm_fusion": Accepted(None, _TOGETHER),
        "communi_parallel_mode": Accepted("all_group_parallel", "groups exchange as soon as their data are there"),
        "dump_local_norm_path": Accepted("", "no norms are dumped"),
        "enable_alltoall": Accepted(False, _EXCHANGE),
        "gradient_fp32_sync": Accepted(True, "gradients are summed in the dtype that they have"),
        "optimizer_weight_shard_aggregated_save": Accepted(
            False, "each rank saves its shard, and a checkpoint loads on any ranks"
        ),
        "pipeline_interleave": Accepted(False, _BY_CONFIG),
        "pipeline_result_broadcast": Accepted(False, "what a network returns is known on all ranks anyway"),
        "pipeline_scheduler": Accepted("1f1b", _BY_CONFIG),
        "pipeline_segments": Accepted(1, _BY_CELLS),
        "sharding_propagation": Accepted(False, "it belongs to the mode 'auto_parallel'"),
    }
)
OPTIMIZER: Final = MappingProxyType(
    {
        "gradient_accumulation_shard": Accepted(False, "sums of gradients are laid out as what they add"),
        "optimizer_level": Accepted(
            "level1",
            "weights, states and gradients are cut anyway; Cell.recompute(parallel_optimizer_comm_recompute=True) "
            "gathers a weight anew for its gradient",
        ),
    }
)
GENERAL: Final = MappingProxyType(
    {
        "aoe_config": Accepted(None, _ASCEND),
        "aoe_tune_mode": Accepted("", _ASCEND),
        "ascend_config": Accepted(None, _ASCEND),
        "auto_tune_mode": Accepted("NO_TUNE", _ASCEND),
        "check_bprop": Accepted(False, "what a bprop returns is always checked"),
        "compile_cache_path": Accepted("", _NO_CACHE),
        "debug_level": Accepted(0, _COMPILER),
        "deterministic": Accepted("OFF", "every run on the same ranks and cuts gives the same bits"),
        "disable_format_transform": Accepted(False, "images are NCHW throughout"),
        "enable_auto_mixed_precision": Accepted(False, "give Model an amp_level"),
        "enable_compile_cache": Accepted(False, _NO_CACHE),
        "enable_graph_kernel": Accepted(False, "element-wise neighbours are fused anyway"),
        "enable_loop_sink": Accepted(True, "Model.train has dataset_sink_mode"),
        "enable_mem_reuse": Accepted(True, _DEVICE_MEMORY),
        "enable_reduce_precision": Accepted(True, "values keep the dtype that they have"),
        "enable_sparse": Accepted(False, "gradients are dense"),
        "enable_task_sink": Accepted(True, "Model.train has dataset_sink_mode"),
        "env_config_path": Accepted("", _COMPILER),
        "exec_order": Accepted("", _COMPILER),
        "graph_kernel_flags": Accepted("", "element-wise neighbours are fused anyway"),
        "grad_for_scalar": Accepted(False, "gradients are those of tensors"),
        "inter_op_parallel_num": Accepted(0, _THREADS),
        "jit_config": Accepted(None, _COMPILER),
        "jit_syntax_level": Accepted(2, "a network is traced by running its construct once"),
        "load_compile_cache": Accepted(False, _NO_CACHE),
        "max_call_depth": Accepted(1000, "Python's sys.setrecursionlimit says how deep calls may go"),
        "max_device_memory": Accepted("", _DEVICE_MEMORY),
        "memory_offload": Accepted("OFF", "parameters stay where they are computed with"),
        "memory_optimize_level": Accepted("O0", _DEVICE_MEMORY),
        "mempool_block_size": Accepted("1GB", _DEVICE_MEMORY),
        "op_timeout": Accepted(900, "`mpiparallel run --watchdog` says how long a collective may wait"),
        "precompile_only": Accepted(False, "Model.build compiles without a step"),
        "print_file_path": Accepted("", "print writes to the output of its rank"),
        "pynative_synchronize": Accepted(False, "every operator ends before the next begins"),
        "reserve_class_name_in_scope": Accepted(True, "operators are named by their places in the network"),
        "runtime_num_threads": Accepted(30, _THREADS),
        "save_compile_cache": Accepted(False, _NO_CACHE),
        "support_binary": Accepted(False, _COMPILER),
        "variable_memory_max_size": Accepted("", _DEVICE_MEMORY),
    }
)


def say_without_effect(where: str, settings: dict[str, Any], table: MappingProxyType[str, Accepted]) -> None:
    """Say once of each setting in ``table`` that it has no effect, unless it asks for nothing."""
    for name in sorted(settings.keys() & table.keys()):
        value = settings[name]
        if value is not None:
            no_effect(where, name, value, table[name].why, table[name].default)
