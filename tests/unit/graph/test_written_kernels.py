"""The CUDA texts that are written by hand, run on the CPU behind an emulating header: no GPU is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.written_kernels import (
    box_packing,
    row_sums,
    written_text,
)
from tests.conformance.cuda_emulator.emulator import NO_COMPILER, EmulatedBackend, EmulatedKernels, compiler
from tests.conformance.cuda_emulator.planted_faults import FAULTS
from tests.conformance.cuda_emulator.registers import ARCHITECTURES, compile_for
from tests.conformance.cuda_emulator.written_cases import CASES, Case, adam

is_emulated = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[EmulatedKernels]:
    made = EmulatedKernels(tmp_path)
    yield made
    made.close()


@pytest.fixture
def runtime(kernels: EmulatedKernels) -> Runtime:
    return Runtime(EmulatedBackend(kernels))


@is_emulated
def test_each_gives_what_numpy_does(runtime: Runtime) -> None:
    cases = {name: bind(runtime) for name, bind in CASES.items()}
    for name, case in cases.items():
        try:
            case.check()
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


@is_emulated
def test_each_planted_fault_is_found(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: dict[str, Case] = {}
    for name, fault in FAULTS.items():
        with monkeypatch.context() as patched:
            patched.setattr(fault.module, fault.attribute, fault.text())
            cases[name] = CASES[fault.case](runtime)
    assert [name for name, case in cases.items() if not _fails(case)] == []


def _fails(case: Case) -> bool:
    try:
        case.check()
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_compiles_and_keeps_to_its_registers(
    architecture: str, runtime: Runtime, kernels: EmulatedKernels
) -> None:
    for bind in CASES.values():
        bind(runtime)
    compile_for(architecture, list(kernels.texts.values()))


def test_many_updates_are_one_launch(runtime: Runtime, kernels: EmulatedKernels) -> None:
    adam(runtime)
    assert len(kernels.launches) == 1


@pytest.mark.parametrize(("dtype", "together"), [(np.float32, 4), (np.float64, 2)])
def test_a_thread_takes_16_bytes_of_neighbours_of_arrays_that_are_updated(
    dtype: type, together: int, runtime: Runtime, kernels: EmulatedKernels
) -> None:
    adam(runtime, (1024, 2048), dtype)
    (text,) = kernels.texts.values()
    assert f"threadIdx.x * {together};" in text


def test_boxes_are_copied_by_16_bytes_where_runs_and_addresses_allow(
    runtime: Runtime, kernels: EmulatedKernels
) -> None:
    rows, packed = (runtime.backend.empty(256).view(np.float32) for _ in range(2))
    found = []
    for first in (0, 1):
        kernels.texts.clear()
        box_packing.BoxPacking(runtime, [rows.reshape(4, 16)[:, first : first + 8]], packed)
        # Without it the compiler makes two loads of each.
        found.append({"typedef struct alignas(16) " in text for text in kernels.texts.values()})
    assert found == [{True}, {False}]


@pytest.mark.parametrize(("count", "width", "rows"), [(0, 3, 2), (4, 0, 2), (4, 3, 0)])
def test_sums_of_nothing_are_zeros_and_need_no_kernel(count: int, width: int, rows: int) -> None:
    target = np.full((rows, width), 7.0)
    row_sums.row_sums(Runtime(), np.zeros(count, np.int64), np.ones((count, width)), target)()
    np.testing.assert_array_equal(target, np.zeros((rows, width)))


def test_boxes_without_elements_are_packed_by_doing_nothing() -> None:
    packed = np.full(3, 7.0)
    packing = box_packing.BoxPacking(Runtime(), [np.empty((0, 4)), np.empty((2, 0))], packed)
    packing.pack()
    packing.unpack()
    assert packed.tolist() == [7.0] * 3


def test_a_device_that_compiles_no_texts_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigurationError, match="device 'cpu' compiles no CUDA texts; ask has_written_kernels first"):
        written_text.written_kernel(Runtime(), "void KERNEL() {}", {}, 1, 32)
