"""The message of MindSpore's checkpoints is read as protobuf reads it, and what is wrong is told with its place."""

from __future__ import annotations

import binascii
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats.mindspore_checkpoint import open_mindspore_checkpoint, write_mindspore_checkpoint
from mpiparallel.errors import CheckpointError
from tests.unit.train.parameter_files.mindspore_checkpoint import checkpoint_message

NO_CHECKPOINT = (
    "the file is no MindSpore checkpoint but, for instance, a strategy file, or is encrypted or damaged: restore it"
)


def message(*values: tuple[str, tuple[int, ...], str, bytes]) -> bytes:
    """Return the bytes that protobuf makes of values: tag, dims, type, content."""
    whole = checkpoint_message()()
    for tag, dims, kind, content in values:
        value = whole.value.add(tag=tag)
        value.tensor.dims.extend(dims)
        value.tensor.tensor_type, value.tensor.tensor_content = kind, content
    found: bytes = whole.SerializeToString()
    return found


def read_all(path: Path) -> dict[str, Any]:
    with open_mindspore_checkpoint(path) as file:
        return {**file.attributes, **{name: read_array(file, name).tolist() for name in file.arrays}}


def refusal_of(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_all(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.ckpt"


def test_heads_far_from_each_other_are_all_read(path: Path) -> None:
    lengths = [0, 1, 300, 65_535, 65_536, 65_537, *range(100, 700, 3)]
    values = [(f"w{index}", (length,), "UInt8", bytes(length)) for index, length in enumerate(lengths)]
    path.write_bytes(message(*values))
    with open_mindspore_checkpoint(path) as file:
        assert {name: info.shape for name, info in file.arrays.items()} == {name: dims for name, dims, _, _ in values}


def test_heads_longer_than_what_is_read_at_once_are_read(path: Path) -> None:
    values = [(f"{index:04000}", (), "Int8", bytes([index])) for index in range(40)]
    path.write_bytes(message(*values))
    assert read_all(path) == {name: content[0] for name, _, _, content in values}


@pytest.mark.parametrize(("dims", "is_read"), [(32, True), (33, False)])
def test_32_dims_are_read_and_no_more(dims: int, is_read: bool, path: Path) -> None:
    content = message(("w", (1,) * dims, "Int8", b"\7"))
    if is_read:
        path.write_bytes(content)
        assert np.shape(read_all(path)["w"]) == (1,) * 32
    else:
        assert f'"w" has more than 32 dims, or no type after them; {NO_CHECKPOINT}' in refusal_of(path, content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("0a05 0a0277", "near byte 2: 5 bytes should follow, but only 3 do"),
        ("0a03 0a0277", "near byte 4: 2 bytes should follow, but only 1 do"),
        ("0a02 0a8501", "near byte 5: 133 bytes should follow, but only 0 do"),
        ("0a04 12017712", "near byte 3: the key 0x12 stands where its tag, 0xa, should"),
        ("1204", "near byte 1: the key 0x12 stands where a value, 0xa, should"),
        ("0a05 0a0177 2200", 'near byte 6: "w" is followed by no tensor'),
        ("0a07 0a0177 1200 1200", 'near byte 7: "w" is followed by no tensor'),
        ("0a05 0a0177 1a00", 'near byte 6: "w" is a MapTensor, which has no fixed shape: leave it out'),
        ("0a05 0a01ff 1200", "near byte 5: a text is not UTF-8"),
        ("0a", "near byte 1: the file ends in the middle of a value"),
        ("0a80", "near byte 2: the file ends in the middle of a value"),
        ("0a8500 0a0177", "near byte 3: a number is negative or written in too many bytes"),
        ("0a ffffffffffffffffff01", "near byte 10: a number is negative or written in too many bytes"),
        ("88b51801 88b51802", "near byte 7: its rank is told twice"),
        ("90b51801 90b51801", "near byte 7: its ranks is told twice"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(content: str, said: str, path: Path) -> None:
    assert refusal_of(path, bytes.fromhex(content)) == f"{said}; {NO_CHECKPOINT}"


def test_a_content_must_have_its_own_key(path: Path) -> None:
    sound = message(("w", (), "Int8", b"a"))
    broken = sound.replace(b"Int8\x1a", b"Int8\x22")
    assert broken != sound
    assert "the key 0x22 stands where its content, 0x1a, should" in refusal_of(path, broken)


@pytest.mark.parametrize(
    ("tag", "kind", "said"),
    [
        (16_384 * "a", "Int8", "cannot name an array"),
        (16_385 * "a", "Int8", "a text has 16385 bytes, more than 16384"),
        ("w", 16 * "a", 'tensor "w" has type "aaaaaaaaaaaaaaaa"; use one of Bool, Int8, Int16'),
        ("w", 17 * "a", "a text has 17 bytes, more than 16"),
    ],
)
def test_texts_longer_than_mindspores_are_not_taken_into_memory(tag: str, kind: str, said: str, path: Path) -> None:
    assert said in refusal_of(path, message((tag, (), kind, b"a")))


@pytest.mark.parametrize(
    ("attributes", "as_arrays"),
    [
        ({"rank": 0, "ranks": 1}, {}),
        ({"rank": 2**63 - 1, "ranks": 2**63 - 1}, {}),
        ({"rank": 127, "ranks": 128}, {}),
        ({"rank": -1, "ranks": 2}, {"rank": -1, "ranks": 2}),
        ({"rank": 3}, {"rank": 3}),
        ({"ranks": 3}, {"ranks": 3}),
        ({"rank": 0.5, "ranks": 2}, {"rank": 0.5, "ranks": 2}),
        ({"rank": "0", "ranks": 2}, {"ranks": 2}),
    ],
)
def test_a_rank_of_ranks_stands_outside_of_the_values_if_it_can_be_one(
    attributes: dict[str, Any], as_arrays: dict[str, Any], path: Path
) -> None:
    write_mindspore_checkpoint(path, {}, [], attributes)
    assert read_all(path) == attributes
    with open_mindspore_checkpoint(path) as file:
        assert {name: read_array(file, name).tolist() for name in file.arrays} == as_arrays


def test_a_text_in_parts_is_one_text(path: Path) -> None:
    text = "größer 😀"
    content = text.encode("utf-32-le") + bytes(8)
    parts = [content[:6], content[6:7], content[7:]]
    path.write_bytes(message(("w", (), "Int8", b"a"), *(("t", (0,), "str", part) for part in parts)))
    with open_mindspore_checkpoint(path) as file:
        assert file.attributes == {"t": text}


def test_a_text_of_a_mebibyte_is_read_and_written_and_no_longer_one(path: Path) -> None:
    longest = "é" * (1 << 18)
    path.write_bytes(message(("t", (0,), "str", longest.encode("utf-32-le"))))
    assert read_all(path) == {"t": longest}
    write_mindspore_checkpoint(path, {}, [], {"t": longest})
    assert read_all(path) == {"t": longest}
    with pytest.raises(CheckpointError) as caught:
        write_mindspore_checkpoint(path, {}, [], {"t": longest + "é"})
    assert str(caught.value) == f'{path}: attribute "t" has 262145 characters, over 262144; shorten it'
    assert read_all(path) == {"t": longest}


@pytest.mark.parametrize("kinds", [("str", "Int8", "str"), ("Int8", "str", "Int8"), ("str", "Int8", "Int8")])
def test_a_name_of_a_text_and_of_a_tensor_is_told_once(kinds: tuple[str, ...], path: Path) -> None:
    contents = {"str": ((0,), "str", b"a\0\0\0"), "Int8": ((), "Int8", b"a")}
    tags = ("w", "v", "w")
    values = [(tag, *contents[kind]) for tag, kind in zip(tags, kinds, strict=True)]
    assert refusal_of(path, message(*values)) == '"w" occurs twice; the file is damaged: restore it'


@pytest.mark.parametrize("place", [0, 4, 8])
def test_a_crc32_that_does_not_fit_is_told_with_the_one_that_would(place: int, path: Path) -> None:
    arrays = {"w": np.arange(9, dtype=np.uint8)}
    write_mindspore_checkpoint(path, infos_of(arrays), arrays.items(), {})
    content = bytearray(path.read_bytes())
    length = len(content) - 17
    sound = binascii.crc32(content[:length])
    # Of a tensor, so that the message is still one.
    content[content.index(bytes(range(9))) + place] ^= 1
    found = binascii.crc32(content[:length])
    assert refusal_of(path, bytes(content)) == (
        f"bytes 0 to {length - 1} are damaged (CRC32 {found:08x}, expected {sound:08x}); restore the file"
    )


def test_a_file_of_no_value_has_its_crc32_alone(path: Path) -> None:
    path.write_bytes(b"crc_num" + bytes(10))
    assert read_all(path) == {}
    assert "near byte 1: the key 0x63 stands where a value" in refusal_of(path, b"crc_num" + bytes(9))


def test_the_dims_of_an_old_scalar_are_told_with_what_they_need(path: Path) -> None:
    assert refusal_of(path, message(("w", (0,), "Int32", bytes(8)))) == (
        'tensor "w" has 8 bytes, but its Int32 (0,) needs 0: it was cut short, or occurs twice; restore the file'
    )


@pytest.mark.parametrize(("value", "shown"), [("\ud800", "'\\ud800'"), (1 << 63, f"{1 << 63}"), (-(1 << 63) - 1, None)])
def test_an_attribute_that_mindspore_has_no_type_for_is_told(value: Any, shown: str | None, path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        write_mindspore_checkpoint(path, {}, [], {"n": value})
    assert str(caught.value) == f'{path}: attribute "n" is {shown or value}, which MindSpore has no type for'


@pytest.mark.parametrize("value", [0.7, 1 / 3, -0.7, 2.0**-150, 1e39, float("inf"), -(2.0**100)])
def test_a_number_of_an_attribute_comes_back_exactly(value: float, path: Path) -> None:
    write_mindspore_checkpoint(path, {}, [], {"n": value})
    assert read_all(path) == {"n": value}
