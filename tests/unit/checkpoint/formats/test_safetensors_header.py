"""The header of a safetensors file says where each byte belongs, and what is wrong with it is told by its numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats.safetensors import open_safetensors, write_safetensors
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CheckpointError

SIZES = "use one of BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64, BF16, C64"
NAMES = "bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, bfloat16, complex64"


def entry(dtype: Any = "U8", shape: Any = (2,), offsets: Any = (0, 2)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def file_of(header: Any, content: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.safetensors"


def refusal_of(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        open_safetensors(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "size"),
    [(b"", 0), (b"\2" + bytes(6), 2), (b"\1" + bytes(7) + b"{}", 1), (b"\3" + bytes(7) + b"{}", 3)],
)
def test_a_header_that_is_not_there_is_told_with_the_length_of_the_file(content: bytes, size: int, path: Path) -> None:
    assert refusal_of(path, content) == (
        f"announces a header of {size} bytes in a file of {len(content)}; it is no safetensors file or was cut short: "
        "restore it"
    )


def test_a_file_without_arrays_is_one(path: Path) -> None:
    path.write_bytes(file_of({}))
    with open_safetensors(path) as file:
        assert (dict(file.arrays), file.attributes) == ({}, {})


@pytest.mark.parametrize(
    ("entries", "length", "said"),
    [
        ([(0, 2), (3, 5)], 5, "byte {2} lies in two arrays or in none"),
        ([(1, 3)], 3, "byte {0} lies in two arrays or in none"),
        ([(0, 2), (1, 3)], 3, "byte {1} lies in two arrays or in none"),
        ([(0, 2), (0, 2)], 2, "byte {0} lies in two arrays or in none"),
        ([(0, 2)], 5, "3 bytes at the end are in no array"),
        ([], 1, "1 bytes at the end are in no array"),
    ],
)
def test_a_byte_of_two_arrays_or_of_none_is_told_by_its_place_in_the_file(
    entries: Sequence[tuple[int, int]], length: int, said: str, path: Path
) -> None:
    content = file_of({f"w{index}": entry(offsets=one) for index, one in enumerate(entries)}, bytes(length))
    places = range(len(content) - length, len(content))
    assert refusal_of(path, content) == f"{said.format(*places)}; restore the file"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (entry(offsets=(0, 3)), "has 2 bytes, but its offsets are [0, 3] of 2"),
        (entry(offsets=(1, 3)), "has 2 bytes, but its offsets are [1, 3] of 2"),
        (entry(offsets=(2, 0)), "has 2 bytes, but its offsets are [2, 0] of 2"),
        (entry("F32", (2, 3)), "has 24 bytes, but its offsets are [0, 2] of 2"),
        (entry("F32", ()), "has 4 bytes, but its offsets are [0, 2] of 2"),
    ],
)
def test_offsets_that_do_not_fit_are_told(given: Any, said: str, path: Path) -> None:
    assert refusal_of(path, file_of({"w": given}, b"ab")) == (
        f'array "w" {said}; the file was cut short or is damaged: restore it'
    )


@pytest.mark.parametrize(
    "given",
    [
        entry(offsets=(0,)),
        entry(offsets=(0, 1, 2)),
        entry(offsets={"0": 2}),
        entry(offsets=(0, 2.0)),
        entry(offsets=(-2, 0)),
        entry(shape=2),
        entry(shape=(None,)),
        entry(shape=(0, 1 << 62), offsets=(0, 0)),
        entry(shape=(1,) * 33),
    ],
)
def test_sizes_that_are_no_short_lists_are_refused(given: Any, path: Path) -> None:
    assert refusal_of(path, file_of({"w": given}, b"ab")) == (
        'array "w": shape or data_offsets are no short lists of integers; restore the file'
    )


@pytest.mark.parametrize("shape", [(1,) * 32, (0, (1 << 62) - 1), (2, 0), ()])
def test_a_shape_has_up_to_32_dims_below_2_to_the_62(shape: tuple[int, ...], path: Path) -> None:
    length = int(0 not in shape)
    path.write_bytes(file_of({"w": entry(shape=shape, offsets=(0, length))}, bytes(length)))
    with open_safetensors(path) as file:
        assert file.arrays["w"].shape == shape
        assert read_array(file, "w").shape == shape


@pytest.mark.parametrize("given", [[], "U8", {**entry(), "more": 1}, {"dtype": "U8", "shape": [2]}, None])
def test_an_entry_has_three_fields(given: Any, path: Path) -> None:
    assert refusal_of(path, file_of({"w": given}, b"ab")) == (
        'array "w": its entry has not just data_offsets, dtype, shape; restore the file'
    )


@pytest.mark.parametrize(("dtype", "shown"), [("F8_E4M3", "F8_E4M3"), (None, "None"), (7, "7"), ("x" * 50, "x" * 40)])
def test_a_dtype_that_is_not_known_is_told_with_those_that_are(dtype: Any, shown: str, path: Path) -> None:
    assert refusal_of(path, file_of({"w": entry(dtype)}, b"ab")) == f"array \"w\" has dtype '{shown}'; {SIZES}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[]", "its header is no JSON object, or one of too many values"),
        (b" {}", "its header is no JSON object, or one of too many values"),
        (b'{"w": Infinity}', "its header is no JSON object (Infinity is no JSON)"),
        (b'{"w": -Infinity}', "its header is no JSON object (-Infinity is no JSON)"),
        (b'{"w": {"a": 1, "a": 2}}', "its header is no JSON object (a name occurs twice)"),
        (b'{"__metadata__": []}', "its __metadata__ is not all texts"),
        (b'{"__metadata__": "a"}', "its __metadata__ is not all texts"),
        (b'{"__metadata__": {"a": "b", "c": null}}', "its __metadata__ is not all texts"),
    ],
)
def test_a_header_that_is_none_is_told(text: bytes, said: str, path: Path) -> None:
    assert refusal_of(path, file_of(text)) == f"{said}; restore the file"


@pytest.mark.parametrize("name", ["", "a\n", 4097 * "a"])
def test_attributes_have_names_as_arrays_have(name: str, path: Path) -> None:
    assert "cannot name an array" in refusal_of(path, file_of({"__metadata__": {name: "a"}}))
    with pytest.raises(CheckpointError, match="cannot name an array"):
        write_safetensors(path, {}, [], {name: "a"})


@pytest.mark.parametrize("dtype", ["c16", "U1", ">f4", "M8[s]"])
def test_a_dtype_that_the_format_lacks_is_told_with_those_that_it_has(dtype: str, path: Path) -> None:
    arrays = {"w": np.zeros(1, dtype)}
    with pytest.raises(CheckpointError) as caught:
        write_safetensors(path, infos_of(arrays), arrays.items(), {})
    assert str(caught.value) == f'{path}: array "w" is {np.dtype(dtype)}; safetensors has {NAMES}'


@pytest.mark.parametrize(
    ("arrays", "attributes", "said"),
    [
        ({"__metadata__": np.zeros(1)}, {}, 'no array of safetensors can be called "__metadata__"; rename it'),
        ({}, {"text": "\ud800"}, "an attribute has a text that is no Unicode ("),
    ],
)
def test_what_the_format_cannot_say_is_refused(
    arrays: dict[str, Any], attributes: dict[str, Any], said: str, path: Path
) -> None:
    with pytest.raises(CheckpointError) as caught:
        write_safetensors(path, infos_of(arrays), arrays.items(), attributes)
    assert str(caught.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize("length", range(1, 9))
def test_a_header_is_filled_with_spaces_to_a_multiple_of_8(length: int, path: Path) -> None:
    arrays = {"w" * length: np.array([1.5, -2.0], bfloat16)}
    write_safetensors(path, infos_of(arrays), arrays.items(), {})
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    text = content[8 : 8 + size]
    assert size == -(-len(text.rstrip(b" ")) // 8) * 8
    assert json.loads(text) == {"w" * length: entry("BF16", [2], [0, 4])}
    assert content[8 + size :] == bytes.fromhex("c03f 00c0")


def test_arrays_of_one_size_of_elements_lie_in_the_order_in_which_they_are_given(path: Path) -> None:
    arrays = {name: np.full(1, ord(name), "i4") for name in "zamb"} | {"l": np.zeros(1, "i8"), "s": np.zeros(1, "i1")}
    write_safetensors(path, infos_of(arrays), arrays.items(), {})
    header = json.loads(path.read_bytes()[8:].split(b"}}")[0] + b"}}")
    assert sorted(header, key=lambda name: header[name]["data_offsets"]) == ["l", "z", "a", "m", "b", "s"]
