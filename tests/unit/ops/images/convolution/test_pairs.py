"""Convolutions of bfloat16 by the processor's own products are within their rounding of float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from threadpoolctl import threadpool_limits

from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.ops.images.convolution import kernels
from mpiparallel.ops.images.convolution.compiled import CompiledLoops
from mpiparallel.ops.images.convolution.pairs import PairConvolution
from mpiparallel.ops.images.window import Window
from tests.unit.ops.images.convolution.convolution_samples import KINDS, LARGE, Sample, any_sample

needs_pairs = pytest.mark.skipif(
    CompiledLoops.find(bfloat16) is None, reason="the processor has no AVX512-BF16, or numba is not installed"
)


def check_pairs(sample: Sample) -> None:
    """Compute everything in bfloat16 by the processor's own products, twice."""
    loops = CompiledLoops.find(bfloat16)
    assert loops is not None
    narrow = sample.changed(lambda array: array.astype(bfloat16).astype(np.float64))
    sizes = narrow.changed(abs)
    for kind in KINDS:
        wanted = narrow.expected(kind)
        inputs, output = narrow.arrays(kind, bfloat16)
        kernel = getattr(PairConvolution(Runtime(), loops, sample.windows, sample.group), kind)(*inputs, output)
        for _ in range(2):
            output[...] = 7
            kernel()
            bound = 2.0**-8 * abs(wanted) + 2.0**-18 * sizes.expected(kind)
            error = abs(output.astype(np.float64) - wanted)
            assert (error <= bound).all(), (kind, sample.windows, float((error - bound).max()))


@needs_pairs
@settings(max_examples=40)
@given(sample=any_sample())
def test_bfloat16_by_the_processor_is_within_its_rounding(sample: Sample) -> None:
    check_pairs(sample)


@needs_pairs
@pytest.mark.parametrize("case", LARGE)
def test_bfloat16_by_the_processor_is_within_its_rounding_in_several_blocks(case: str) -> None:
    check_pairs(Sample(*LARGE[case]))


@needs_pairs
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("channels", "extents", "pairs"), [(40, (12, 12), True), (1, (12, 12), False), (40, (1, 1), False)]
)
def test_large_convolutions_of_bfloat16_are_the_processors_own(
    kind: str, channels: int, extents: Any, pairs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = Sample(3, channels, extents, channels, Window((3, 3), (1, 1), pad_mode="same"))
    used: list[str] = []
    for name in KINDS:
        monkeypatch.setattr(PairConvolution, name, lambda *_, name=name: partial(used.append, name))
    inputs, output = sample.arrays(kind, bfloat16)
    with threadpool_limits(1, user_api="blas"):
        getattr(kernels, kind)(Runtime(), sample.windows, 1, *inputs, output)()
    assert used == [kind] * pairs
