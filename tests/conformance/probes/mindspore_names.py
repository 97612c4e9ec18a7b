"""Every name of MindSpore's in the tutorials and their samples, more that users write, and what differs here."""

from __future__ import annotations

from typing import Final

# A module or a class of MindSpore's, and its names.
NAMES: Final[dict[str, str]] = {
    "mindspore": ""
    "CheckpointConfig DatasetHelper GRAPH_MODE LossMonitor Model ModelCheckpoint ParallelMode Parameter "
    "ParameterTuple Tensor TimeMonitor bfloat16 bool_ build_searched_strategy communication "
    "connect_network_with_dataset context dataset dtype dtype_to_nptype export float16 float32 float_ "
    "from_numpy get_auto_parallel_context int32 int_ jit load_checkpoint load_distributed_checkpoint "
    "load_param_into_net merge_pipeline_strategys merge_sliced_parameter ms_function nn number ops "
    "pytype_to_dtype rank_list_for_transform reset_auto_parallel_context restore_group_info_list "
    "save_checkpoint set_auto_parallel_context set_context set_device set_ps_context set_seed tensor_type "
    "train transform_checkpoint_by_rank transform_checkpoints",
    "mindspore.ParallelMode": "AUTO_PARALLEL DATA_PARALLEL SEMI_AUTO_PARALLEL",
    "mindspore.Parameter": "clone init_data set_data",
    "mindspore.Tensor": "asnumpy astype init_data set_dtype sum transpose",
    "mindspore._c_expression": "init_exec_dataset",
    "mindspore.boost": "GradientAccumulation",
    "mindspore.common.api": "jit ms_function",
    "mindspore.common": "dtype set_seed",
    "mindspore.common.dtype": "float32 int32 pytype_to_dtype",
    "mindspore.common.initializer": ""
    "Constant Dirac HeNormal HeUniform Identity Normal One Orthogonal Sparse TruncatedNormal Uniform "
    "VarianceScaling XavierNormal XavierUniform Zero initializer",
    "mindspore.communication": "get_group_size get_rank init",
    "mindspore.communication.management": "get_group_size get_rank init",
    "mindspore.context": ""
    "GRAPH_MODE ParallelMode get_auto_parallel_context get_context reset_auto_parallel_context "
    "set_auto_parallel_context set_context",
    "mindspore.context.ParallelMode": "AUTO_PARALLEL DATA_PARALLEL SEMI_AUTO_PARALLEL",
    "mindspore.dataset": "Cifar10Dataset GeneratorDataset MnistDataset config transforms vision",
    "mindspore.dataset.config": "set_seed",
    "mindspore.dataset.transforms": "TypeCast c_transforms",
    "mindspore.dataset.transforms.c_transforms": "TypeCast",
    "mindspore.dataset.vision": ""
    "HWC2CHW Inter Normalize RandomCrop RandomHorizontalFlip Rescale Resize SlicePatches c_transforms",
    "mindspore.dataset.vision.c_transforms": ""
    "HWC2CHW Normalize RandomCrop RandomHorizontalFlip Rescale Resize SlicePatches",
    "mindspore.dtype": "float16 float32 int32",
    "mindspore.nn": ""
    "Adam AdamWeightDecay AvgPool2d BCELoss BatchNorm1d BatchNorm2d Cell CellList Conv2d CrossEntropyLoss "
    "Dense Dropout ELU Embedding HSigmoid HSwish HuberLoss Identity KLDivLoss L1Loss LayerNorm LeakyReLU "
    "LogSoftmax MSELoss MaxPool2d Mish Momentum NLLLoss PReLU PipelineCell ReLU6 SGD SequentialCell SiLU "
    "SmoothL1Loss SoftmaxCrossEntropyWithLogits TrainOneStepCell TrainOneStepWithLossScaleCell "
    "WithLossCell",
    "mindspore.nn.Cell": "apply infer_param_pipeline_stage recompute set_comm_fusion shard to_float",
    "mindspore.nn.layer.basic": "Dense",
    "mindspore.nn.loss": "SoftmaxCrossEntropyWithLogits",
    "mindspore.nn.optim.adam": "Adam",
    "mindspore.nn.optim.momentum": "Momentum",
    "mindspore.nn.transformer": "AttentionMask CrossEntropyLoss Transformer TransformerOpParallelConfig VocabEmbedding",
    "mindspore.nn.wrap.cell_wrapper": "WithLossCell",
    "mindspore.nn.wrap.grad_reducer": "DistributedGradReducer",
    "mindspore.nn.wrap.loss_scale": "_grad_scale",
    "mindspore.ops": ""
    "Add AllReduce Cast Custom DType Div Exp Fill GradOperation HyperMap Identity Log LogicalOr MatMul Mul "
    "MultitypeFuncGraph NotEqual OneHot Partial Primitive ReLU RealDiv ReduceMax ReduceMean ReduceSum "
    "Reshape Select Shape Split Squeeze Sub ZerosLike assign assign_add cast cross_entropy depend dtype "
    "grad max ones_like partial relu scalar_to_array scalar_to_tensor shape softmax split stop_gradient "
    "value_and_grad zeros",
    "mindspore.ops.Primitive": "add_prim_attr set_stage shard",
    "mindspore.ops.composite": "GradOperation",
    "mindspore.ops.function.math_func": "matmul",
    "mindspore.ops.functional": "cast",
    "mindspore.ops.operations": "MatMul",
    "mindspore.ops.operations.comm_ops": "_VirtualDataset",
    "mindspore.ops.primitive": "constexpr",
    "mindspore.parallel._auto_parallel_context": "auto_parallel_context",
    "mindspore.parallel._utils": "_need_to_full _to_full_tensor",
    "mindspore.parallel.nn": "AttentionMask CrossEntropyLoss Transformer TransformerOpParallelConfig VocabEmbedding",
    "mindspore.train": "Accuracy CheckpointConfig LossMonitor Model ModelCheckpoint TimeMonitor",
    "mindspore.train.callback": "CheckpointConfig LossMonitor ModelCheckpoint RunContext TimeMonitor",
    "mindspore.train.train_thor.dataset_helper": "DatasetHelper",
}

DIFFERENCES: Final[dict[str, str]] = {
    "mindspore.Tensor": "`print(x.dtype)` is MindSpore's; the type is also NumPy's dtype",
    "mindspore.Tensor.set_dtype": "returns a tensor of the type, and leaves this one",
    "mindspore.Tensor.transpose": "two numbers are exchanged, as in MindSpore 2; else the order of all dims",
    "mindspore.bfloat16": "`asnumpy` gives an array of `ml_dtypes.bfloat16`",
    "mindspore.int_": "a name for all types of its kind; no type of an element",
    "mindspore.float_": "a name for all types of its kind; no type of an element",
    "mindspore.number": "a name for all types of its kind; no type of an element",
    "mindspore.tensor_type": "a name; no type of an element",
    "mindspore.jit": "options have no effect, which is said once",
    "mindspore.ms_function": "options have no effect, which is said once",
    "mindspore.set_seed": "the same numbers on any cut; not MindSpore's numbers",
    "mindspore.set_context": 'what has no effect says so once; `"Ascend"` is the device of the rank',
    "mindspore.context.set_context": 'what has no effect says so once; `"Ascend"` is the device of the rank',
    "mindspore.set_auto_parallel_context": "what has no effect says so once",
    "mindspore.CheckpointConfig": "slices of each rank unless `integrated_save=True`; they load into any cut",
    "mindspore.load_param_into_net": "takes a rank's slices, whole tensors, or slices of a checkpoint cut otherwise",
    "mindspore.context.set_auto_parallel_context": "what has no effect says so once",
    "mindspore.common.initializer.initializer": "values depend on seed, name and index only; each rank makes its own",
    "mindspore.common.initializer.Orthogonal": "every rank makes the whole, as each element depends on all",
    "mindspore.common.initializer.VarianceScaling": "`truncated_normal` is cut off at two deviations, as documented",
    "mindspore.communication.init": "joins the MPI job; no backend is to be named",
    "mindspore.nn.BatchNorm1d": "statistics are those of the whole batch under every cut",
    "mindspore.nn.BatchNorm2d": "statistics are those of the whole batch under every cut",
    "mindspore.nn.Conv2d": "first values are `normal`, as up to MindSpore 2.0",
    "mindspore.nn.Dense": "first values are `normal` and `zeros`, as up to MindSpore 2.0",
    "mindspore.nn.PipelineCell": "the loss is the mean of those of the micro-batches; no `segment_config`",
    "mindspore.nn.Cell.infer_param_pipeline_stage": "the parameters of all stages: an optimizer takes them all",
    "mindspore.nn.Cell.shard": "lays inputs and outputs out; no `parameter_plan`; returns the cell",
    "mindspore.nn.Cell.recompute": "collectives run again with what is recomputed",
    "mindspore.ops.Primitive": "the base of operators; one of your own says `infer`, `equation` and `kernel`",
    "mindspore.ops.Primitive.add_prim_attr": "no effect, which is said once",
    "mindspore.ops.Primitive.set_stage": "stage 0 only",
    "mindspore.ops.depend": "everything is done in the order in which it is written",
    "mindspore.ops.split": "as in MindSpore 2; `output_num=` for equal pieces, as before",
    "mindspore.ops.max": "the value and its index, as in MindSpore 2",
    "mindspore._c_expression.init_exec_dataset": "refused: there is no queue of batches on a device",
    "mindspore.parallel._utils._need_to_full": "False: a rank's batch is its piece of the whole",
    "mindspore.parallel._auto_parallel_context.auto_parallel_context": "fusion settings have no effect, which is said",
    "mindspore.ops.operations.comm_ops._VirtualDataset": "returns its inputs",
    "mindspore.common.dtype.pytype_to_dtype": "ConfigurationError, not NotImplementedError, for other types",
}
"""What is not as in MindSpore, for names above."""


def paths() -> list[str]:
    """Return every name with its path."""
    return [f"{module}.{name}" for module, names in NAMES.items() for name in names.split()]
