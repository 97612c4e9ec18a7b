"""CuPy's backend and all that runs on it, on arrays that hide their elements from the host: no GPU is needed."""

from __future__ import annotations

import ast
import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.product_kernel import product_kernel
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.train import Model
from tests.conformance.cuda_emulator.emulator import NO_COMPILER, EmulatedKernels, compiler
from tests.conformance.hidden_arrays.array import HiddenArray, LeakError, UnknownToCupyError
from tests.conformance.hidden_arrays.backend import hidden_backend, install
from tests.conformance.hidden_arrays.library import hidden_library
from tests.conformance.hidden_arrays.stream import OverwrittenError
from tests.gpu import test_training
from tests.gpu.test_moves import DEVICES, check_resumed
from tests.gpu.test_training import NETWORKS, losses
from tests.unit.compile.test_channels_last import Images
from tests.unit.compile.test_channels_last import batch as images
from tests.unit.train import staged_networks

CUPY = hidden_library()
CUT = "4 ranks, cut, optimizer shards"


def hidden(*shape: int) -> HiddenArray:
    return HiddenArray(np.ones(shape, np.float32))


def assign(target: Any, value: Any) -> None:
    target[...] = value


LEAKS = {
    "asarray": lambda x: np.asarray(x),
    "array": lambda x: np.array(x),
    "copyto": lambda x: np.copyto(np.empty(3), x),
    "assignment to the host": lambda x: assign(np.empty(3), x),
    "memoryview": memoryview,
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "index": lambda x: [1, 2][x[0]],
    "bool": lambda x: bool(x[0]),
    "if": lambda x: 1 if x.any() else 2,
    "iteration": list,
    "unpacking": lambda x: [*x],
    "in": lambda x: 1.0 in x,
    "text": str,
    "format": lambda x: f"{x}",
    "tolist": operator.methodcaller("tolist"),
    "item": lambda x: x[0].item(),
    "get by another": operator.methodcaller("get"),
    "asnumpy by another": CUPY.asnumpy,
    "a mask that picks": lambda x: x[x > 0],
    "nonzero": operator.methodcaller("nonzero"),
    "where of one": lambda x: CUPY.where(x > 0),
    "sum": lambda x: sum(x),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_each_way_to_read_a_devices_memory_in_silence_is_found(leak: str) -> None:
    with pytest.raises((LeakError, TypeError)):
        LEAKS[leak](hidden(3))


REFUSED = {
    "a host array beside": lambda x: x + np.ones(3),
    "a host array as an index": lambda x: x[np.array([0, 1])],
    "a host array as a value": lambda x: x.__setitem__(slice(0, 2), np.ones(2)),
    "maximum.reduce": lambda x: CUPY.maximum.reduce(x),
    "an argument of NumPy's alone": lambda x: CUPY.take(x, x, mode="clip"),
    "another argument of NumPy's alone": lambda x: CUPY.sum(x, where=x > 0),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cupy_does_not_do_is_refused(call: str) -> None:
    with pytest.raises((UnknownToCupyError, TypeError)):
        REFUSED[call](hidden(3))


def test_host_memory_that_is_written_to_before_its_copy_has_ended_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    backend = hidden_backend()
    staged = backend.host_array((3,), np.float32)
    staged[...] = 1
    copied = backend.array_module.asarray(staged)
    staged[...] = 2
    with pytest.raises(OverwrittenError):
        backend.to_host(copied)
    backend.copy_from_host(staged, copied)
    staged[...] = 3
    assert backend.to_host(copied).tolist() == [2, 2, 2]


def test_tensors_on_a_device_show_their_values() -> None:
    tensor = Tensor(np.zeros(()))
    tensor._array = HiddenArray(np.array(2.5))
    assert (float(tensor), int(tensor), bool(tensor), tensor.item()) == (2.5, 2, True, 2.5)
    assert "2.5" in repr(tensor)


@pytest.mark.parametrize("dtype", [bfloat16, np.float16, np.float32])
@pytest.mark.parametrize("shapes", [((4, 3), (3, 5)), ((2, 4, 3), (2, 3, 5)), ((2, 4, 3), (3, 5))])
def test_products_of_any_type_and_stack_are_numpys(shapes: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    backend = hidden_backend()
    x, y = (np.arange(np.prod(shape)).reshape(shape).astype(dtype) for shape in shapes)
    truth = np.matmul(x.astype(np.float32), y.astype(np.float32))
    output = backend.from_host(np.zeros(truth.shape, dtype))
    product_kernel(Runtime(backend), backend.from_host(x), backend.from_host(y), output)()
    assert backend.to_host(output).tolist() == truth.astype(dtype).tolist()


@pytest.mark.parametrize(("ranks", "optimizer_parallel"), [(1, False), (2, False), (2, True)])
def test_a_transformer_trains_as_on_the_host(
    ranks: int, optimizer_parallel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    (wanted,) = run_world(1, losses, "Transformer", "CPU", False)
    for found in run_world(ranks, losses, "Transformer", "GPU", optimizer_parallel):
        np.testing.assert_allclose(found, wanted, rtol=NETWORKS["Transformer"][2])


@pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
def test_a_transformer_trains_by_kernels_of_a_gpu_as_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_training, "STEPS", 2)
    (wanted,) = run_world(1, losses, "Transformer", "CPU", False)
    kernels = EmulatedKernels(tmp_path)
    install(monkeypatch, kernels)
    (found,) = run_world(1, losses, "Transformer", "GPU", False)
    kernels.close()
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
def test_images_whose_channels_are_last_train_by_kernels_of_a_gpu_as_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(target: str) -> list[float]:
        context.set_context(device_target=target)
        network = Images(np.float16)
        model = Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9))
        return [float(model.run_step(images())) for _ in range(3)]

    wanted = trained("CPU")
    kernels = EmulatedKernels(tmp_path)
    install(monkeypatch, kernels)
    found = trained("GPU")
    kernels.close()
    np.testing.assert_allclose(found, wanted, rtol=2e-3)
    assert any("ldmatrix" in text and "STEP_DOWN" in text for text in kernels.texts.values())


@pytest.mark.parametrize(("name", "devices"), [("1 rank", DEVICES[0]), *((CUT, pair) for pair in DEVICES[1:])])
def test_a_training_goes_on_from_the_checkpoints_of_either_device(
    name: str, devices: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    check_resumed(name, devices, tmp_path)


def test_stages_of_a_pipeline_train_as_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    case = staged_networks.Case(dropout=0.25, clip=0.5)
    ((wanted, _), *_) = run_world(2, staged_networks.trained, case)
    install(monkeypatch, targets=("CPU", "GPU"))
    ((found, _), *_) = run_world(2, staged_networks.trained, case)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def names_that_the_package_asks_an_array_library_for() -> set[str]:
    found = set()
    for path in Path(__file__).parents[3].joinpath("mpiparallel").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                base = node.value
                name = base.id if isinstance(base, ast.Name) else getattr(base, "attr", "")
                if name in ("xp", "_xp", "array_module"):
                    found.add(node.attr)
    return found


def test_the_library_has_each_name_that_the_package_asks_for() -> None:
    only_numpys = {"partition"}
    lacking = {name for name in names_that_the_package_asks_an_array_library_for() if not hasattr(CUPY, name)}
    assert lacking == only_numpys
