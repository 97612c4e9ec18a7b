"""mpiparallel: train one network on many MPI ranks, cut any way, and move its live state.

The public names are MindSpore's. They are loaded when they are first used. So launching needs neither NumPy nor MPI,
and each rank can choose its BLAS kernels before NumPy starts.

>>> import mpiparallel as ms
>>> (ms.Tensor([1.0, 2.0]) * 2).asnumpy().tolist()
[2.0, 4.0]
"""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from mpiparallel.backend.collector_pause import collector_paused
from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.compatibility.mindspore_paths import install
from mpiparallel.launch.version import VERSION as __version__  # noqa: N811

if TYPE_CHECKING:
    from mpiparallel import communication as communication
    from mpiparallel import context as context
    from mpiparallel import dataset as dataset
    from mpiparallel import dtype as dtype
    from mpiparallel import nn as nn
    from mpiparallel import ops as ops
    from mpiparallel import train as train
    from mpiparallel.checkpoint.strategy.group_file import restore_group_info_list as restore_group_info_list
    from mpiparallel.checkpoint.strategy.merged_stages import merge_pipeline_strategys as merge_pipeline_strategys
    from mpiparallel.checkpoint.strategy.replica_groups import (
        restore_parameter_group_info as restore_parameter_group_info,
    )
    from mpiparallel.checkpoint.strategy.strategy_file import build_searched_strategy as build_searched_strategy
    from mpiparallel.checkpoint.transform.checkpoints import (
        transform_checkpoint_by_rank as transform_checkpoint_by_rank,
    )
    from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoints as transform_checkpoints
    from mpiparallel.checkpoint.transform.rank_list import rank_list_for_transform as rank_list_for_transform
    from mpiparallel.context import GRAPH_MODE as GRAPH_MODE
    from mpiparallel.context import PYNATIVE_MODE as PYNATIVE_MODE
    from mpiparallel.context import ParallelMode as ParallelMode
    from mpiparallel.context import get_auto_parallel_context as get_auto_parallel_context
    from mpiparallel.context import get_context as get_context
    from mpiparallel.context import get_ps_context as get_ps_context
    from mpiparallel.context import get_seed as get_seed
    from mpiparallel.context import initial_seed as initial_seed
    from mpiparallel.context import manual_seed as manual_seed
    from mpiparallel.context import reset_auto_parallel_context as reset_auto_parallel_context
    from mpiparallel.context import reset_ps_context as reset_ps_context
    from mpiparallel.context import set_auto_parallel_context as set_auto_parallel_context
    from mpiparallel.context import set_context as set_context
    from mpiparallel.context import set_device as set_device
    from mpiparallel.context import set_ps_context as set_ps_context
    from mpiparallel.context import set_seed as set_seed
    from mpiparallel.dtype import bfloat16 as bfloat16
    from mpiparallel.dtype import bool_ as bool_
    from mpiparallel.dtype import byte as byte
    from mpiparallel.dtype import cdouble as cdouble
    from mpiparallel.dtype import cfloat as cfloat
    from mpiparallel.dtype import complex64 as complex64
    from mpiparallel.dtype import complex128 as complex128
    from mpiparallel.dtype import double as double
    from mpiparallel.dtype import dtype_to_nptype as dtype_to_nptype
    from mpiparallel.dtype import dtype_to_pytype as dtype_to_pytype
    from mpiparallel.dtype import float16 as float16
    from mpiparallel.dtype import float32 as float32
    from mpiparallel.dtype import float64 as float64
    from mpiparallel.dtype import float_ as float_
    from mpiparallel.dtype import get_py_obj_dtype as get_py_obj_dtype
    from mpiparallel.dtype import half as half
    from mpiparallel.dtype import int8 as int8
    from mpiparallel.dtype import int16 as int16
    from mpiparallel.dtype import int32 as int32
    from mpiparallel.dtype import int64 as int64
    from mpiparallel.dtype import int_ as int_
    from mpiparallel.dtype import intc as intc
    from mpiparallel.dtype import intp as intp
    from mpiparallel.dtype import list_ as list_
    from mpiparallel.dtype import long as long
    from mpiparallel.dtype import number as number
    from mpiparallel.dtype import pytype_to_dtype as pytype_to_dtype
    from mpiparallel.dtype import short as short
    from mpiparallel.dtype import single as single
    from mpiparallel.dtype import string as string
    from mpiparallel.dtype import tensor_type as tensor_type
    from mpiparallel.dtype import tuple_ as tuple_
    from mpiparallel.dtype import type_none as type_none
    from mpiparallel.dtype import ubyte as ubyte
    from mpiparallel.dtype import uint as uint
    from mpiparallel.dtype import uint8 as uint8
    from mpiparallel.dtype import uint16 as uint16
    from mpiparallel.dtype import uint32 as uint32
    from mpiparallel.dtype import uint64 as uint64
    from mpiparallel.dtype import uintc as uintc
    from mpiparallel.dtype import uintp as uintp
    from mpiparallel.dtype import ushort as ushort
    from mpiparallel.graph.parameter import Parameter as Parameter
    from mpiparallel.graph.tensor import Tensor as Tensor
    from mpiparallel.nn.cell import ParameterTuple as ParameterTuple
    from mpiparallel.nn.initializer import initializer as initializer
    from mpiparallel.nn.wrap import gradient_accumulation as boost
    from mpiparallel.ops.functional import from_numpy as from_numpy
    from mpiparallel.ops.functional import is_tensor as is_tensor
    from mpiparallel.ops.functional import tensor as tensor
    from mpiparallel.ops.gradients.gradient import grad as grad
    from mpiparallel.ops.gradients.gradient import value_and_grad as value_and_grad
    from mpiparallel.ops.just_in_time import jit as jit
    from mpiparallel.ops.just_in_time import ms_function as ms_function
    from mpiparallel.ops.randomness.random_state import get_rng_state as get_rng_state
    from mpiparallel.ops.randomness.random_state import set_rng_state as set_rng_state
    from mpiparallel.train import amp as amp
    from mpiparallel.train.amp import build_train_network as build_train_network
    from mpiparallel.train.callback import Callback as Callback
    from mpiparallel.train.callback import CheckpointConfig as CheckpointConfig
    from mpiparallel.train.callback import LossMonitor as LossMonitor
    from mpiparallel.train.callback import ModelCheckpoint as ModelCheckpoint
    from mpiparallel.train.callback import RunContext as RunContext
    from mpiparallel.train.callback import TimeMonitor as TimeMonitor
    from mpiparallel.train.dataset_helper import DatasetHelper as DatasetHelper
    from mpiparallel.train.dataset_helper import connect_network_with_dataset as connect_network_with_dataset
    from mpiparallel.train.loss_scale_manager import DynamicLossScaleManager as DynamicLossScaleManager
    from mpiparallel.train.loss_scale_manager import FixedLossScaleManager as FixedLossScaleManager
    from mpiparallel.train.loss_scale_manager import LossScaleManager as LossScaleManager
    from mpiparallel.train.model import Model as Model
    from mpiparallel.train.parameter_files.distributed_checkpoint import (
        load_distributed_checkpoint as load_distributed_checkpoint,
    )
    from mpiparallel.train.parameter_files.distributed_checkpoint import (
        merge_sliced_parameter as merge_sliced_parameter,
    )
    from mpiparallel.train.parameter_files.export import export as export
    from mpiparallel.train.serialization import load_checkpoint as load_checkpoint
    from mpiparallel.train.serialization import load_param_into_net as load_param_into_net
    from mpiparallel.train.serialization import save_checkpoint as save_checkpoint

_DTYPES = (
    "bfloat16",
    "bool_",
    "byte",
    "cdouble",
    "cfloat",
    "complex128",
    "complex64",
    "double",
    "dtype_to_nptype",
    "dtype_to_pytype",
    "float16",
    "float32",
    "float64",
    "float_",
    "get_py_obj_dtype",
    "half",
    "int16",
    "int32",
    "int64",
    "int8",
    "int_",
    "intc",
    "intp",
    "list_",
    "long",
    "number",
    "pytype_to_dtype",
    "short",
    "single",
    "string",
    "tensor_type",
    "tuple_",
    "type_none",
    "ubyte",
    "uint",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "uintc",
    "uintp",
    "ushort",
)
_FOLDERS = ("boost", "common", "communication", "context", "dataset", "dtype", "nn", "ops", "parallel", "train")
_PLACES = {
    "Callback": "train.callback",
    "CheckpointConfig": "train.callback",
    "DatasetHelper": "train.dataset_helper",
    "DynamicLossScaleManager": "train.loss_scale_manager",
    "FixedLossScaleManager": "train.loss_scale_manager",
    "GRAPH_MODE": "context",
    "LossMonitor": "train.callback",
    "LossScaleManager": "train.loss_scale_manager",
    "Model": "train.model",
    "ModelCheckpoint": "train.callback",
    "PYNATIVE_MODE": "context",
    "ParallelMode": "context",
    "Parameter": "ops.tensor_methods",
    "ParameterTuple": "nn.cell",
    "RunContext": "train.callback",
    "Tensor": "ops.tensor_methods",
    "TimeMonitor": "train.callback",
    "amp": "train",
    "build_searched_strategy": "checkpoint.strategy.strategy_file",
    "build_train_network": "train.amp",
    "from_numpy": "ops.functional",
    "connect_network_with_dataset": "train.dataset_helper",
    "export": "train.parameter_files.export",
    "get_auto_parallel_context": "context",
    "get_context": "context",
    "get_ps_context": "context",
    "get_rng_state": "ops.randomness.random_state",
    "get_seed": "context",
    "grad": "ops.gradients.gradient",
    "initial_seed": "context",
    "initializer": "nn.initializer",
    "is_tensor": "ops.functional",
    "jit": "ops.just_in_time",
    "load_checkpoint": "train.serialization",
    "load_distributed_checkpoint": "train.parameter_files.distributed_checkpoint",
    "load_param_into_net": "train.serialization",
    "manual_seed": "context",
    "merge_pipeline_strategys": "checkpoint.strategy.merged_stages",
    "merge_sliced_parameter": "train.parameter_files.distributed_checkpoint",
    "ms_function": "ops.just_in_time",
    "rank_list_for_transform": "checkpoint.transform.rank_list",
    "reset_auto_parallel_context": "context",
    "reset_ps_context": "context",
    "restore_group_info_list": "checkpoint.strategy.group_file",
    "restore_parameter_group_info": "checkpoint.strategy.replica_groups",
    "save_checkpoint": "train.serialization",
    "set_auto_parallel_context": "context",
    "set_context": "context",
    "set_device": "context",
    "set_ps_context": "context",
    "set_rng_state": "ops.randomness.random_state",
    "set_seed": "context",
    "tensor": "ops.functional",
    "transform_checkpoint_by_rank": "checkpoint.transform.checkpoints",
    "transform_checkpoints": "checkpoint.transform.checkpoints",
    "value_and_grad": "ops.gradients.gradient",
}

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "Callback",
    "CheckpointConfig",
    "DatasetHelper",
    "DynamicLossScaleManager",
    "FixedLossScaleManager",
    "LossMonitor",
    "LossScaleManager",
    "Model",
    "ModelCheckpoint",
    "ParallelMode",
    "Parameter",
    "ParameterTuple",
    "RunContext",
    "Tensor",
    "TimeMonitor",
    "__version__",
    "amp",
    "bfloat16",
    "bool_",
    "boost",
    "build_searched_strategy",
    "build_train_network",
    "byte",
    "cdouble",
    "cfloat",
    "communication",
    "complex64",
    "complex128",
    "connect_network_with_dataset",
    "context",
    "dataset",
    "double",
    "dtype",
    "dtype_to_nptype",
    "dtype_to_pytype",
    "export",
    "float16",
    "float32",
    "float64",
    "float_",
    "from_numpy",
    "get_auto_parallel_context",
    "get_context",
    "get_ps_context",
    "get_py_obj_dtype",
    "get_rng_state",
    "get_seed",
    "grad",
    "half",
    "initial_seed",
    "initializer",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "intc",
    "intp",
    "is_tensor",
    "jit",
    "list_",
    "load_checkpoint",
    "load_distributed_checkpoint",
    "load_param_into_net",
    "long",
    "manual_seed",
    "merge_pipeline_strategys",
    "merge_sliced_parameter",
    "ms_function",
    "nn",
    "number",
    "ops",
    "pytype_to_dtype",
    "rank_list_for_transform",
    "reset_auto_parallel_context",
    "reset_ps_context",
    "restore_group_info_list",
    "restore_parameter_group_info",
    "save_checkpoint",
    "set_auto_parallel_context",
    "set_context",
    "set_device",
    "set_ps_context",
    "set_rng_state",
    "set_seed",
    "short",
    "single",
    "string",
    "tensor",
    "tensor_type",
    "train",
    "transform_checkpoint_by_rank",
    "transform_checkpoints",
    "tuple_",
    "type_none",
    "ubyte",
    "uint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uintc",
    "uintp",
    "ushort",
    "value_and_grad",
]

_ABSENT = getattr_of(__name__)
install()


def __getattr__(name: str) -> Any:
    if name not in _FOLDERS and name not in _DTYPES and name not in _PLACES:
        return _ABSENT(name)
    # The whole public front would take NumPy with it; a launcher and a rank's first moments must do without.
    place = name if name in _FOLDERS else "dtype" if name in _DTYPES else _PLACES[name]
    module = f"{__name__}.{place}"
    # What is being loaded is no garbage: to look for some in it takes a seventh of the time.
    with nullcontext() if module in sys.modules else collector_paused(asks_once=False):
        found = importlib.import_module(module)
    return found if name in _FOLDERS else getattr(found, name)


def __dir__() -> list[str]:
    return sorted(__all__)
