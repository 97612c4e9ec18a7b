"""Probes of the functions that are made of other operators: statistics, losses, activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Tensor, ops
from mpiparallel.common import initializer as initializers
from tests.conformance.probes.argument_probe import (
    CLASSES,
    LABELS,
    ROWS,
    SQUARE,
    Beside,
    Noted,
    Probe,
    Refused,
    function,
    operator,
    seen,
)

SHARES = np.abs(ROWS) / np.abs(ROWS).sum(1, keepdims=True)
ROW = Tensor(np.array([1.0, 2, 3, 4], np.float32))
ALONG = {"axis": 0}
STATISTIC = {**ALONG, "keepdims": True}
WEIGHTS: dict[str, Any] = {"weight": ROW, "reduction": "sum"}
OF_CLASSES: dict[str, Any] = {**WEIGHTS, "ignore_index": 0, "label_smoothing": 0.5}
LIMITS = {"min": Beside(0.0, {"max": 1.0}), "max": Beside(0.5, {"min": -1.0})}


def _positive(kind: Callable[..., Any]) -> Callable[..., Any]:
    return function(kind, np.log(SHARES), LABELS)


def _made(**options: Any) -> Any:
    given = {} if "init" in options else {"input_data": [1.0, 2.0]}
    return seen(ms.tensor(**given | options).asnumpy())


def _constant(**options: Any) -> Any:
    decorated = ops.constexpr(**options)
    return (decorated if "fn" in options else decorated(len))("abc")


FUNCTIONS: dict[str, Probe] = {
    "ops.Gather": Probe(operator(ops.Gather, SQUARE[:3], CLASSES[:, None], 1), {"batch_dims": 1}),
    "ops.gather": Probe(function(ops.gather, SQUARE[:3], CLASSES[:, None], 1), {"batch_dims": 1}),
    "ops.addmm": Probe(function(ops.addmm, ROWS, ROWS, SQUARE), {"beta": 2, "alpha": 2}),
    "ops.dense": Probe(function(ops.dense, ROWS, SQUARE), {"bias": ROW}),
    "ops.constexpr": Probe(
        _constant,
        {
            "fn": lambda text: text + "d",
            "get_instance": Noted(False),
            "name": Noted("half"),
            "reuse_result": Noted(False),
            "check": Noted(False),
        },
    ),
    "ops.div": Probe(function(ops.div, ROWS, SQUARE[:3]), {"rounding_mode": "trunc"}),
    "ops.relu": Probe(function(ops.relu, ROWS), {"inplace": Refused(True)}),
    **{
        f"ops.{name}": Probe(function(getattr(ops, name), ROWS), {"dtype": ms.float64})
        for name in ("ones_like", "zeros_like")
    },
    "tensor": Probe(
        _made,
        {
            "input_data": [3.0],
            "dtype": ms.float16,
            "shape": Beside((3,), {"init": initializers.One(), "shape": (2,)}),
            "const_arg": Noted(True),
            "device": Noted("CPU:0"),
            "init": Beside(initializers.Zero(), {"init": initializers.One(), "shape": (2,)}),
        },
    ),
    **{
        f"ops.{name}": Probe(function(getattr(ops, name), ROWS > 0), {**ALONG, "keep_dims": True})
        for name in ("all", "any")
    },
    **{f"ops.{name}": Probe(function(getattr(ops, name), ROWS), STATISTIC) for name in ("amax", "amin")},
    **{
        f"ops.{name}": Probe(function(getattr(ops, name), ROWS), {**ALONG, "keepdims": Beside(True, {"axis": 0})})
        for name in ("max", "min")
    },
    **{f"ops.{name}": Probe(function(getattr(ops, name), ROWS), {**STATISTIC, "ddof": 1}) for name in ("std", "var")},
    "ops.logsumexp": Probe(function(ops.logsumexp, ROWS, 0), {"keepdim": True}),
    "ops.norm": Probe(function(ops.norm, ROWS), {"ord": 1, "dim": 0, "keepdim": True, "dtype": ms.float64}),
    "ops.sum": Probe(function(ops.sum, ROWS), {"dim": 0, "keepdim": True, "dtype": ms.float64}),
    "ops.prod": Probe(function(ops.prod, ROWS), {**ALONG, "keep_dims": True, "dtype": ms.float64}),
    "ops.chunk": Probe(function(ops.chunk, SQUARE, 2), {"axis": 1}),
    "ops.unbind": Probe(function(ops.unbind, ROWS), {"dim": 1}),
    **{f"ops.{name}": Probe(function(getattr(ops, name), ROWS), LIMITS) for name in ("clamp", "clip")},
    "ops.isclose": Probe(
        function(ops.isclose, np.float32([1, 1, np.nan]), np.float32([1, 1.01, np.nan])),
        {"rtol": 0.1, "atol": 0.1, "equal_nan": True},
    ),
    **{f"ops.{name}": Probe(function(getattr(ops, name), ROWS), {"alpha": 0.5}) for name in ("elu", "leaky_relu")},
    "ops.Elu": Probe(operator(ops.Elu, ROWS), {"alpha": 0.5}),
    "ops.round": Probe(function(ops.round, ROWS), {"decimals": 1}),
    "ops.softplus": Probe(function(ops.softplus, ROWS), {"beta": 2, "threshold": 0.5}),
    **{
        f"ops.{name}": Probe(function(getattr(ops, name), ROWS, LABELS), {"reduction": "sum"})
        for name in ("l1_loss", "mse_loss")
    },
    "ops.kl_div": Probe(_positive(ops.kl_div), {"reduction": "batchmean"}),
    "ops.huber_loss": Probe(function(ops.huber_loss, ROWS, LABELS), {"reduction": "sum", "delta": 0.5}),
    "ops.smooth_l1_loss": Probe(function(ops.smooth_l1_loss, ROWS, LABELS), {"reduction": "sum", "beta": 0.5}),
    "ops.binary_cross_entropy": Probe(function(ops.binary_cross_entropy, SHARES, LABELS), WEIGHTS),
    "ops.binary_cross_entropy_with_logits": Probe(
        function(ops.binary_cross_entropy_with_logits, ROWS, LABELS), {**WEIGHTS, "pos_weight": ROW}
    ),
    "ops.nll_loss": Probe(function(ops.nll_loss, ROWS, CLASSES), OF_CLASSES),
    "ops.cross_entropy": Probe(function(ops.cross_entropy, ROWS, CLASSES), OF_CLASSES),
}
