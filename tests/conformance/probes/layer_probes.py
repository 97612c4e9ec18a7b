"""Probes of layers, losses and optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Tensor, nn
from mpiparallel.errors import ConfigurationError
from tests.conformance.probes.argument_probe import CLASSES, LABELS, ROWS, Beside, Noted, Probe, Refused, cell, seen


def optimizer(kind: Callable[..., Any], *required: Any) -> Callable[..., Any]:
    """Return what takes three steps of an optimizer on a sum of squares."""

    def call(**options: Any) -> Any:
        network = nn.Dense(4, 2, weight_init=Tensor(ROWS[:2]), bias_init="ones")
        made = kind(network.trainable_params(), *required, **options)
        step = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), made).set_train()
        for _ in range(3):
            step(Tensor(ROWS), Tensor(ROWS[:, :2]))
        return seen(network)

    return call


def activation(**options: Any) -> Any:
    """Return why there is no activation of this name."""
    try:
        return nn.get_activation("cube", **options)
    except ConfigurationError as error:
        return str(error)


DOUBLES = ROWS.astype(np.float64)
WEIGHTS: dict[str, Any] = {"weight": Tensor(np.array([1.0, 2, 3, 4], np.float32)), "reduction": "sum"}
IMAGES = {"pad_mode": Beside("same", {"kernel_size": 3}), "data_format": Refused("NHWC")}

NORM: dict[str, Any] = {
    "eps": 0.1,
    "momentum": 0.5,
    "affine": False,
    "gamma_init": "zeros",
    "beta_init": "ones",
    "moving_mean_init": "ones",
    "moving_var_init": "zeros",
    "use_batch_statistics": False,
    "data_format": Refused("NHWC"),
    "dtype": ms.float64,
}
LAYERS: dict[str, Probe] = {
    "nn.Conv2d": Probe(
        cell(nn.Conv2d, 4, 2, 3),
        {
            "stride": 2,
            "pad_mode": "valid",
            "padding": Refused(1),
            "dilation": 2,
            "group": 2,
            "has_bias": True,
            "weight_init": "ones",
            "bias_init": Noted("ones"),
            "data_format": Refused("NHWC"),
            "dtype": ms.float64,
        },
    ),
    "nn.Dense": Probe(
        cell(nn.Dense, 4, 2, x=(ROWS,)),
        {"weight_init": "ones", "bias_init": "ones", "has_bias": False, "activation": "relu", "dtype": ms.float64},
    ),
    "nn.BatchNorm1d": Probe(
        cell(nn.BatchNorm1d, 4, x=(ROWS,), train=True),
        NORM,
    ),
    "nn.BatchNorm2d": Probe(cell(nn.BatchNorm2d, 4, train=True), NORM),
    "nn.LayerNorm": Probe(
        cell(nn.LayerNorm, (6,)),
        {
            "begin_norm_axis": 2,
            "begin_params_axis": Refused(2, "gamma has shape"),
            "gamma_init": "zeros",
            "beta_init": "ones",
            "epsilon": 0.1,
            "dtype": ms.float64,
        },
    ),
    "nn.Embedding": Probe(
        cell(nn.Embedding, 4, 3, x=(CLASSES,)),
        {"embedding_table": "ones", "dtype": ms.float64, "padding_idx": 1},
    ),
    "nn.Dropout": Probe(cell(nn.Dropout, train=True), {"keep_prob": 0.9, "p": 0.1, "dtype": Noted(ms.float16)}),
    "nn.Softmax": Probe(cell(nn.Softmax), {"axis": 0}),
    "nn.MaxPool2d": Probe(
        cell(nn.MaxPool2d),
        {
            "kernel_size": 2,
            "stride": 2,
            "padding": Refused(1),
            "dilation": Refused(2),
            "return_indices": Refused(True),
            "ceil_mode": Refused(True),
            **IMAGES,
        },
    ),
    "nn.AvgPool2d": Probe(
        cell(nn.AvgPool2d),
        {
            "kernel_size": 2,
            "stride": 2,
            "padding": Refused(1),
            "ceil_mode": Refused(True),
            "count_include_pad": Noted(False),
            "divisor_override": Refused(3),
            **IMAGES,
        },
    ),
    "nn.Flatten": Probe(cell(nn.Flatten), {"start_dim": 2, "end_dim": 2}),
    "nn.LogSoftmax": Probe(cell(nn.LogSoftmax, x=(ROWS,)), {"axis": 0}),
    **{f"nn.{name}": Probe(cell(getattr(nn, name), x=(ROWS,)), {"alpha": 0.5}) for name in ("ELU", "LeakyReLU")},
    "nn.PReLU": Probe(cell(nn.PReLU), {"channel": 4, "w": 0.5}),
    "nn.PipelineCell": Probe(
        lambda **options: nn.PipelineCell(nn.SequentialCell(nn.ReLU()), 2, **options),
        {"stage_config": Refused({"no": 0}, "has no such cell"), "segment_config": Refused({})},
    ),
    "nn.BCELoss": Probe(cell(nn.BCELoss, x=(LABELS / 2 + 0.25, LABELS)), WEIGHTS),
    "nn.NLLLoss": Probe(cell(nn.NLLLoss, x=(ROWS, CLASSES)), {**WEIGHTS, "ignore_index": 0}),
    "nn.CrossEntropyLoss": Probe(
        cell(nn.CrossEntropyLoss, x=(ROWS, CLASSES)), {**WEIGHTS, "ignore_index": 0, "label_smoothing": 0.5}
    ),
    "nn.KLDivLoss": Probe(cell(nn.KLDivLoss, x=(ROWS, LABELS)), {"reduction": "batchmean"}),
    "nn.HuberLoss": Probe(cell(nn.HuberLoss, x=(ROWS, LABELS)), {"reduction": "sum", "delta": 0.5}),
    "nn.SmoothL1Loss": Probe(cell(nn.SmoothL1Loss, x=(ROWS, LABELS)), {"reduction": "sum", "beta": 0.5}),
    "nn.MAELoss": Probe(cell(nn.MAELoss, x=(ROWS, LABELS)), {"reduction": "sum"}),
    "nn.LossBase": Probe(lambda **options: seen(nn.LossBase(**options).get_loss(Tensor(ROWS))), {"reduction": "sum"}),
    "nn.Pad": Probe(cell(nn.Pad, ((0, 0), (0, 0), (1, 1), (1, 1))), {"mode": Refused("REFLECT")}),
    "nn.ClipByNorm": Probe(cell(nn.ClipByNorm, x=(ROWS, np.float32(1))), {"axis": 0}),
    "nn.L1Loss": Probe(cell(nn.L1Loss, x=(ROWS, LABELS)), {"reduction": "sum"}),
    "nn.MSELoss": Probe(cell(nn.MSELoss, x=(ROWS, LABELS)), {"reduction": "sum"}),
    "nn.BCEWithLogitsLoss": Probe(
        cell(nn.BCEWithLogitsLoss, x=(ROWS, LABELS)), {**WEIGHTS, "pos_weight": WEIGHTS["weight"]}
    ),
    "nn.GELU": Probe(cell(nn.GELU, x=(ROWS,)), {"approximate": Noted(False)}),
    "nn.get_activation": Probe(activation, {"prim_name": "Block"}),
    "nn.WithEvalCell": Probe(
        lambda **options: seen(nn.WithEvalCell(nn.ReLU(), nn.MSELoss(), **options)(*map(Tensor, (DOUBLES, DOUBLES)))),
        {"add_cast_fp32": True},
    ),
    "nn.Momentum": Probe(
        optimizer(nn.Momentum, 0.1, 0.9), {"weight_decay": 0.1, "loss_scale": 2.0, "use_nesterov": True}
    ),
    "nn.SGD": Probe(
        optimizer(nn.SGD),
        {
            "learning_rate": 0.2,
            "momentum": 0.9,
            "dampening": Beside(0.5, {"momentum": 0.9}),
            "weight_decay": 0.1,
            "nesterov": Beside(True, {"momentum": 0.9}),
            "loss_scale": 2.0,
        },
    ),
    "nn.Adam": Probe(
        optimizer(nn.Adam),
        {
            "learning_rate": 0.2,
            "beta1": 0.5,
            "beta2": 0.5,
            "eps": 0.1,
            "use_locking": Noted(True),
            "use_nesterov": True,
            "weight_decay": 0.1,
            "loss_scale": Beside(2.0, {"eps": 0.1}),
            "use_amsgrad": Refused(True),
        },
    ),
    "nn.AdamWeightDecay": Probe(
        optimizer(nn.AdamWeightDecay),
        {"learning_rate": 0.2, "beta1": 0.5, "beta2": 0.5, "eps": 0.1, "weight_decay": 0.1},
    ),
}
