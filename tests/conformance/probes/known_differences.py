"""Where arguments that MindSpore has too differ from its own, and why; and which tests try those that no probe does."""

from __future__ import annotations

_TRANSFORMED = "unit/checkpoint/transform/test_transform_checkpoints.py"
_SAVED = "unit/train/persistence/test_checkpoint.py"
_STORED = "unit/train/parameter_files/test_serialization.py"
_LOADED = "unit/train/parameter_files/test_distributed_checkpoint.py"

ELSEWHERE: dict[str, dict[str, str]] = {
    "Model": {"eval_network": "unit/train/test_evaluation.py", "eval_indexes": "unit/train/test_evaluation.py"},
    "Model.build": {"valid_dataset": "unit/train/test_evaluation.py"},
    "amp.custom_mixed_precision": dict.fromkeys(
        ("white_list", "black_list", "dtype"), "unit/train/precision/test_precision_lists.py"
    ),
    "load_checkpoint": {"net": _STORED, "remove_redundancy": _SAVED},
    "load_distributed_checkpoint": dict.fromkeys(
        ("checkpoint_filenames", "predict_strategy", "train_strategy_filename"), _LOADED
    ),
    "load_param_into_net": {"remove_redundancy": _SAVED},
    "merge_sliced_parameter": {"strategy": _STORED},
    "rank_list_for_transform": dict.fromkeys(
        ("src_strategy_file", "dst_strategy_file"), "unit/checkpoint/transform/test_rank_list.py"
    ),
    "save_checkpoint": {"integrated_save": _STORED},
    "transform_checkpoint_by_rank": dict.fromkeys(("src_strategy_file", "dst_strategy_file"), _TRANSFORMED),
    "transform_checkpoints": dict.fromkeys(
        ("src_strategy_file", "dst_strategy_file", "process_num", "output_format"), _TRANSFORMED
    ),
    "nn.Embedding": {"use_one_hot": "unit/nn/test_layers.py"},
    "train.CheckpointConfig": dict.fromkeys(("integrated_save", "saved_network", "remove_redundancy"), _SAVED),
    "train.TimeMonitor": {"data_size": "unit/train/test_model.py"},
}
"""The test below ``tests`` that tries an argument."""

PLACED_OTHERWISE: dict[str, str] = {
    "ops.Conv2DBackpropInput": "the options are in the order of Conv2D; a pad_mode in the place of mode is refused",
    "dataset.Dataset.map": "column_order stands where older versions have it; a number in its place is refused",
    "jit": "function and fn are the same argument under two names",
    "dataset.Dataset": "no program makes one: it is what methods and readers return",
    **dict.fromkeys(("Tensor.amax", "Tensor.amin", "Tensor.norm"), "the same argument under another name"),
}
"""Callables that have an argument at another place, and what keeps a call by place from being silently another."""

_BY_SUFFIX = "the suffix of the file's name tells the format"
_OLDER = "that of MindSpore's versions that the tutorials are written for"
OTHER_DEFAULTS: dict[str, dict[str, str]] = {
    "load_checkpoint": {"format": _BY_SUFFIX},
    "save_checkpoint": {"format": _BY_SUFFIX},
    "transform_checkpoints": {"output_format": "the files are written in the format of those that are read"},
    "dataset.GeneratorDataset": dict.fromkeys(("python_multiprocessing", "max_rowsize"), "they have no effect"),
    "nn.Conv2d": dict.fromkeys(("weight_init", "bias_init"), _OLDER),
    "nn.Dense": dict.fromkeys(("weight_init", "bias_init"), _OLDER),
    "train.CheckpointConfig": {
        "integrated_save": "each rank saves its own slices unless asked otherwise",
        "format": "shards in HDF5 have a digest for each MiB",
    },
    "Model.eval": {"dataset_sink_mode": _OLDER},
    "Model.train": {"dataset_sink_mode": _OLDER},
    **{f"Tensor.{name}": {"axis": "() and None both stand for all dims"} for name in ("amax", "amin")},
}
"""Arguments with another default, and why."""

ABSENT: dict[str, str] = {
    "Parameter": "storage_format device",
    "Tensor.amax": "keepdims initial where",
    "Tensor.amin": "keepdims initial where",
    "Tensor.init_data": "slice_index shape opt_shard_group",
    "Tensor.norm": "dim keepdim",
    "dataset.Dataset": "children num_parallel_workers cache",
    "dataset.GeneratorDataset": "batch_sampler collate_fn",
    "dataset.vision.RandomCrop": "padding_mode",
    "load_distributed_checkpoint": "format unified_safetensors_dir dst_safetensors_dir rank_id output_format "
    "name_map max_process_num return_param_dict",
    "nn.Cell.recompute": "use_reentrant output_recompute early_stop context_fn",
    "nn.DistributedGradReducer": "degree fusion_type group",
    "ops.Conv2DBackpropInput": "pad_list",
    "ops.amax": "initial where",
    "ops.amin": "initial where",
    "ops.max": "initial where",
    "ops.min": "initial where",
}
"""Optional arguments of MindSpore's that are not here: a call with one is a TypeError that names it."""
