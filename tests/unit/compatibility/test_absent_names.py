"""A name that is not here: its error says what is nearest, where it is, or why it is missing."""

from __future__ import annotations

import importlib
import pickle

import pytest

import mpiparallel as ms

FRONTS = [
    "mpiparallel",
    "nn",
    "ops",
    "ops.functional",
    "ops.operations",
    "ops.composite",
    "train",
    "train.callback",
    "context",
    "communication",
    "dataset",
    "dataset.vision",
    "dataset.transforms",
    "common",
    "common.dtype",
    "common.initializer",
    "dtype",
    "nn.transformer",
    "nn.initializer",
    "nn.optim",
    "parallel.nn",
    "common.api",
]


@pytest.mark.parametrize("front", FRONTS)
def test_each_public_module_names_the_nearest(front: str) -> None:
    path = front if front == "mpiparallel" else f"mpiparallel.{front}"
    module = importlib.import_module(path)
    name = max((one for one in getattr(module, "__all__", None) or dir(module) if one[0].isalpha()), key=len)
    assert not hasattr(module, f"{name}x")
    with pytest.raises(AttributeError, match=f"^{path} has no '{name}x'; did you mean '{name}'"):
        getattr(module, f"{name}x")
    with pytest.raises(ImportError, match=f"did you mean '{name}'"):
        exec(f"from {path} import {name}x")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("from mpiparallel import Dense", "mpiparallel has no 'Dense'; it is mpiparallel.nn.Dense"),
        ("from mpiparallel.nn import relu", "mpiparallel.nn has no 'relu'; it is mpiparallel.ops.relu"),
        ("from mpiparallel.ops import RelU", "mpiparallel.ops has no 'RelU'; did you mean 'ReLU'"),
        (
            "from mpiparallel.nn import LSTM",
            "MindSpore's is not here: recurrent layers are not offered",
        ),
        ("from mpiparallel.nn import SyncBatchNorm", "every rank computes BatchNorm over the whole batch"),
        (
            "from mpiparallel.nn import Xyzzy",
            "mpiparallel.nn has no 'Xyzzy'; docs/lookup/from_mindspore.md lists what is here",
        ),
    ],
)
def test_an_import_by_name_says_why_it_fails(statement: str, message: str) -> None:
    with pytest.raises(ImportError, match=message):
        exec(statement)


def test_what_python_itself_looks_for_is_not_searched_for() -> None:
    with pytest.raises(AttributeError, match=r"^module 'mpiparallel\.nn' has no attribute '__wrapped__'$"):
        importlib.import_module("mpiparallel.nn").__wrapped__  # noqa: B018


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("asnmpy", "^Tensor has no 'asnmpy'; did you mean 'asnumpy'"),
        ("gelu", "^Tensor has no 'gelu'; it is mpiparallel.ops.gelu$"),
        ("register_hook", "hooks into backward passes are not offered; define bprop in the cell"),
        ("_secret", "^'Tensor' object has no attribute '_secret'$"),
    ],
)
def test_a_tensor_names_the_nearest_of_its_methods(name: str, message: str) -> None:
    assert not hasattr(ms.Tensor([1.0]), name)
    with pytest.raises(AttributeError, match=message):
        getattr(ms.Tensor([1.0]), name)


def test_the_error_keeps_its_words_where_another_process_reads_it() -> None:
    with pytest.raises(AttributeError) as caught:
        ms.nn.Dens  # noqa: B018
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, AttributeError)
    assert "Dense" in str(again)
    assert str(again) == str(caught.value)
