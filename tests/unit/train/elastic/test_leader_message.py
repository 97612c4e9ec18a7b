"""What the rank that leads tells is heard as it was said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.context.compiled_function import InputSignature
from mpiparallel.errors import MpiParallelError, NonFiniteError, origins_of
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.train.elastic.leader_message import (
    MovedParameter,
    PreemptionEnd,
    Refusal,
    ReshardCommand,
    Shutdown,
    SpawnRequest,
    TrainingEnd,
    decode,
    encode,
    error_of,
)

ROWS = Layout((4, 6), DeviceMatrix((2,)), ((0,), ()))
COLUMNS = Layout((4, 6), DeviceMatrix((3,)), ((), (0,)))
SINGLE = TensorSpec((4, 6), np.dtype(np.float32))
DOUBLE = TensorSpec((4, 6), np.dtype(np.float64))
COMMAND = ReshardCommand(
    before=(2, 0),
    after=(1, 0, 2),
    leaving=(3,),
    step=7,
    parallel={"parallel_mode": "semi_auto_parallel", "device_num": None},
    seed=5,
    draws=11,
    strategies=("file.json", (("MatMul_w", ((1, 2), (2, 1))), ("Add_b", ((1,), (1,)))), 3),
    cuts={"first": (((1, 2), (2, 1)), None), "second": (None, ((3, 1),)), "third": (None, None)},
    stages={"blocks.0": 1},
    tensors={
        "b": MovedParameter(SINGLE, ROWS, COLUMNS),
        "a": MovedParameter(DOUBLE, ROWS, ROWS),
        "c": MovedParameter(SINGLE, ROWS, COLUMNS),
    },
    signature=InputSignature((SINGLE, DOUBLE), ("tuple", (0, 1))),
    options={"mode": "bounded"},
    position={"moment": "step_end", "epoch": 2},
    dead=(4,),
    reloads=("folder", "net"),
)


@pytest.mark.parametrize(
    "said",
    [
        COMMAND,
        replace(COMMAND, signature=None, position=None, tensors={}, dead=(), reloads=(), stages={}),
        Refusal("no", [1, 2]),
        TrainingEnd("NonFiniteError", "the loss is nan", [0]),
        TrainingEnd(origins=[]),
        PreemptionEnd(85, "saved"),
        SpawnRequest(3),
        Shutdown(),
    ],
    ids=lambda said: type(said).__name__,
)
def test_what_is_said_is_heard(said: Any) -> None:
    heard = decode(encode(said))
    assert heard == said
    assert type(heard) is type(said)
    assert encode(heard) == encode(said)


def test_commands_that_differ_only_in_the_order_of_names_are_the_same_words() -> None:
    turned = replace(COMMAND, tensors={name: COMMAND.tensors[name] for name in ("c", "a", "b")})
    assert encode(turned) == encode(COMMAND)
    assert encode(replace(COMMAND, step=8)) != encode(COMMAND)


def test_who_gives_what_it_holds_is_who_lives() -> None:
    assert COMMAND.living == (2, 0)
    assert replace(COMMAND, dead=(2, 5)).living == (0,)


@pytest.mark.parametrize(
    ("name", "kind"), [("NonFiniteError", NonFiniteError), ("KeyError", MpiParallelError), ("", MpiParallelError)]
)
def test_spares_raise_the_error_that_ended_the_training_where_it_is_one_of_ours(
    name: str, kind: type[Exception]
) -> None:
    error = error_of(TrainingEnd(name, "the loss is nan", (1,)))
    assert type(error) is kind
    assert str(error) == f"Model.train: the training that this rank waited for has ended: {name}: the loss is nan"
    assert tuple(origins_of(error)) == (1,)
