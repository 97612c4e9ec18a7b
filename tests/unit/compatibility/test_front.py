"""The doors that a MindSpore user walks through, and that the first of them opens without NumPy."""

from __future__ import annotations

import importlib
import sys

import pytest

import mpiparallel
from tests.conformance import patience

DOORS = {
    "mpiparallel": "Tensor Parameter ParameterTuple Model context ops nn dataset dtype set_seed set_context float32 "
    "set_auto_parallel_context restore_group_info_list build_searched_strategy load_checkpoint load_param_into_net "
    "save_checkpoint load_distributed_checkpoint merge_sliced_parameter merge_pipeline_strategys "
    "rank_list_for_transform transform_checkpoints transform_checkpoint_by_rank",
    "mpiparallel.common.initializer": "initializer Normal XavierUniform TruncatedNormal HeNormal Zero One Uniform",
    "mpiparallel.common": "dtype Parameter Tensor",
    "mpiparallel.common.dtype": "float16 float32 int32 bool_ dtype_to_nptype",
    "mpiparallel.common.parameter": "Parameter ParameterTuple",
    "mpiparallel.common.tensor": "Tensor",
    "mpiparallel.context": "ParallelMode set_auto_parallel_context reset_auto_parallel_context GRAPH_MODE",
    "mpiparallel.communication": "init get_rank get_group_size",
    "mpiparallel.communication.management": "init get_rank get_group_size create_group GlobalComm",
    "mpiparallel.dataset": "GeneratorDataset NumpySlicesDataset config",
    "mpiparallel.dataset.transforms.c_transforms": "TypeCast",
    "mpiparallel.dtype": "float16 float32 int32 bool_",
    "mpiparallel.nn": "Cell Dense LayerNorm Embedding Dropout Momentum SGD Adam AdamWeightDecay WithLossCell "
    "TrainOneStepCell CellList SequentialCell SoftmaxCrossEntropyWithLogits MSELoss",
    "mpiparallel.nn.transformer": "Transformer VocabEmbedding AttentionMask CrossEntropyLoss MultiHeadAttention "
    "TransformerOpParallelConfig TransformerEncoderLayer TransformerDecoderLayer",
    "mpiparallel.ops": "MatMul BatchMatMul ReduceSum GradOperation grad value_and_grad softmax AllReduce AllGather "
    "ReduceScatter AlltoAll Broadcast ReduceOp Softmax LayerNorm Gather Dropout GeLU",
    "mpiparallel.ops.functional": "matmul relu grad value_and_grad cast reshape",
    "mpiparallel.ops.operations": "MatMul Add ReLU Reshape Transpose AllReduce",
    "mpiparallel.train": "Model Callback LossMonitor TimeMonitor ModelCheckpoint CheckpointConfig",
    "mpiparallel.train.callback": "LossMonitor TimeMonitor ModelCheckpoint CheckpointConfig Callback RunContext",
    "mpiparallel.train.model": "Model",
}


@pytest.mark.parametrize("module", DOORS)
def test_mindspore_names_are_in_mindspore_modules(module) -> None:
    opened = importlib.import_module(module)
    for name in DOORS[module].split():
        assert getattr(opened, name) is not None


def test_every_public_name_can_be_loaded_and_is_listed() -> None:
    for name in mpiparallel.__all__:
        assert getattr(mpiparallel, name) is not None
    assert dir(mpiparallel) == sorted(mpiparallel.__all__)
    with pytest.raises(AttributeError, match="mpiparallel has no 'Tensr'; did you mean 'Tensor'"):
        mpiparallel.Tensr  # noqa: B018


def test_importing_the_package_and_its_launcher_loads_neither_numpy_nor_mpi() -> None:
    code = "import sys, mpiparallel.launch.cli; print(sorted({'numpy', 'mpi4py', 'h5py'} & set(sys.modules)))"
    done = patience.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_rank_that_only_communicates_loads_no_operators() -> None:
    code = "import sys; from mpiparallel import communication; from mpiparallel.communication import init, threads; "
    code += "print([name for name in sys.modules if name.startswith(('mpiparallel.ops', 'mpiparallel.nn'))])"
    done = patience.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("first", "printed"),
    [
        ("ms.Tensor([1.0, 2.0]) * 2", "[2.0, 4.0]"),
        ("ms.Tensor([1.0, 2.0])[1]", "2.0"),
        ("ms.Parameter([1.0, 2.0]).sum()", "3.0"),
    ],
)
def test_a_tensor_can_do_sums_as_the_first_thing_in_a_process(first: str, printed: str) -> None:
    code = f"import mpiparallel as ms; print(({first}).asnumpy().tolist())"
    done = patience.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed
