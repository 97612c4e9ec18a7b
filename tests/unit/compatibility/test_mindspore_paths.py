"""MindSpore's module paths lead to the modules here that have their names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

import mpiparallel
from mpiparallel.compatibility.mindspore_paths import PATHS
from mpiparallel.errors import ConfigurationError

SAME = {
    "nn.optim.momentum.Momentum": "nn.Momentum",
    "nn.optim.Adam": "nn.Adam",
    "nn.optim.adam.AdamWeightDecay": "nn.AdamWeightDecay",
    "nn.layer.basic.Dense": "nn.Dense",
    "nn.loss.loss.MSELoss": "nn.MSELoss",
    "nn.wrap.cell_wrapper.WithLossCell": "nn.WithLossCell",
    "nn.wrap.grad_reducer.DistributedGradReducer": "nn.DistributedGradReducer",
    "ops.function.math_func.matmul": "ops.matmul",
    "ops.function.relu": "ops.relu",
    "ops.operations.comm_ops.AllReduce": "ops.AllReduce",
    "ops.operations.nn_ops.ReLU": "ops.ReLU",
    "parallel.nn.Transformer": "nn.transformer.Transformer",
    "parallel.nn.TransformerOpParallelConfig": "nn.transformer.TransformerOpParallelConfig",
    "common.seed.set_seed": "set_seed",
    "common.dtype.float32": "float32",
    "dataset.engine.datasets.GeneratorDataset": "dataset.GeneratorDataset",
}


@pytest.mark.parametrize("path", SAME)
def test_a_path_of_mindspore_gives_the_same_object(path: str) -> None:
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(f"mpiparallel.{module}"), name)
    wanted: object = mpiparallel
    for part in SAME[path].split("."):
        wanted = getattr(wanted, part)
    assert found is wanted


@pytest.mark.parametrize("path", PATHS)
def test_each_path_can_be_imported_and_says_where_it_leads(path: str) -> None:
    module = importlib.import_module(f"mpiparallel.{path}")
    offered = getattr(module, "__all__", None) or dir(module)
    assert [name for name in offered if getattr(module, name, None) is None] == []
    is_file = Path(str(module.__spec__.origin)).exists()
    assert is_file or str(module.__doc__).startswith("MindSpore's door to mpiparallel.")


def test_what_is_no_path_of_mindspore_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'mpiparallel\.nn\.optimus'"):
        importlib.import_module("mpiparallel.nn.optimus")


def test_names_that_mindspore_keeps_to_itself_do_what_makes_sense_here(remarks: Callable[[], list[str]]) -> None:
    utilities = importlib.import_module("mpiparallel.parallel._utils")
    assert not utilities._need_to_full()
    assert utilities._to_full_tensor("fed", 8, 0) == "fed"
    settings = importlib.import_module("mpiparallel.parallel._auto_parallel_context").auto_parallel_context()
    settings.set_all_reduce_fusion_split_indices([140])
    assert [line.split(" has")[0] for line in remarks()] == ["set_all_reduce_fusion_split_indices([140])"]
    with pytest.raises(ConfigurationError, match="train with dataset_sink_mode=False"):
        importlib.import_module("mpiparallel._c_expression").init_exec_dataset("queue", 1, 1)
    mark = importlib.import_module("mpiparallel.ops.operations.comm_ops")._VirtualDataset()
    assert (mark.add_prim_attr("full_batch", True)("x"), mark("x", "y")) == ("x", ("x", "y"))
    scaled = importlib.import_module("mpiparallel.nn.wrap.loss_scale")._grad_scale
    assert scaled(mpiparallel.Tensor([4.0]), mpiparallel.Tensor([2.0])).tolist() == [0.5]
