"""MindSpore's ``.ckpt``: genuine files, and protobuf's own parser and serializer, are the truth."""

from __future__ import annotations

import binascii
import math
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats import mindspore_checkpoint, mindspore_message
from mpiparallel.checkpoint.formats.mindspore_checkpoint import open_mindspore_checkpoint, write_mindspore_checkpoint
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CheckpointError
from tests.unit.train.parameter_files.mindspore_checkpoint import checkpoint_message, read_checkpoint

GENUINE = Path(__file__).parents[3] / "fixtures" / "mindspore" / "e2e_8to4"
FILES = sorted(GENUINE.rglob("rank_*/*.ckpt"))
KINDS = {
    **{f"{sign}Int{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{"Bool": "bool", "Complex64": "complex64", "Complex128": "complex128"},
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "one.ckpt"


def message(*values):
    """Return the bytes that protobuf makes of values: tag, dims, type, content."""
    whole = checkpoint_message()()
    for tag, dims, kind, content in values:
        value = whole.value.add(tag=tag)
        value.tensor.dims.extend(dims)
        value.tensor.tensor_type, value.tensor.tensor_content = kind, content
    return whole.SerializeToString()


def read_all(path, **options):
    with open_mindspore_checkpoint(path, **options) as file:
        return {name: read_array(file, name) for name in file.arrays}


def write(path, arrays, attributes=None, **options):
    write_mindspore_checkpoint(path, infos_of(arrays), arrays.items(), attributes or {}, **options)


def assert_equal(found, expected):
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_there_are_genuine_files():
    assert len(FILES) == 13


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_mindspore_wrote_is_read_as_protobuf_reads_it(file):
    assert_equal(read_all(file), read_checkpoint(file))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_written_without_crc_has_the_bytes_that_mindspore_wrote(file, path):
    write(path, read_checkpoint(file), crc=False)
    assert path.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_each_type_has_mindspores_name(kind, path):
    array = np.arange(6).astype(KINDS[kind]).reshape(2, 3)
    path.write_bytes(message(("w", (2, 3), kind, array.tobytes())))
    assert_equal(read_all(path), {"w": array})
    if not kind.startswith("Complex"):
        sound = path.read_bytes()
        write(path, {"w": array}, crc=False)
        assert path.read_bytes() == sound


def test_at_the_end_is_the_crc32_of_all_before_it(path):
    write(path, {"w": np.arange(3.0)})
    content, tail = path.read_bytes()[:-17], path.read_bytes()[-17:]
    assert tail == b"crc_num" + binascii.crc32(content).to_bytes(10, "big")
    assert content == message(("w", (3,), "Float64", np.arange(3.0).tobytes()))


def test_with_a_crc32_no_flipped_bit_goes_unnoticed(path):
    write(path, {"w": np.arange(3.0), "flag": np.array(True)}, {"step": 7, "text": "a", "rank": 1, "ranks": 4})
    sound = path.read_bytes()
    for index in range(8 * len(sound)):
        content = bytearray(sound)
        content[index // 8] ^= 1 << index % 8
        path.write_bytes(content)
        with pytest.raises(CheckpointError):
            read_all(path)


@pytest.mark.parametrize(
    ("value", "dims", "kind", "content"),
    [
        (7, (), "Int64", struct.pack("<q", 7)),
        (True, (), "Bool", b"\1"),
        (0.5, (), "Float32", struct.pack("<f", 0.5)),
        (0.1, (), "Float64", struct.pack("<d", 0.1)),
        (1e300, (), "Float64", struct.pack("<d", 1e300)),
        (math.nan, (), "Float32", struct.pack("<f", math.nan)),
        ("né", (0,), "str", b"n\0\0\0\xe9\0\0\0"),
        ("", (0,), "str", b"\0\0\0\0"),
    ],
)
def test_attributes_are_written_as_append_dict_does_and_no_number_changes(value, dims, kind, content, path):
    write(path, {}, {"note": value}, crc=False)
    assert path.read_bytes() == message(("note", dims, kind, content))
    with open_mindspore_checkpoint(path) as file:
        read = file.attributes["note"] if kind == "str" else read_array(file, "note")[()]
    np.testing.assert_equal(read, value)


def test_of_which_rank_a_file_is_stands_in_fields_that_protobuf_passes_over(path):
    place = {"rank": 300, "ranks": 1024}
    write(path, {"w": np.arange(3.0)}, place)
    with open_mindspore_checkpoint(path) as file:
        assert file.attributes == place
    path.write_bytes(path.read_bytes()[:-17])
    assert_equal(read_checkpoint(path), {"w": np.arange(3.0)})


def test_a_tensor_in_parts_is_one_array_and_can_be_read_from_anywhere(path):
    array = np.arange(100, dtype=np.int32)
    content = array.tobytes()
    parts = [content[:120], content[120:122], content[122:122], content[122:]]
    path.write_bytes(message(("a", (), "Int8", b"\5"), *(("w", (4, 25), "Int32", part) for part in parts)))
    with open_mindspore_checkpoint(path) as file:
        assert file.arrays["w"] == TensorSpec((4, 25), np.dtype(np.int32))
        for first in range(0, 100, 7):
            target = np.empty(min(40, 100 - first), np.int32)
            file.fill("w", first, target)
            np.testing.assert_array_equal(target, array[first : first + 40])


def test_large_tensors_are_written_in_parts_with_the_dims_of_all(path, monkeypatch):
    monkeypatch.setattr(mindspore_checkpoint, "_PART", 16)
    array = np.arange(5.0).reshape(5, 1)
    content = array.tobytes()
    write(path, {"w": array}, crc=False)
    parts = (content[:16], content[16:32], content[32:])
    assert path.read_bytes() == message(*(("w", (5, 1), "Float64", part) for part in parts))


def test_a_scalar_of_an_old_release_has_dims_0(path):
    path.write_bytes(message(("lr", (0,), "Float32", struct.pack("<f", 0.5)), ("none", (0,), "Float32", b"")))
    assert_equal(read_all(path), {"lr": np.array(0.5, np.float32), "none": np.empty(0, np.float32)})


def test_bfloat16_is_read_and_written_by_its_bits(path):
    exact = np.array([1.5, -2.0, 3e38, 0.0, np.inf], np.float32)
    halves = (exact.view(np.uint32) >> 16).astype(np.uint16)
    path.write_bytes(message(("w", (5,), "BFloat16", halves.tobytes())))
    read = read_all(path)["w"]
    assert read.dtype == np.dtype(bfloat16)
    np.testing.assert_array_equal(read.astype(np.float32).view(np.uint32), halves.astype(np.uint32) << 16)
    content = path.read_bytes()
    write(path, {"w": read}, crc=False)
    assert path.read_bytes() == content


VALUE = ("w", (2,), "Int8", b"ab")
REFUSED = {
    "empty": (b"", "is empty"),
    "a strategy file": (
        (GENUINE / "src_strategy.ckpt").read_bytes(),
        "no MindSpore checkpoint but, for instance, a strategy file",
    ),
    "another name of a type": (message(("w", (2,), "int8", b"ab")), 'type "int8"'),
    "too few bytes": (message(("w", (3,), "Int8", b"ab")), "has 2 bytes.* needs 3"),
    "a name twice": (message(VALUE, VALUE), "occurs twice"),
    "a name twice, apart": (message(VALUE, ("v", (), "Int8", b"a"), VALUE), "occurs twice"),
    "parts of other dims": (message(("w", (2,), "Int8", b"a"), ("w", (1, 2), "Int8", b"b")), "differ in dims"),
    "a name of nothing": (message(("", (2,), "Int8", b"ab")), "cannot name"),
    "a name with a newline": (message(("a\nb", (2,), "Int8", b"ab")), "cannot name"),
    "33 dims": (message(("w", (1,) * 33, "Int8", b"a")), "more than 32 dims"),
    "a negative dim": (message(("w", (-1,), "Int8", b"")), "negative"),
    "dims of 2**80 elements": (message(("w", (1 << 40, 1 << 40), "Int8", b"a")), "needs 1208925819614629174706176"),
    "bool of 2": (message(("w", (1,), "Bool", b"\2")), "neither 0 nor 1"),
    "of two ranks": (bytes.fromhex("88b51801 88b51802"), "rank is told twice"),
    "a field of others": (bytes.fromhex("98b51801"), "stands where a value"),
    "a MapTensor": (bytes.fromhex("0a05 0a0177 1a00"), "MapTensor"),
    "a value of an unknown kind": (bytes.fromhex("0a05 0a0177 2200"), "is followed by no tensor"),
    "a number in too many bytes": (bytes.fromhex("0a8500 0a0177"), "too many bytes"),
    "a value longer than the file": (message(VALUE)[:-1], "should follow, but only"),
    "something behind the content": (
        bytes.fromhex("0a10 0a0177 120b 1204") + b"Int8\x1a\1a\x08\1",
        "after its content",
    ),
    "a text of three bytes": (message(("t", (0,), "str", b"abc")), r"text .t. has 3 bytes, not a multiple of 4 up to"),
    "a text of over a mebibyte": (message(("t", (0,), "str", bytes((1 << 20) + 4))), "1048580 bytes, not a multiple"),
    "a text that is no UTF-32": (message(("t", (0,), "str", b"\xff" * 4)), "UTF-32"),
    "a name that is no UTF-8": (bytes.fromhex("0a05 0a01ff 1200"), "UTF-8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_mindspore_would_not_write_is_refused(case, path):
    content, reason = REFUSED[case]
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=reason) as error:
        read_all(path)
    assert str(path) in str(error.value)


def test_more_values_than_any_checkpoint_has_are_refused(path, monkeypatch):
    monkeypatch.setattr(mindspore_message, "_MOST_VALUES", 3)
    for count in (3, 4):
        path.write_bytes(message(*((f"w{index}", (), "Int8", b"a") for index in range(count))))
        if count == 3:
            assert len(read_all(path)) == 3
    with pytest.raises(CheckpointError, match="more than 3 values"):
        read_all(path)


def test_a_file_cut_short_is_refused_or_ends_with_a_whole_value(path):
    sound = FILES[0].read_bytes()
    whole = read_checkpoint(FILES[0])
    for length in range(1, len(sound), 5):
        path.write_bytes(sound[:length])
        try:
            found = read_all(path)
        except CheckpointError:
            continue
        assert_equal(found, dict(list(whole.items())[: len(found)]))


@pytest.mark.parametrize(
    ("arrays", "attributes", "reason"),
    [
        ({"w": np.zeros(2, "U3")}, {}, "MindSpore has bool"),
        ({"w": np.zeros(2, ">f4")}, {}, "MindSpore has bool"),
        ({"w": np.zeros(2, "c8")}, {}, "MindSpore has bool"),
        ({"w": np.zeros(0)}, {}, "reads as a scalar"),
        ({"w": np.zeros(2)}, {"w": 1}, "an array and an attribute"),
        ({"w": np.zeros(2)}, {"n": 1 << 63}, "no type for"),
        ({"": np.zeros(2)}, {}, "cannot name"),
    ],
)
def test_what_mindspore_has_no_type_for_is_not_written(arrays, attributes, reason, path):
    path.write_bytes(b"old")
    with pytest.raises(CheckpointError, match=reason):
        write(path, arrays, attributes)
    assert path.read_bytes() == b"old"


def test_one_array_at_a_time_is_in_memory(path):
    size, count = 1 << 20, 16
    infos = {f"w{index}": TensorSpec((size,), np.dtype(np.uint8)) for index in range(count)}
    tracemalloc.start()
    try:
        write_mindspore_checkpoint(path, infos, ((name, np.full(size, 1, np.uint8)) for name in infos), {})
        with open_mindspore_checkpoint(path) as file:
            assert all(read_array(file, name).all() for name in file.arrays)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * size
