"""The cases of operators on images: convolution, pooling, batch normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations as P
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_inputs import floats, integers, positive

Array = Any


def image_cases() -> list[OperatorCase]:
    """Return the cases of all operators on images."""
    return [*_convolutions(), *_poolings(), *_batch_norms()]


def _convolutions() -> list[OperatorCase]:
    options: dict[str, tuple[Array, Array, dict[str, Any]]] = {
        "": ((5, 3, 4, 5), (4, 3, 3, 2), {}),
        "-same": ((3, 2, 5, 4), (3, 2, 3, 3), {"pad_mode": "same", "stride": 2}),
        "-pad": ((3, 3, 3, 4), (2, 3, 2, 3), {"pad_mode": "pad", "pad": (1, 0, 2, 1), "stride": (2, 1)}),
        "-dilated": ((2, 3, 6, 5), (3, 3, 2, 2), {"dilation": (3, 2)}),
        "-pointwise": ((5, 3, 3, 2), (4, 3, 1, 1), {}),
        "-strided": ((2, 3, 6, 5), (2, 3, 1, 2), {"stride": (2, 3)}),
        "-groups": ((5, 4, 3, 4), (6, 2, 2, 2), {"group": 2}),
        "-depthwise": ((3, 3, 4, 4), (3, 1, 3, 3), {"group": 3, "pad_mode": "same"}),
        "-large": ((2, 1, 23, 23), (2, 1, 1, 1), {}),
        "-large-same": ((2, 1, 23, 24), (2, 1, 3, 2), {"pad_mode": "same"}),
    }
    cut = ("-same", "-pad", "-dilated", "-strided", "-groups", "-depthwise")
    cases = []
    for suffix, (x, weight, given) in options.items():
        arrays = floats(*x), floats(*weight, seed=2)
        build = lambda kind, weight=weight, given=given: kind(weight[0], weight[2:], **given)  # noqa: E731
        forward, of_input, of_filter = (
            lambda build=build, kind=kind: build(kind)
            for kind in (P.Conv2D, P.Conv2DBackpropInput, P.Conv2DBackpropFilter)
        )
        dy = floats(*forward().infer(*(Tensor(array).spec for array in arrays))[0].shape, seed=3)
        cases += [
            OperatorCase(f"Conv2D{suffix}", forward, arrays, (), (0, 1), every_strategy=suffix in cut),
            OperatorCase(f"Conv2DBackpropInput{suffix}", of_input, (dy, *arrays[::-1]), every_strategy=False),
            OperatorCase(f"Conv2DBackpropFilter{suffix}", of_filter, (dy, *arrays), every_strategy=False),
        ]
    return cases


def _poolings() -> list[OperatorCase]:
    x = floats(5, 3, 5, 6)
    ties = integers(5, 3, 5, 6, below=3).astype(np.float64)
    cases = []
    for window in ((2, 2), (3, 2, "same"), ((2, 3), (1, 2)), ((3, 2), 1, "same")):
        suffix = "-".join(map(str, window)).replace(" ", "")
        build = {
            name: (lambda name=name, window=window: getattr(P, name)(*window))
            for name in ("MaxPool", "AvgPool", "MaxPoolGrad", "AvgPoolGrad")
        }
        y = build["MaxPool"]()(ties).asnumpy()
        dy = floats(*y.shape, seed=2)
        cases += [
            OperatorCase(f"MaxPool-{suffix}", build["MaxPool"], (x,), (), (0,)),
            OperatorCase(f"AvgPool-{suffix}", build["AvgPool"], (x,), (), (0,), every_strategy="same" in window),
            OperatorCase(f"MaxPoolGrad-{suffix}", build["MaxPoolGrad"], (ties, y, dy), every_strategy=window != (2, 2)),
            OperatorCase(f"AvgPoolGrad-{suffix}", build["AvgPoolGrad"], (x, dy), every_strategy=False),
        ]
    return cases


def _batch_norms() -> list[OperatorCase]:
    x, dy = floats(5, 3, 2, 4), floats(5, 3, 2, 4, seed=2)
    scale, offset, mean, first, second = (floats(3, seed=seed) for seed in range(3, 8))
    variance, infer = positive(3), lambda: P.BNInfer(1e-3)
    return [
        OperatorCase("BNTrainingReduce", P.BNTrainingReduce, (x,), (), (0,), (0, 1)),
        OperatorCase("BNTrainingReduce-rows", P.BNTrainingReduce, (floats(5, 3),), (), (0,), (0, 1)),
        OperatorCase("BNTrainingReduceInputGrad", P.BNTrainingReduceInputGrad, (x, first, second)),
        OperatorCase("BNMoments", lambda: P.BNMoments(7), (first, 9 * variance), (), (0, 1), (0, 1)),
        OperatorCase("BNInfer", infer, (x, scale, offset, mean, variance), (), (0, 1, 2, 3, 4)),
        OperatorCase("BNInferGrad", P.BNInferGrad, (dy, scale, variance)),
        OperatorCase("BNTrainingUpdate", P.BNTrainingUpdate, (x, scale, offset, mean, variance), (), (1, 2)),
        OperatorCase("BNTrainingUpdateGrad", P.BNTrainingUpdateGrad, (dy, x, mean, variance)),
        OperatorCase("BNTrainingReduceGrad", P.BNTrainingReduceGrad, (dy, x, first, second, scale, mean, variance)),
        OperatorCase("AssignMovingAverage", lambda: P.AssignMovingAverage(0.8, 1.25), (first, second)),
    ]
