"""Floats of 16 bits are summed in float32 or more and rounded once; float32 statistics in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.random_stream import drawing_at
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations as P
from mpiparallel.ops.losses.softmax_and_log import LogSoftmaxGrad, SoftmaxGrad
from mpiparallel.ops.normalization.batch_norm_steps import BNTrainingReduceGrad, BNTrainingUpdateGrad
from mpiparallel.ops.normalization.batch_statistics import BNTrainingReduce
from mpiparallel.ops.normalization.layer_normalization import LayerNormGrad
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_cases import CASES as CASES_OF_ALL
from tests.conformance.cases.operator_inputs import floats, positive, probabilities

ROWS, CHANNELS = (64, 300), (16, 3, 20, 20)
LABELS = np.arange(64, dtype=np.int32)


def numbers(operator: Operator, inputs: list[Any], narrow: Any, dtype: Any) -> list[Any]:
    """Return the outputs from inputs that are numbers of ``narrow``, held in ``dtype``."""
    given = [one.astype(narrow).astype(dtype) if one.dtype.kind == "f" else one for one in inputs]
    outputs = operator(*given)
    return [one.asnumpy() for one in (outputs if isinstance(outputs, tuple) else (outputs,))]


def summed(x: Any, axis: Any) -> Any:
    return P.ReduceSum()(x, axis)


def averaged(x: Any, axis: Any) -> Any:
    return P.ReduceMean()(x, axis)


# Sums of squares of large numbers are beyond 65,504, the largest float16.
LARGE = 150.0
CASES: dict[str, tuple[Any, list[Any]]] = {
    "Softmax": (P.Softmax(), [floats(*ROWS) * 10]),
    "SoftmaxGrad": (SoftmaxGrad(), [probabilities(*ROWS), floats(*ROWS, seed=2)]),
    "LogSoftmax": (P.LogSoftmax(), [floats(*ROWS) * 10]),
    "LogSoftmaxGrad": (LogSoftmaxGrad(), [-positive(*ROWS) * 3, floats(*ROWS, seed=2)]),
    "LayerNorm": (P.LayerNorm(epsilon=1e-3), [floats(*ROWS) * LARGE, floats(300), floats(300, seed=2)]),
    "LayerNormGrad": (
        LayerNormGrad(epsilon=1e-3),
        [floats(*ROWS), floats(*ROWS, seed=2), floats(64, 1), positive(64, 1), floats(300)],
    ),
    "BNTrainingReduce": (BNTrainingReduce(), [floats(*CHANNELS) * LARGE]),
    "BNTrainingUpdateGrad": (
        BNTrainingUpdateGrad(),
        [floats(*CHANNELS) / 64, floats(*CHANNELS, seed=2), floats(3), positive(3)],
    ),
    "BNTrainingReduceGrad": (
        BNTrainingReduceGrad().configured(count=6400),
        [floats(*CHANNELS), floats(*CHANNELS, seed=2), *(floats(3, seed=seed) for seed in (3, 4, 5, 6)), positive(3)],
    ),
    "BNInfer": (P.BNInfer(), [floats(*CHANNELS) * LARGE, *(floats(3, seed=seed) for seed in (3, 4, 5)), positive(3)]),
    "SoftmaxCrossEntropyWithLogits": (
        P.SoftmaxCrossEntropyWithLogits(),
        [floats(*ROWS) * 10, probabilities(*ROWS)],
    ),
    "SparseSoftmaxCrossEntropyWithLogits": (P.SparseSoftmaxCrossEntropyWithLogits(), [floats(*ROWS) * 10, LABELS]),
    "SparseSoftmaxCrossEntropyWithLogits-gradient": (
        P.SparseSoftmaxCrossEntropyWithLogits(is_grad=True).configured(count=64),
        [floats(*ROWS) * 10, LABELS],
    ),
    "GeLU": (P.GeLU(), [floats(*ROWS) * 3]),
}


BFLOAT16 = np.dtype(bfloat16)
ROUNDING = {np.dtype(np.float16): 2e-3, BFLOAT16: 1.6e-2}
"""Four units in the last place: of 11 bits, and of 8."""


@pytest.mark.parametrize("narrow", ROUNDING, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_of_16_bits_an_operator_is_as_exact_as_rounding_its_float64_result_once(name: str, narrow: Any) -> None:
    operator, inputs = CASES[name]
    exact = numbers(operator, inputs, narrow, np.float64)
    for found, wanted in zip(numbers(operator, inputs, narrow, narrow), exact, strict=True):
        assert np.isfinite(found).all()
        assert found.dtype == (np.float64 if name == "BNTrainingReduce" else narrow)
        close = ROUNDING[narrow]
        np.testing.assert_allclose(
            found.astype(np.float64), wanted, rtol=close, atol=close * float(np.abs(wanted).max())
        )


@pytest.mark.parametrize("narrow", ROUNDING, ids=str)
def test_a_product_of_16_bits_is_summed_in_float32(narrow: Any) -> None:
    """Added one by one in 16 bits, ones stop at 2,048 or at 256."""
    ones = np.ones((3, 4096), narrow)
    assert P.MatMul(transpose_b=True)(ones, ones).asnumpy().astype(np.float64).tolist() == [[4096.0] * 3] * 3


@pytest.mark.parametrize(("reduce", "wanted"), [(summed, 4096 * 0.25 + 4096 * 0.5), (averaged, 0.375)])
@pytest.mark.parametrize("narrow", ROUNDING, ids=str)
def test_many_small_numbers_of_16_bits_add_up(narrow: Any, reduce: Any, wanted: float) -> None:
    """Added one by one in float16 they stop at 512, where 0.25 is half a unit in the last place."""
    column = np.tile(np.array([[0.25], [0.5]], narrow), (4096, 3))
    assert reduce(column, 0).asnumpy().tolist() == [wanted] * 3
    assert float(reduce(column[:, :1], ())) == wanted


def of_table(case: OperatorCase, narrow: Any, dtype: Any) -> list[Any]:
    """Return what an operator of the table makes of numbers of ``narrow``, held in ``dtype``."""
    operator = case.build()
    with np.errstate(over="ignore"):
        arrays = [
            one.astype(narrow).astype(dtype) if one.dtype.kind == "f" else one for one in map(np.asarray, case.inputs)
        ]
    tensors = [Parameter(one, f"p{at}") if at in operator.updates else Tensor(one) for at, one in enumerate(arrays)]
    with drawing_at(0):
        outputs = case.apply(operator, tensors)
    return [one.asnumpy() for one in outputs or [tensors[at] for at in operator.updates]]


@pytest.mark.parametrize("narrow", ROUNDING, ids=str)
@pytest.mark.parametrize("case", CASES_OF_ALL, ids=lambda case: case.name)
def test_every_operator_of_16_bits_is_within_their_rounding_of_float64(case: OperatorCase, narrow: Any) -> None:
    for found, wanted in zip(of_table(case, narrow, narrow), of_table(case, narrow, np.float64), strict=True):
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(found, wanted)
            continue
        largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-3))
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0, atol=ROUNDING[narrow] * largest)


@pytest.mark.parametrize("shape", [(16, 5, 1, 1), (8, 5, 9, 7)])
def test_the_variance_of_float32_channels_is_exact_however_far_their_mean(shape) -> None:
    """Rounded to float32, a mean of 100 leaves a variance of 0.01 with an error of 1e-3 of its size."""
    x = (np.random.default_rng(0).normal(size=shape) * 0.1 + 100.0).astype(np.float32)
    sums = ops.BNTrainingReduce()(x)
    mean, variance = (one.asnumpy() for one in ops.BNMoments(x.size // 5)(*sums))
    np.testing.assert_allclose(mean, np.mean(x, (0, 2, 3), np.float64), rtol=1e-13)
    np.testing.assert_allclose(variance, np.var(x, (0, 2, 3), np.float64), rtol=1e-7)


ONES = np.ones((1, 1, 64, 64))
NOWHERE = np.zeros(4096, int)
LONG_SUMS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "AvgPool": (lambda dtype: ops.AvgPool(64)(ONES.astype(dtype)), 1.0),
    "AvgPool-large": (lambda dtype: ops.AvgPool(64)((1000 * ONES).astype(dtype)), 1000.0),
    "AdaptiveAvgPool2D": (lambda dtype: ops.AdaptiveAvgPool2D(1)(ONES.astype(dtype)), 1.0),
    "AdaptiveAvgPool2D-large": (lambda dtype: ops.AdaptiveAvgPool2D(1)((1000 * ONES).astype(dtype)), 1000.0),
    "CumSum": (lambda dtype: ops.CumSum()(np.ones(4096, dtype), 0)[4095], 4096.0),
    "CumSum-reversed": (lambda dtype: ops.CumSum(True, True)(np.ones(4097, dtype), 0)[0], 4096.0),
    "GatherGrad": (lambda dtype: ops.GatherGrad()(NOWHERE, np.ones((4096, 2), dtype), np.ones((1, 2), dtype)), 4096.0),
    "GatherGrad-wide": (
        lambda dtype: ops.GatherGrad()(NOWHERE, np.ones((4096, 64), dtype), np.ones((1, 64), dtype)),
        4096.0,
    ),
    "Gather-batch": (
        lambda dtype: ops.grad(lambda x: ops.Gather(1)(x, NOWHERE[None], 1).sum())(Tensor(np.ones((1, 1), dtype))),
        4096.0,
    ),
    "ReduceSum": (lambda dtype: ops.ReduceSum()(np.ones(4096, dtype)), 4096.0),
    "ReduceMean": (lambda dtype: ops.ReduceMean()(np.ones(4096, dtype)), 1.0),
}


@pytest.mark.parametrize("dtype", [np.float16, bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("name", LONG_SUMS)
def test_many_terms_of_16_bits_are_added_up_in_float32(name: str, dtype: Any) -> None:
    """Added up in float16 ones would come to 2,048 at most, and in bfloat16 to 256."""
    compute, wanted = LONG_SUMS[name]
    found = compute(dtype).asnumpy()
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float64), np.full(found.shape, wanted))


@pytest.mark.parametrize("dtype", [np.float16, bfloat16, np.float64])
@pytest.mark.parametrize("mode", ["same", "valid"])
def test_a_mean_spreads_its_gradient_evenly_over_the_elements_of_its_window(mode: str, dtype: Any) -> None:
    found = ops.grad(lambda x: ops.AvgPool(2, 1, mode)(x).sum())(Tensor(np.zeros((1, 1, 3, 3), dtype))).asnumpy()
    # Of the last row and column the windows have fewer elements, so each of these has more of the mean.
    row = np.array([0.5, 1.0, 1.5]) if mode == "same" else np.array([0.5, 1.0, 0.5])
    np.testing.assert_array_equal(found[0, 0].astype(np.float64), np.outer(row, row))
    assert found.dtype == dtype
