"""Compiled loops read floats of 16 bits, compute in float32, and round as ml_dtypes and NumPy do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.backend import jit
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression import kernel
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import Term, call, operand, reduce

SINGLE = np.dtype(np.float32)
NARROW = [bfloat16.dtype, np.dtype(np.float16)]


@pytest.fixture(autouse=True)
def _only_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    if jit.compiler() is None:
        pytest.skip("loops are not compiled here")

    def refuse(*_: Any) -> None:
        raise AssertionError("no loop was compiled")

    monkeypatch.setattr(kernel, "block_kernel", refuse)


def cast(numbers: Any, dtype: Any) -> Any:
    """Return what a loop that does nothing else makes of numbers."""
    found = np.zeros(numbers.shape, dtype)
    root = operand(0, numbers.shape, numbers.dtype).astype(dtype)
    expression_kernel(Runtime(), [root], [numbers], [found])()
    return found


def assert_same_bits(found: Any, expected: Any, bits: Any, is_nan: Any) -> None:
    assert np.isnan(found[is_nan].astype(np.float32)).all()
    assert np.array_equal(found.view(bits)[~is_nan], expected.view(bits)[~is_nan])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_number_of_16_bits_is_read_exactly(dtype: Any) -> None:
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        expected = numbers.astype(np.float32)
    assert_same_bits(cast(numbers, SINGLE), expected, np.uint32, np.isnan(expected))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_numbers_of_32_bits_are_rounded_as_the_array_library_rounds_them(dtype: Any) -> None:
    drawn = np.random.default_rng(1).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    # Ties, and numbers beside them, of every sign and exponent.
    ties = (np.arange(1 << 16, dtype=np.uint32) << 16) + 0x8000
    numbers = np.concatenate([drawn, ties, ties - 1, ties + 1]).view(np.float32)
    with np.errstate(all="ignore"):
        expected = numbers.astype(dtype)
    assert_same_bits(cast(numbers, dtype), expected, np.uint16, np.isnan(numbers))


def test_bfloat16_that_is_no_number_is_that_of_ml_dtypes() -> None:
    numbers = np.arange(0x7F800001, 0x7F800001 + (1 << 14) * 512, 512, dtype=np.uint32)
    numbers = np.concatenate([numbers, numbers | 0x80000000]).view(np.float32)
    with np.errstate(all="ignore"):
        expected = numbers.astype(bfloat16)
    assert np.array_equal(cast(numbers, NARROW[0]).view(np.uint16), expected.view(np.uint16))


def softmax(x: Term) -> Term:
    power = call("exp", x - reduce("max", x, [1]))
    return power / reduce("sum", power, [1])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("function", [softmax, lambda x: call("tanh", x * 0.5 + 1.0) * x], ids=["softmax", "fused"])
def test_what_a_loop_computes_between_is_float32(dtype: Any, function: Any) -> None:
    numbers = np.random.default_rng(2).standard_normal((64, 200)).astype(dtype)
    narrow, wide = operand(0, numbers.shape, dtype), operand(0, numbers.shape, SINGLE)
    found, expected = np.zeros(numbers.shape, dtype), np.zeros(numbers.shape, np.float32)
    expression_kernel(Runtime(), [function(narrow.astype(SINGLE)).astype(dtype)], [numbers], [found])()
    expression_kernel(Runtime(), [function(wide)], [numbers.astype(np.float32)], [expected])()
    assert np.array_equal(found.view(np.uint16), expected.astype(dtype).view(np.uint16))
