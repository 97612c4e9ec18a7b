"""New memory is laid out so that kernels and the system are quick with it, and a lack of it is told in bytes."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.loading import new_arrays
from mpiparallel.checkpoint.loading.new_arrays import LackOfMemoryError


def spec(*shape: int, dtype: str = "u1") -> TensorSpec:
    return TensorSpec(shape, np.dtype(dtype))


def place(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> int:
    return int(array.__array_interface__["data"][0])


def test_arrays_have_their_shapes_begin_at_multiples_of_64_and_share_no_byte() -> None:
    infos = {
        "odd": spec(3),
        "scalar": spec(dtype="f8"),
        "empty": spec(0, 4, dtype="f4"),
        "exact": spec(64),
        "one more": spec(65),
        "rows": spec(5, 7, dtype="c16"),
        "flag": spec(1, dtype="?"),
    }
    arrays = new_arrays.new_arrays(infos)
    assert list(arrays) == list(infos)
    assert {name: (array.shape, array.dtype) for name, array in arrays.items()} == {
        name: (info.shape, info.dtype) for name, info in infos.items()
    }
    assert all(place(array) % 64 == 0 for array in arrays.values() if array.size)
    assert all(array.flags.c_contiguous and array.flags.writeable for array in arrays.values())
    assert not any(np.may_share_memory(*pair) for pair in combinations(arrays.values(), 2))
    # One follows the other: 3, 8, 0, 64 and 65 bytes take 64, 64, 0, 64 and 128.
    first = place(arrays["odd"])
    assert [place(arrays[name]) - first for name in ("scalar", "exact", "one more", "rows")] == [64, 128, 192, 320]


def test_what_lies_together_begins_where_a_huge_page_does() -> None:
    arrays = new_arrays.new_arrays({"a": spec(10), "b": spec(10)})
    assert place(arrays["a"]) % (2 << 20) == 0


@pytest.mark.parametrize("size", [2 << 20, (2 << 20) + 64, (4 << 20) - 64, 4 << 20])
def test_there_is_room_behind_the_beginning_of_the_huge_page(size: int) -> None:
    arrays = new_arrays.new_arrays({"large": spec(size), "small": spec(64)})
    assert {name: array.shape for name, array in arrays.items()} == {"large": (size,), "small": (64,)}


def test_no_array_is_asked_for_and_none_made() -> None:
    assert new_arrays.new_arrays({}) == {}


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ([32 << 20, 32 << 20], [[0, 1]]),
        ([32 << 20, (32 << 20) + 1], [[0], [1]]),
        ([65 << 20, 1], [[0], [1]]),
        ([1, 65 << 20, 1], [[0], [1], [2]]),
    ],
)
def test_arrays_of_up_to_64_mebibytes_lie_together(sizes: list[int], together: list[list[int]]) -> None:
    # Memory that nobody writes to takes none.
    arrays = list(new_arrays.new_arrays({f"w{index}": spec(size) for index, size in enumerate(sizes)}).values())

    def owner(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> int:
        while isinstance(array.base, np.ndarray):
            array = array.base
        return id(array)

    owners = [owner(array) for array in arrays]
    assert [
        [index for index in range(len(arrays)) if owners[index] == one] for one in dict.fromkeys(owners)
    ] == together


def test_a_lack_of_memory_is_told_with_all_that_was_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(new_arrays, "np", SimpleNamespace(empty=refuse, uint8=np.uint8))
    with pytest.raises(LackOfMemoryError) as caught:
        new_arrays.new_arrays({"a": spec(100), "b": spec(64), "c": spec(80 << 20)})
    assert str(caught.value) == f"there is no room for the {128 + 64 + (80 << 20)} bytes of this rank; use more ranks"


def test_more_bytes_than_can_be_counted_are_a_lack_of_memory_too() -> None:
    with pytest.raises(LackOfMemoryError, match=f"^there is no room for the {1 << 63} bytes of this rank"):
        new_arrays.new_arrays({"a": spec(1 << 63)})
