"""Every way to compute a convolution and its gradients gives the same: compiled loops, columns, single windows."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.ops.images.convolution import kernels
from mpiparallel.ops.images.convolution.by_columns import ColumnConvolution
from mpiparallel.ops.images.convolution.compiled import CompiledConvolution, CompiledLoops
from mpiparallel.ops.images.convolution.single_window import SingleWindow
from mpiparallel.ops.images.window import Window, WindowsOfImage

Array = Any

needs_numba = pytest.mark.skipif(
    CompiledLoops.find(np.float32) is None, reason="numba is not installed, or switched off"
)

KERNELS = {
    "forward": kernels.forward,
    "input_gradient": kernels.input_gradient,
    "weight_gradient": kernels.weight_gradient,
}


class Sample:
    """Random images, weights and gradient of the output of a convolution, in float64."""

    def __init__(self, images: int, channels: int, extents: Any, outputs: int, window: Window, group: int = 1) -> None:
        random = np.random.default_rng([images, channels, *extents, outputs])
        self.windows, self.group = window.over(extents), group
        self.x = random.standard_normal((images, channels * group, *extents))
        self.weight = random.standard_normal((outputs * group, channels, *window.kernel))
        self.dy = random.standard_normal((images, outputs * group, *self.windows.output))

    def arrays(self, kind: str, dtype: Any) -> tuple[list[Array], Array]:
        """Return the inputs of a kernel, and its output full of something else."""
        inputs, output = {
            "forward": ((self.x, self.weight), self.dy),
            "input_gradient": ((self.dy, self.weight), self.x),
            "weight_gradient": ((self.dy, self.x), self.weight),
        }[kind]
        return [array.astype(dtype) for array in inputs], np.full(output.shape, 7, dtype)

    def expected(self, kind: str) -> Array:
        """Return what the definition gives: a sum over the places in the window."""
        (height, width), ((top, left), (bottom, right)) = self.windows.image, (self.windows.before, self.windows.after)
        padding = ((0, 0), (0, 0), (top, bottom), (left, right))
        x, dx = np.pad(self.x, padding), np.pad(np.zeros_like(self.x), padding)
        parts = {"x": self._groups(x), "dx": self._groups(dx), "dy": self._groups(self.dy)}
        weight = self.weight.reshape(self.group, -1, *self.weight.shape[1:])
        y, dw = np.zeros_like(parts["dy"]), np.zeros_like(weight)
        for row, column in np.ndindex(*self.windows.window.kernel):
            down, across = (
                slice(place * dilation, place * dilation + (count - 1) * stride + 1, stride)
                for place, dilation, stride, count in zip(
                    (row, column),
                    self.windows.window.dilation,
                    self.windows.window.stride,
                    self.windows.output,
                    strict=True,
                )
            )
            seen, place = parts["x"][..., down, across], (..., row, column)
            y += np.einsum("ngihw,goi->ngohw", seen, weight[place])
            dw[place] = np.einsum("ngohw,ngihw->goi", parts["dy"], seen)
            parts["dx"][..., down, across] += np.einsum("ngohw,goi->ngihw", parts["dy"], weight[place])
        inside = dx[..., top : top + height, left : left + width]
        found = {"forward": y, "input_gradient": inside, "weight_gradient": dw}[kind]
        return found.reshape(self.arrays(kind, np.float64)[1].shape)

    def _groups(self, images: Array) -> Array:
        return images.reshape(len(images), self.group, -1, *images.shape[2:])

    def ways(self, dtype: Any) -> list[Any]:
        """Return all that can compute it."""
        ways: list[Any] = [ColumnConvolution(Runtime(), self.windows, self.group)]
        loops = CompiledLoops.find(dtype)
        if loops is not None:
            ways.append(CompiledConvolution(Runtime(), loops, self.windows, self.group))
        if self.windows.output == (1, 1) and self.group == 1:
            ways.append(SingleWindow(Runtime(), self.windows))
        return ways

    def check(self, dtype: Any, tolerance: float) -> None:
        """Compute everything in every way, twice."""
        for kind in KERNELS:
            wanted = self.expected(kind)
            scale = np.abs(wanted).max(initial=1)
            for algorithm in self.ways(dtype):
                inputs, output = self.arrays(kind, dtype)
                kernel = getattr(algorithm, kind)(*inputs, output)
                kernel()
                first = output.copy()
                kernel()
                np.testing.assert_array_equal(first, output, err_msg=f"{kind} {algorithm}: not the same twice")
                np.testing.assert_allclose(
                    output, wanted, rtol=0, atol=tolerance * scale, err_msg=f"{kind} {algorithm}"
                )


@st.composite
def any_sample(draw: st.DrawFn) -> Sample:
    """Draw a convolution: all kinds of windows, padding that differs from side to side, few and many channels."""
    small = st.integers(1, 3)
    kernel, stride, dilation = ((draw(small), draw(small)) for _ in range(3))
    reach = [(kernel[dim] - 1) * dilation[dim] + 1 for dim in (0, 1)]
    pad = tuple(draw(st.integers(0, reach[side // 2])) for side in range(4))
    extents = [draw(st.integers(max(1, reach[dim] - pad[2 * dim] - pad[2 * dim + 1]), 9)) for dim in (0, 1)]
    window = Window(kernel, stride, dilation, "pad", pad)
    channels, outputs = draw(st.sampled_from([1, 2, 3, 9])), draw(st.sampled_from([1, 3, 8, 17]))
    return Sample(draw(small), channels, extents, outputs, window, draw(st.sampled_from([1, 1, 2])))


@settings(max_examples=60)
@given(sample=any_sample(), single=st.booleans())
def test_every_way_gives_what_the_definition_gives(sample: Sample, single: bool) -> None:
    sample.check(np.float32 if single else np.float64, 3e-6 if single else 1e-13)


LARGE = {
    "long depth": (2, 50, (5, 4), 9, Window((3, 3), (1, 1), pad_mode="same")),
    "rows of a vector": (1, 3, (20, 32), 8, Window((1, 1), (1, 1))),
    "blocks of images": (40, 2, (6, 6), 3, Window((3, 3), (1, 1), pad_mode="same")),
    "many windows": (1, 1, (70, 70), 2, Window((2, 2), (1, 1))),
    "every other element": (2, 3, (17, 32), 5, Window((1, 1), (2, 2), pad_mode="same")),
    "one element": (3, 5, (1, 1), 6, Window((3, 3), (1, 1), pad_mode="same")),
    "one window": (3, 5, (2, 3), 6, Window((3, 3), (3, 3), pad_mode="same")),
}


@pytest.mark.parametrize("case", LARGE)
def test_every_way_gives_the_same_in_several_blocks(case: str) -> None:
    Sample(*LARGE[case]).check(np.float64, 1e-13)


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
    for algorithm in sample.ways(np.float32):
        inputs, output = sample.arrays("forward", np.float32)
        algorithm.forward(*inputs, output)()
        reached = np.zeros(output.shape, bool)
        reached[1, :, 2:5, 3:6] = True
        np.testing.assert_array_equal(~np.isfinite(output), reached)


@pytest.mark.parametrize("kind", KERNELS)
def test_a_step_allocates_no_arrays(kind: str) -> None:
    """An array of these would have 288 KiB; NumPy itself takes up to 82 to walk over views."""
    sample = Sample(4, 8, (48, 48), 8, Window((3, 3), (1, 1), pad_mode="same"))
    for algorithm in sample.ways(np.float32):
        inputs, output = sample.arrays(kind, np.float32)
        kernel = getattr(algorithm, kind)(*inputs, output)
        kernel()
        tracemalloc.start()
        kernel()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 1 << 17, (kind, algorithm)


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


@needs_numba
def test_loops_are_compiled_where_nothing_can_be_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    from mpiparallel.backend import compiled

    def refuse(cache: bool = False, **options: Any) -> Any:
        def decorate(function: Any) -> Any:
            if cache:
                raise RuntimeError("cannot cache function: no locator available")
            return partial(function)

        return decorate

    monkeypatch.setattr(numba, "njit", refuse)
    assert compiled.compiled(lambda: 5)() == 5
