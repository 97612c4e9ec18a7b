"""Arrays of every dtype, of odd, empty and enormous shapes, in any memory order: they come back as NumPy has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.reliability import states
from tests.reliability.counts import record, share
from tests.reliability.subject import load

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
# Sizes around a block of 1 MiB, a page, what is fused, primes, none at all; more dims than most, dims below their cut.
SHAPES = [
    (),
    (0,),
    (0, 5),
    (3, 0, 2),
    (1,),
    (2,),
    (7,),
    (31, 37),
    (2, 3, 5, 7, 11),
    (1,) * 16,
    (4096,),
    (16384,),
    (131073,),
]
DEVICES = DeviceMatrix((3,), 1)
RANKS = 5
ORDERS: Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "C": lambda array: array.copy("C"),
    "Fortran": lambda array: array.copy("F"),
    "every other element": lambda array: np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array,
    "backwards": lambda array: array[::-1].copy()[::-1] if array.ndim else array,
    "not aligned": lambda array: _not_aligned(array),
    "read only": lambda array: _read_only(array),
}
NAMES = ["w", "a/b", "../up", "..", ".", "a b", "ü.weight", "100%", "%25", "%index", "n" * 200, "layers.0-1_2.w"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_shape_of_any_dtype_comes_back(dtype: str, tmp_path: Path) -> None:
    # Ranks 0 and 4 have no slice; of the short ones neither have others.
    state = {
        f"{shape} cut in {dim}": states.Tensor(Layout(shape, DEVICES, _cut(len(shape), dim)), dtype)
        for shape in SHAPES
        for dim in range(-1, min(len(shape), 2))
    }
    check_round_trip(tmp_path, state, lambda array: array)
    record(f"extreme arrays: {np.dtype(dtype)}", arrays=len(state), wrong=0)


@pytest.mark.parametrize("order", ORDERS)
def test_any_order_in_memory_comes_back(order: str, tmp_path: Path) -> None:
    shapes = [(6, 35), (7,), (301, 1009), ()]
    state = {
        f"{dtype} {shape}": states.Tensor(Layout(shape, DEVICES, _cut(len(shape), 0)), dtype)
        for shape in shapes
        for dtype in ("?", "f2", "f4", "c16")
    }
    check_round_trip(tmp_path, state, ORDERS[order])
    record(f"extreme arrays: {order}", arrays=len(state), wrong=0)


def test_any_name_comes_back(tmp_path: Path) -> None:
    layout = Layout((7, 3), DEVICES, ((0,), ()))
    check_round_trip(tmp_path, {name: states.Tensor(layout, "f4") for name in NAMES}, lambda array: array)


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "\x1b[2J"])
def test_names_that_no_file_should_hold_are_refused(name: str, tmp_path: Path) -> None:
    layout = Layout((7, 3), DEVICES, ((0,), ()))
    with pytest.raises(CheckpointError, match="name"):
        check_round_trip(tmp_path, {name: states.Tensor(layout, "f4")}, lambda array: array)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("dtype", [">f4", "O", "U3", "S3", "M8[s]", "f4,i4"])
def test_dtypes_that_have_no_place_in_a_file_are_refused_by_name(dtype: str, tmp_path: Path) -> None:
    layout = Layout((3,), DeviceMatrix((1,)), ((),))

    def attempt(communicator: Communicator) -> None:
        save_shards(tmp_path, "net", 1, 1, {"net.w": np.zeros(3, dtype)}, {"net.w": layout}, communicator)

    with pytest.raises(CheckpointError, match=r'"net\.w".*dtype'):
        run_world(1, attempt)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(share() < 1, reason="only make soak writes 4 GB")
@pytest.mark.parametrize("dtype", ["i1", "u2"])
def test_more_elements_than_a_c_int_counts_come_back(dtype: str, tmp_path: Path) -> None:
    size = 2**31 + 12345
    available = next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line)
    if int(available.split()[1]) * 1024 < 4 * size * np.dtype(dtype).itemsize:
        pytest.skip(f"needs four times {size * np.dtype(dtype).itemsize} bytes of memory")
    source, target = (Layout((size,), DeviceMatrix((ranks,)), ((0,),)) for ranks in (1, 3))
    truth = np.resize(np.arange(251, dtype=dtype), size)

    def save_it(communicator: Communicator) -> Path:
        return save_shards(tmp_path, "net", 1, 1, {"w": truth}, {"w": source}, communicator)

    (path,) = run_world(1, save_it)
    found = run_world(3, load, tmp_path, Manifest.load(path), {"w": target})
    for rank in range(3):
        box = target.box(rank)
        assert np.array_equal(found[rank]["w"], truth[box.start[0] : box.stop[0]])
    record(f"extreme arrays: 2^31 + 12345 elements of {np.dtype(dtype)}", arrays=1, wrong=0)


def check_round_trip(folder: Path, state: states.State, arranged: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
    """Save the state, each array arranged in memory so; see that it loads on these ranks, and on others, as it was."""

    def save_it(communicator: Communicator) -> Path:
        arrays = {name: arranged(array) for name, array in states.held(state, communicator.rank, 2).items()}
        return save_shards(folder, "net", 1, 2, arrays, states.layouts(state), communicator)

    manifest = Manifest.load(run_world(RANKS, save_it)[0])
    moved = {
        name: states.Tensor(Layout.replicated(tensor.layout.global_shape, DeviceMatrix((2,))), tensor.dtype)
        for name, tensor in state.items()
    }
    for ranks, target in ((RANKS, state), (2, moved)):
        found = run_world(ranks, load, folder, manifest, states.layouts(target))
        for rank in range(ranks):
            assert states.differing(found[rank], states.held(target, rank, 2)) == []


def _cut(dims: int, dim: int) -> tuple[tuple[int, ...], ...]:
    return tuple((0,) if index == dim else () for index in range(dims))


def _not_aligned(array: NDArray[Any]) -> NDArray[Any]:
    content = np.empty(array.nbytes + 1, np.uint8)
    content[1:] = np.frombuffer(array.tobytes(), np.uint8)
    return np.ndarray(array.shape, array.dtype, content.data, 1)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy
