"""What a probe of an argument is: a call, and values other than the default; and how results are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Tensor, nn
from mpiparallel.graph.parameter import Parameter


@dataclass(frozen=True)
class Refused:
    """A value that raises an error which names the argument, or says ``words``."""

    value: Any
    words: str = ""


@dataclass(frozen=True)
class Noted:
    """A value that one line says to have no effect."""

    value: Any


@dataclass(frozen=True)
class Beside:
    """A value that shows only beside other options, which both calls have."""

    value: Any
    others: Mapping[str, Any]


@dataclass(frozen=True)
class Probe:
    """``call`` with no options, and with each of ``values``: without a mark, what comes of it differs."""

    call: Callable[..., Any]
    values: Mapping[str, Any]


X = np.random.default_rng(0).normal(size=(2, 4, 6, 6)).astype(np.float32)
ROWS = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
SQUARE = np.random.default_rng(2).normal(size=(4, 4)).astype(np.float32)
LABELS = np.array([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]], np.float32)
CLASSES = np.array([1, 0, 3], np.int32)
WEIGHT = np.ones((4, 4, 3, 3), np.float32)


def seen(result: Any) -> Any:
    """Return what can be compared of a result: values, shapes, dtypes; of a cell also its parameters."""
    if isinstance(result, Parameter):
        flags = result.requires_grad, result.layerwise_parallel, result.parallel_optimizer
        return (result.name, *flags, *seen(result.asnumpy()))
    if isinstance(result, Tensor):
        return seen(result.asnumpy())
    if isinstance(result, np.ndarray):
        return str(result.dtype), result.shape, result.tobytes()
    if isinstance(result, nn.Cell):
        return [seen(one) for one in result.get_parameters()]
    if isinstance(result, dict):
        return {key: seen(value) for key, value in result.items()}
    if isinstance(result, (list, tuple)):
        return [type(result).__name__, *map(seen, result)]
    return result


def cell(kind: Callable[..., Any], *required: Any, x: Any = (X,), train: bool = False) -> Callable[..., Any]:
    """Return what makes a cell and calls it."""

    def call(**options: Any) -> Any:
        ms.set_seed(3)
        made = kind(*required, **options).set_train(train)
        outputs = made(*map(Tensor, x))
        return seen(made), seen(outputs)

    return call


def operator(kind: Callable[..., Any], *inputs: Any, required: tuple[Any, ...] = ()) -> Callable[..., Any]:
    """Return what makes an operator and calls it on tensors and what else there is."""

    def call(**options: Any) -> Any:
        ms.set_seed(3)
        return seen(kind(*required, **options)(*map(_input, inputs)))

    return call


def function(kind: Callable[..., Any], *inputs: Any) -> Callable[..., Any]:
    """Return what calls a function of tensors and what else there is."""

    def call(**options: Any) -> Any:
        ms.set_seed(3)
        return seen(kind(*map(_input, inputs), **options))

    return call


def _input(value: Any) -> Any:
    return Tensor(value) if isinstance(value, np.ndarray) else value
