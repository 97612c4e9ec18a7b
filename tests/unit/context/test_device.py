"""Devices: a GPU that is not there is refused, Ascend is what there is, and said once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace

import pytest

import mpiparallel as ms
from mpiparallel.compatibility.remark import forget_remarks
from mpiparallel.context import GRAPH_MODE, PYNATIVE_MODE, get_context, set_context
from mpiparallel.errors import ConfigurationError

NO_CUPY: ModuleType | None = None


def cupy(has_device: bool) -> ModuleType:
    module = ModuleType("cupy")
    runtime = SimpleNamespace(
        driverGetVersion=lambda: 12080, runtimeGetVersion=lambda: 12090, getDeviceCount=lambda: int(has_device)
    )
    module.cuda = SimpleNamespace(is_available=lambda: has_device, runtime=runtime)  # type: ignore[attr-defined]
    return module


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    forget_remarks()
    yield
    set_context(mode=GRAPH_MODE, device_target="CPU", device_id=None)
    forget_remarks()


@pytest.fixture(params=[NO_CUPY, cupy(has_device=False)], ids=["no CuPy", "no device"])
def _no_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # What sys.modules has as None cannot be imported.
    monkeypatch.setitem(sys.modules, "cupy", request.param)


SETTERS = [lambda target: set_context(device_target=target), ms.set_device]


@pytest.mark.parametrize("setter", SETTERS, ids=["set_context", "set_device"])
@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
@pytest.mark.usefixtures("_no_gpu")
def test_a_gpu_that_is_not_there_is_refused_with_the_remedy(setter: Callable[[str], None], mode: int) -> None:
    set_context(mode=mode)
    with pytest.raises(ConfigurationError, match=r"device_target='GPU'.* set device_target='CPU'"):
        setter("GPU")
    assert get_context("device_target") == "CPU"


def test_without_cupy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'mpiparallel\[cuda12x\]'"):
        ms.set_device("GPU")


@pytest.mark.parametrize("setter", SETTERS, ids=["set_context", "set_device"])
@pytest.mark.usefixtures("_no_gpu")
def test_ascend_is_the_cpu_where_there_is_no_gpu_and_says_so_once(
    setter: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    setter("Ascend")
    setter("Ascend")
    assert get_context("device_target") == "CPU"
    (line,) = (record.getMessage() for record in caplog.records)
    assert "device_target 'Ascend' means the CPU of each rank here" in line


def test_ascend_is_the_gpu_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy(has_device=True))
    ms.set_device("Ascend", 1)
    assert (get_context("device_target"), get_context("device_id")) == ("GPU", 1)
    assert "means the GPU of each rank here" in caplog.text


def test_other_ranks_are_silent(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("RANK_ID", "1")
    monkeypatch.setenv("RANK_SIZE", "2")
    set_context(device_target="Ascend")
    assert not caplog.records


def test_a_gpu_in_pynative_mode_is_told_to_stay_idle(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy(has_device=True))
    set_context(device_target="GPU")
    assert not caplog.records
    set_context(mode=PYNATIVE_MODE)
    assert "in PYNATIVE_MODE operators are computed on the CPU" in caplog.text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("TPU",), "set_device: device_target 'TPU' is not one of 'CPU', 'GPU', 'Ascend'"),
        (("CPU", -1), "device_id -1 must be an integer of at least 0"),
        (("CPU", "0"), "device_id '0' must be an integer of at least 0"),
        (("CPU", True), "device_id True must be an integer of at least 0"),
    ],
)
def test_devices_that_are_none_are_refused(given: tuple[object, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ms.set_device(*given)  # type: ignore[arg-type]


def test_a_device_is_set_again_and_keeps_its_number() -> None:
    ms.set_device("CPU", 3)
    ms.set_device("CPU")
    assert get_context("device_id") == 3
