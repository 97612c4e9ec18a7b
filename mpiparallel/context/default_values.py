"""What is set where the user has set nothing."""

from __future__ import annotations

from typing import Any, Final

from mpiparallel.context.accepted import GENERAL, PARALLEL
from mpiparallel.parallel.configuration import ParallelMode

GRAPH_MODE: Final = 0
PYNATIVE_MODE: Final = 1

PARALLEL_DEFAULTS: Final[dict[str, Any]] = {
    "parallel_mode": ParallelMode.STAND_ALONE,
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
    "pipeline_config": None,
    "grad_accumulation_step": 1,
    "auto_parallel_search_mode": "recursive_programming",
    "search_mode": "recursive_programming",
    "search_timeout": None,
    "search_machine": "",
    "search_memory_gb": None,
    "group_ckpt_save_file": "",
    "strategy_ckpt_config": {},
    "force_fp32_communication": False,
    "dump_local_norm": False,
    "dump_device_local_norm": False,
    **{name: accepted.default for name, accepted in PARALLEL.items()},
}

CONTEXT_DEFAULTS: Final[dict[str, Any]] = {
    "mode": GRAPH_MODE,
    "device_target": "CPU",
    "device_id": None,
    "gpu_config": {},
    "save_graphs": False,
    "save_graphs_path": ".",
    **{name: accepted.default for name, accepted in GENERAL.items()},
}
