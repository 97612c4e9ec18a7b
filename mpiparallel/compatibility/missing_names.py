"""Names of MindSpore that are not here, and why."""

from __future__ import annotations

from typing import Final

_REASONS: Final = {
    "recurrent layers are not offered; write the step with ops, or use nn.transformer": "LSTM GRU RNN LSTMCell GRUCell "
    "RNNCell DynamicRNN DynamicGRUV2 BasicLSTMCell CudnnGRU",
    "sparse tensors are not offered; use dense ones, or nn.Embedding": "COOTensor CSRTensor RowTensor SparseTensor "
    "SparseToDense SparseTensorDenseMatmul",
    "1-D, 3-D and transposed convolutions and pooling are not offered; give Conv2d dims of one element": ""
    "Conv1d Conv3d Conv1dTranspose Conv2dTranspose Conv3dTranspose Conv3D Conv2DTranspose Conv2DBackpropInput "
    "BatchNorm3d AvgPool1d AvgPool3d MaxPool1d MaxPool3d MaxPool3D AdaptiveAvgPool1d AdaptiveAvgPool3d "
    "AdaptiveMaxPool1d AdaptiveMaxPool2d",
    "every rank computes BatchNorm over the whole batch, as SyncBatchNorm does; use BatchNorm2d": "SyncBatchNorm",
    "only SGD, Momentum, Adam and AdamWeightDecay are offered; write one as a subclass of nn.Optimizer": "Lamb LARS "
    "RMSProp Adagrad Adadelta AdaMax Adamax FTRL LazyAdam Rprop ASGD ProximalAdagrad AdamOffload AdaSumByDeltaWeight"
    "WrapCell AdaSumByGradWrapCell ConvertToModel thor Adafactor",
    "quantization is not offered": "QuantDtype qint4x2 QuantizationAwareTraining Conv2dQuant DenseQuant hifloat8 "
    "float8_e4m3fn float8_e5m2",
    "graphs are not written as files of MindSpore; print(cell.sharded_graph(x).graph) shows one": ""
    "load_mindir save_mindir set_dump get_func_graph_proto",
    "profiling is that of the launcher: mpiparallel run writes what each rank is doing": "Profiler profiler "
    "SummaryCollector SummaryRecord SummaryLandscape",
    "there are no streams or device memory pools to steer: kernels run in the order of the program": "Stream StreamCtx "
    "Event current_stream default_stream set_cur_stream synchronize communication_stream MemPool empty_cache "
    "memory_allocated max_memory_allocated memory_stats memory_summary set_memory",
    "parameter servers are not offered; all ranks hold parameters, cut by strategies or the parallel optimizer": ""
    "set_param_ps",
    "costs are not weighed: without strategies an operator takes batch parallelism or the layout of its inputs": ""
    "set_algo_parameters get_algo_parameters reset_algo_parameters cost_model_context",
    "networks are not rewritten; change the cell": "SymbolTree Node NodeType ScopedValue ValueType",
    "checkpoints are not obfuscated": "obfuscate_ckpt load_obf_params_into_net",
    "shapes are known when a network is traced, so it is compiled anew for each": "TracedValue enable_dynamic mutable",
    "NumPy itself and ops are there; MindSpore's numpy is not": "numpy scipy mint",
    "hooks into backward passes are not offered; define bprop in the cell": "register_backward_hook "
    "register_backward_pre_hook register_hook InsertGradientOf HookBackward",
}
_BY_NAME: Final = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def reason_for(name: str) -> str | None:
    """Return why a name of MindSpore is not here, None where nothing is known of it.

    >>> reason_for("SyncBatchNorm")
    'every rank computes BatchNorm over the whole batch, as SyncBatchNorm does; use BatchNorm2d'
    """
    return _BY_NAME.get(name)
