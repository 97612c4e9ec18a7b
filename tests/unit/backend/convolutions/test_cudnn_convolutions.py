"""Convolutions by cuDNN: on a strict stand-in, and its calls on the wheel where that is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

from mpiparallel.backend.convolutions.cudnn_convolutions import CudnnConvolutions
from mpiparallel.backend.convolutions.request import ConvolutionRequest, Direction
from mpiparallel.backend.gpu.cudnn_library import find_cudnn
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.ops.images.convolution import by_library, kernels
from mpiparallel.ops.images.window import Window
from tests.conformance.cuda_emulator.written_cases import convolved
from tests.conformance.hidden_arrays.cudnn import FakeCudnn

TOLERANCES = {np.float32: 1e-5, np.float16: 2e-3, bfloat16: 1e-2}
WINDOWS = {
    "same": ((2, 8, 9, 8), (16, 8, 3, 3), Window((3, 3), (1, 1), pad_mode="same")),
    "strides": ((3, 8, 8, 9), (8, 8, 3, 2), Window((3, 2), (2, 2), (2, 1), "pad", (1, 2, 0, 1))),
    "groups": ((2, 16, 8, 9), (8, 8, 3, 3), Window((3, 3), (2, 2))),
    "pixels": ((2, 8, 5, 4), (24, 8, 1, 1), Window((1, 1), (2, 2))),
}


class Device(NumpyBackend):
    """NumPy's arrays beside a stand-in for cuDNN; ``times`` are what each timed run takes, cuDNN's first."""

    def __init__(self, library: FakeCudnn, times: tuple[float, float] = (1.0, 2.0)) -> None:
        self.timed: list[Callable[[], object]] = []
        self._times = times
        self.convolutions = CudnnConvolutions(library.address, lambda: 7, self._seconds, lambda: library)

    def _seconds(self, work: Callable[[], object]) -> float:
        work()
        self.timed.append(work)
        return self._times[(len(self.timed) - 1) % 2]


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    memory = np.empty(np.prod(shape) * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    made = memory[start : start + memory.size - 64].view(dtype).reshape(shape)
    made[...] = np.random.default_rng(shape).normal(size=shape)
    return made


def place_of(is_last: bool) -> Any:
    if not is_last:
        return numbers
    return lambda *shape, dtype: numbers(shape[0], *shape[2:], shape[1], dtype=dtype).transpose(0, 3, 1, 2)


def run(device: Device, name: str, is_last: bool, dtype: Any) -> tuple[Any, Any]:
    """Return the convolution and its gradients, and what is right."""
    shape, weights, window = WINDOWS[name]
    place, runtime = place_of(is_last), Runtime(device)
    windows, group = window.over(shape[2:]), shape[1] // weights[1]
    x, weight = place(*shape, dtype=dtype), numbers(*weights, dtype=dtype)
    dy = place(shape[0], weights[0], *windows.output, dtype=dtype)
    y, dx, dw = place(*dy.shape, dtype=dtype), place(*shape, dtype=dtype), numbers(*weights, dtype=dtype)
    for one in (y, dx, dw):
        one[...] = np.nan
    for kernel in (
        kernels.forward(runtime, windows, group, x, weight, y),
        kernels.input_gradient(runtime, windows, group, dy, weight, dx),
        kernels.weight_gradient(runtime, windows, group, dy, x, dw),
    ):
        kernel()
    return (y, dx, dw), convolved(x, weight, dy, windows, group)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("name", WINDOWS)
def test_each_gives_what_numpy_does(name: str, is_last: bool, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(by_library.SETTING, "cudnn")
    library = FakeCudnn()
    found, truth = run(Device(library), name, is_last, dtype)
    assert [one for one, _ in library.executed] == ["conv_fprop", "conv_dgrad", "conv_wgrad"]
    assert {stream for _, stream in library.executed} == {7}
    for one, wanted in zip(found, truth, strict=True):
        np.testing.assert_allclose(one.astype(np.float64), wanted, TOLERANCES[dtype], TOLERANCES[dtype])


@pytest.mark.parametrize(("times", "is_taken"), [((1.0, 2.0), True), ((2.0, 1.0), False)])
def test_the_faster_is_taken_and_measured_once_a_shape(times: tuple[float, float], is_taken: bool) -> None:
    library = FakeCudnn()
    device = Device(library, times)
    run(device, "same", True, np.float32)
    measured, built = len(device.timed), len(library.built)
    assert measured == 30
    library.executed.clear()
    found, truth = run(device, "same", True, np.float32)
    assert (len(device.timed), len(library.built)) == (measured, built)
    assert len(library.executed) == (3 if is_taken else 0)
    for one, wanted in zip(found, truth, strict=True):
        np.testing.assert_allclose(one, wanted, 1e-5, 1e-5)


def test_several_ranks_measure_nothing_so_that_all_have_one_result() -> None:
    library = FakeCudnn()
    device = Device(library, (2.0, 1.0))
    runtime = Runtime(device, communicator=mock.Mock(size=2))
    x, weight, y = numbers(1, 8, 4, 4), numbers(8, 8, 1, 1), numbers(1, 8, 4, 4)
    kernels.forward(runtime, Window((1, 1), (1, 1)).over((4, 4)), 1, x, weight, y)()
    assert len(library.executed) == 1
    assert not device.timed


def test_plans_repeat_their_bits_and_round_float32_only_where_that_is_allowed() -> None:
    notes = []
    for dtype, allows in ((np.float32, False), (np.float32, True), (np.float16, False)):
        library = FakeCudnn()
        device = Device(library)
        device.convolutions.bind(request(dtype, allows), lambda shape, kind, _: np.empty(shape, kind))
        notes.append(set(library.built[0].notes))
    always = {"NONDETERMINISTIC", "REDUCED_PRECISION_REDUCTION"}
    assert notes == [always | {"TENSOR_CORE", "DOWN_CONVERT_INPUTS"}, always, always]


def request(dtype: Any = np.float32, allows_tf32: bool = False, direction: Direction = Direction.FORWARD) -> Any:
    x, weight, y = (numbers(*shape, dtype=dtype) for shape in ((2, 8, 5, 5), (16, 8, 3, 3), (2, 16, 3, 3)))
    return ConvolutionRequest(direction, x, weight, y, (1, 1), (1, 1), (0, 0), (0, 0), allows_tf32)


REFUSED: dict[str, Callable[[], Any]] = {
    "float64": lambda: request(np.float64),
    "negative padding": lambda: ConvolutionRequest(
        Direction.FORWARD, *request().arrays.values(), (1, 1), (1, 1), (-1, 0), (0, 0)
    ),
    "an odd address": lambda: ConvolutionRequest(
        Direction.FORWARD, numbers(101)[1:].reshape(1, 4, 5, 5), *list(request().arrays.values())[1:], *[(1, 1)] * 4
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_the_rest_is_left_to_ours(kind: str) -> None:
    library = FakeCudnn()
    assert Device(library).convolutions.bind(REFUSED[kind](), lambda *_: None) is None
    assert not library.built


def test_ours_computes_what_no_engine_takes_and_what_the_user_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    for library, setting in ((FakeCudnn(takes_nothing=True), "cudnn"), (FakeCudnn(), "own")):
        monkeypatch.setenv(by_library.SETTING, setting)
        found, truth = run(Device(library), "same", False, np.float32)
        assert not library.executed
        np.testing.assert_allclose(found[0], truth[0], 1e-5, 1e-5)
    monkeypatch.setenv(by_library.SETTING, "best")
    with pytest.raises(ConfigurationError, match="MPIPARALLEL_CONVOLUTIONS=best must be 'own' or 'cudnn'"):
        run(Device(FakeCudnn()), "same", False, np.float32)


def test_without_the_extra_there_is_no_library() -> None:
    with mock.patch("importlib.import_module", side_effect=ModuleNotFoundError(name="cudnn")):
        assert find_cudnn() is None
    with (
        mock.patch("importlib.import_module", side_effect=OSError("libcudnn.so.9: cannot open")),
        pytest.raises(ConfigurationError, match=r"libcudnn.so.9: cannot open; pip install 'mpiparallel\[cudnn12x\]'"),
    ):
        find_cudnn()


@pytest.mark.parametrize("direction", Direction)
def test_the_wheel_takes_our_graphs(direction: Direction) -> None:
    cudnn = pytest.importorskip(
        "cudnn", reason="cuDNN's frontend is not installed: pip install 'mpiparallel[cudnn12x]'"
    )
    convolutions = CudnnConvolutions(lambda one: 0, lambda: 0, lambda work: 0.0, lambda: cudnn)
    # The wheel describes and checks graphs without a driver, but makes no handle.
    with mock.patch.object(cudnn, "create_handle", return_value=cudnn.Handle(0)):
        graph = convolutions._described(request(np.float16, direction=direction))
    graph.validate()
    for name in ("build_operation_graph", "create_execution_plans", "deselect_numeric_notes", "check_support"):
        assert callable(getattr(graph, name))
    for name in ("build_plans", "get_workspace_size", "execute"):
        assert callable(getattr(graph, name))
    for kind in ("data_type", "heur_mode", "build_plan_policy", "numerical_note"):
        ours, theirs = getattr(FakeCudnn, kind).__members__, getattr(cudnn, kind).__members__
        assert set(ours) <= set(theirs)
    assert issubclass(cudnn.cudnnGraphNotSupportedError, Exception)
