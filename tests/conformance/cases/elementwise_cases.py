"""The cases of element-wise operators, a line for each: its formula in NumPy, and tensors of numbers.

All such operators follow one sharding rule, so a few run under every strategy; the gradients of all are tried, those
that are 0 too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from mpiparallel.ops import operations
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_inputs import floats, positive

Array = Any
Formula = Callable[..., Array]

X, ROW = floats(6, 5), np.array([1.3, -0.7, 2.1, -1.6, 0.9])
ABOVE_0, WIDE, INSIDE = positive(6, 5), 5 * X + 0.0123, X / 2.2

ELEMENTWISE: Final[dict[str, tuple[Any, ...]]] = {
    "Neg": (np.negative, X),
    "Abs": (np.abs, X),
    "Sign": (np.sign, X),
    "Square": (np.square, X),
    "Sqrt": (np.sqrt, ABOVE_0),
    "Rsqrt": (lambda x: x**-0.5, ABOVE_0),
    "Reciprocal": (lambda x: 1 / x, ABOVE_0),
    "Exp": (np.exp, X),
    "Expm1": (np.expm1, X),
    "Log": (np.log, ABOVE_0),
    "Log1p": (np.log1p, ABOVE_0 - 0.5),
    "Erf": (np.vectorize(math.erf), X),
    "Erfinv": (np.vectorize(lambda x: NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2)), INSIDE),
    "Erfc": (np.vectorize(math.erfc), WIDE / 2),
    "Sin": (np.sin, WIDE),
    "Cos": (np.cos, WIDE),
    "Asin": (np.arcsin, INSIDE),
    "ACos": (np.arccos, INSIDE),
    "Atan": (np.arctan, WIDE),
    "Sinh": (np.sinh, X),
    "Cosh": (np.cosh, X),
    "Tanh": (np.tanh, X),
    "Floor": (np.floor, WIDE),
    "Ceil": (np.ceil, WIDE),
    "Round": (np.round, WIDE),
    "Atan2": (np.arctan2, X, ROW),
    "Mod": (np.fmod, WIDE, ROW),
    "FloorMod": (lambda x, y: x % y, WIDE, ROW),
    "FloorDiv": (lambda x, y: x // y, WIDE, ROW),
    "Xdivy": (lambda x, y: np.where(x == 0, 0, x / y), X, ROW),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), X),
    "ReLU": (lambda x: np.maximum(x, 0), X),
    "GeLU": (lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), X),
    "SiLU": (lambda x: x / (1 + np.exp(-x)), WIDE),
    "Mish": (lambda x: x * np.tanh(np.log(1 + np.exp(x))), WIDE),
    "Softplus": (lambda x: np.log(1 + np.exp(x)), WIDE),
    "Softsign": (lambda x: x / (1 + np.abs(x)), X),
    "Elu": (lambda x: np.where(x > 0, x, np.exp(x) - 1), X),
    "SeLU": (lambda x: 1.05070098735548 * np.where(x > 0, x, 1.673263242354377 * (np.exp(x) - 1)), X),
    "HSigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, WIDE),
    "HSwish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, WIDE),
}
EVERY_STRATEGY: Final = ("Tanh", "Atan2", "Mish")
"""One that the array library has, one of two tensors, and one that is made of others."""


def elementwise_cases() -> list[OperatorCase]:
    """Return a case for each line."""
    return [
        OperatorCase(
            name,
            getattr(operations, name),
            tuple(inputs),
            differentiable=tuple(range(len(inputs))),
            every_strategy=name in EVERY_STRATEGY,
        )
        for name, (_, *inputs) in ELEMENTWISE.items()
    ]


def _of(formula: Formula) -> Formula:
    return lambda operator, *inputs: formula(*inputs)


ELEMENTWISE_FORMULAS: Final[dict[str, Formula]] = {name: _of(formula) for name, (formula, *_) in ELEMENTWISE.items()}
"""By the operator's name: its outputs from the operator and its inputs."""
