"""Every way to compute a convolution and its gradients gives the same: compiled loops, columns, single windows."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.ops.images.convolution import kernels
from mpiparallel.ops.images.convolution.by_columns import ColumnConvolution
from mpiparallel.ops.images.convolution.compiled import CompiledConvolution, CompiledLoops
from mpiparallel.ops.images.convolution.gathered_images import Phases
from mpiparallel.ops.images.convolution.single_window import SingleWindow
from mpiparallel.ops.images.convolution.written import WrittenConvolution
from mpiparallel.ops.images.window import Window, WindowsOfImage
from tests.conformance.cuda_emulator.emulator import EmulatedBackend, EmulatedKernels
from tests.unit.ops.images.convolution.convolution_samples import LARGE, Sample, any_sample

Array = Any

needs_numba = pytest.mark.skipif(
    CompiledLoops.find(np.float32) is None, reason="numba is not installed, or switched off"
)

KERNELS = {
    "forward": kernels.forward,
    "input_gradient": kernels.input_gradient,
    "weight_gradient": kernels.weight_gradient,
}


def ways(sample: Sample, dtype: Any) -> list[Any]:
    """Return all that can compute a sample."""
    found: list[Any] = [ColumnConvolution(Runtime(), sample.windows, sample.group)]
    loops = CompiledLoops.find(dtype)
    if loops is not None:
        found.append(CompiledConvolution(Runtime(), loops, sample.windows, sample.group))
    if sample.windows.output == (1, 1) and sample.group == 1:
        found.append(SingleWindow(Runtime(), sample.windows))
    return found


def check(sample: Sample, dtype: Any, tolerance: float) -> None:
    """Compute everything in every way, twice."""
    for kind in KERNELS:
        wanted = sample.expected(kind)
        scale = np.abs(wanted).max(initial=1)
        for algorithm in ways(sample, dtype):
            inputs, output = sample.arrays(kind, dtype)
            kernel = getattr(algorithm, kind)(*inputs, output)
            kernel()
            first = output.copy()
            kernel()
            np.testing.assert_array_equal(first, output, err_msg=f"{kind} {algorithm}: not the same twice")
            np.testing.assert_allclose(output, wanted, rtol=0, atol=tolerance * scale, err_msg=f"{kind} {algorithm}")


@settings(max_examples=60)
@given(sample=any_sample(), single=st.booleans())
def test_every_way_gives_what_the_definition_gives(sample: Sample, single: bool) -> None:
    check(sample, np.float32 if single else np.float64, 3e-6 if single else 1e-13)


@pytest.mark.parametrize("case", LARGE)
def test_every_way_gives_the_same_in_several_blocks(case: str) -> None:
    check(Sample(*LARGE[case]), np.float64, 1e-13)


@pytest.mark.parametrize("kind", KERNELS)
def test_large_convolutions_of_bfloat16_are_added_up_in_single_numbers_and_rounded_once(kind: str) -> None:
    sample = Sample(2, 30, (20, 20), 32, Window((3, 3), (1, 1), pad_mode="same"))
    inputs, output = sample.arrays(kind, bfloat16)
    KERNELS[kind](Runtime(), sample.windows, 1, *inputs, output)()
    exact = np.empty(output.shape, np.float32)
    KERNELS[kind](Runtime(), sample.windows, 1, *(array.astype(np.float32) for array in inputs), exact)()
    # Where the processor has products of its own, these add up in another order.
    np.testing.assert_allclose(output.astype(np.float32), exact, 2.0**-8, 2.0**-18 * abs(exact).max())


@pytest.mark.parametrize("kind", KERNELS)
def test_half_numbers_are_added_up_in_single_ones(kind: str) -> None:
    sample = Sample(2, 30, (6, 6), 9, Window((3, 3), (1, 1), pad_mode="same"))
    inputs, output = sample.arrays(kind, np.float16)
    KERNELS[kind](Runtime(), sample.windows, 1, *inputs, output)()
    exact = np.empty(output.shape, np.float32)
    KERNELS[kind](Runtime(), sample.windows, 1, *(array.astype(np.float32) for array in inputs), exact)()
    np.testing.assert_array_equal(output, exact.astype(np.float16))


@pytest.mark.parametrize("kind", KERNELS)
def test_arrays_in_any_order_that_cannot_be_written_give_the_same(kind: str) -> None:
    sample = Sample(2, 3, (6, 5), 4, Window((3, 2), (2, 1), pad_mode="same"))
    inputs, output = sample.arrays(kind, np.float32)
    turned = [np.asfortranarray(array) for array in inputs]
    for array in turned:
        array.flags.writeable = False
    for array in inputs:
        array.flags.writeable = False
    results = []
    for arrays, target in ((inputs, output), (turned, np.asfortranarray(output))):
        KERNELS[kind](Runtime(), sample.windows, 1, *arrays, target)()
        results.append(target)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("kind", KERNELS)
def test_without_windows_or_images_the_result_is_zero(kind: str) -> None:
    windows = WindowsOfImage(Window((3, 3), (1, 1)), (0, 4), (0, 0), (0, 0), (0, 2))
    x, weight, dy = np.ones((2, 3, 0, 4)), np.ones((5, 3, 3, 3)), np.ones((2, 5, 0, 2))
    inputs, output = {
        "forward": ((x, weight), dy),
        "input_gradient": ((dy, weight), x),
        "weight_gradient": ((dy, x), weight),
    }[kind]
    KERNELS[kind](Runtime(), windows, 1, *inputs, output)()
    assert not output.any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_reaches_the_outputs_whose_windows_hold_it(value: float) -> None:
    sample = Sample(2, 3, (7, 9), 4, Window((3, 3), (1, 1), pad_mode="same"))
    sample.x[1, 2, 3, 4] = value
    for algorithm in ways(sample, np.float32):
        inputs, output = sample.arrays("forward", np.float32)
        algorithm.forward(*inputs, output)()
        reached = np.zeros(output.shape, bool)
        reached[1, :, 2:5, 3:6] = True
        np.testing.assert_array_equal(~np.isfinite(output), reached)


@pytest.mark.parametrize("kind", KERNELS)
def test_a_step_allocates_no_arrays(kind: str) -> None:
    """An array of these would have 288 KiB; NumPy itself takes up to 82 to walk over views."""
    sample = Sample(4, 8, (48, 48), 8, Window((3, 3), (1, 1), pad_mode="same"))
    for algorithm in ways(sample, np.float32):
        inputs, output = sample.arrays(kind, np.float32)
        kernel = getattr(algorithm, kind)(*inputs, output)
        kernel()
        tracemalloc.start()
        kernel()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 1 << 17, (kind, algorithm)


def test_columns_of_one_large_image_are_multiplied_where_its_outputs_are() -> None:
    sample = Sample(1, 1, (40, 40), 64, Window((1, 2), (1, 1)))
    inputs, output = sample.arrays("forward", np.float64)
    tracemalloc.start()
    ColumnConvolution(Runtime(), sample.windows, 1).forward(*inputs, output)()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < output.nbytes / 4


@settings(max_examples=40)
@given(sample=any_sample(), least=st.integers(1, 12))
def test_an_image_is_surrounded_by_zeros_where_its_elements_lie_in_their_order(sample: Sample, least: int) -> None:
    for dim in (0, 1):
        for phases in (Phases.of_windows(sample.windows, dim), Phases.of_outputs(sample.windows, dim)):
            found, image = phases.elements().reshape(-1).tolist(), list(range(phases.extent))
            after = len(found) - phases.before - phases.extent
            is_whole = phases.stride == 1 and found == [-1] * phases.before + image + [-1] * after
            assert phases.surrounds(least) == (is_whole and phases.extent >= least), phases


@needs_numba
@pytest.mark.parametrize(("said", "compiled"), [("", True), ("0", False), ("off", False)])
def test_the_environment_switches_compiled_loops_off(
    said: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPIPARALLEL_JIT", said)
    assert (CompiledLoops.find(np.float32) is not None) == compiled


@needs_numba
@pytest.mark.parametrize(
    ("threads", "channels", "extents", "algorithm"),
    [
        (1, 4, (9, 9), CompiledConvolution),
        (2, 4, (9, 9), ColumnConvolution),
        (1, 3, (9, 9), ColumnConvolution),
        (1, 4, (1, 1), SingleWindow),
    ],
)
def test_the_way_is_chosen_by_threads_and_sizes(threads: int, channels: int, extents: Any, algorithm: Any) -> None:
    windows = Window((3, 3), (1, 1), pad_mode="same").over(extents)
    with threadpool_limits(threads, user_api="blas"):
        assert isinstance(kernels.choose_algorithm(Runtime(), windows, 1, np.float32, channels), algorithm)


@pytest.mark.parametrize(
    ("extent", "group", "dtype", "is_written"),
    [(1, 1, np.float32, False), (1, 1, bfloat16, True), (1, 2, np.float32, True), (3, 1, np.float32, True)],
)
def test_on_a_gpu_windows_of_one_element_are_products_where_the_library_has_them(
    extent: int, group: int, dtype: Any, is_written: bool, tmp_path: Path
) -> None:
    runtime = Runtime(EmulatedBackend(EmulatedKernels(tmp_path)))
    windows = Window((extent, extent), (1, 1), pad_mode="same").over((9, 9))
    chosen = kernels.choose_algorithm(runtime, windows, group, dtype, 4)
    assert isinstance(chosen, WrittenConvolution) == is_written


@needs_numba
def test_loops_are_compiled_where_nothing_can_be_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.dispatcher import Dispatcher

    from mpiparallel.backend import compiled

    asked: list[Any] = []

    def refuse(dispatcher: Any) -> None:
        asked.append(dispatcher)
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(Dispatcher, "enable_caching", refuse)
    assert compiled.compiled(lambda: 5)() == 5
    assert len(asked) == 1
