"""safetensors: bytes that the text of the format defines are the truth."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats import safetensors
from mpiparallel.checkpoint.formats.safetensors import open_safetensors, write_safetensors
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CheckpointError

KINDS = {
    "BOOL": "bool",
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "C64": "complex64",
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "one.safetensors"


def file_of(header, content=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def entry(dtype="U8", shape=(2,), offsets=(0, 2)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def read_all(path, **options):
    with open_safetensors(path, **options) as file:
        return {name: read_array(file, name) for name in file.arrays}


def write(path, arrays, attributes=None):
    write_safetensors(path, infos_of(arrays), arrays.items(), attributes or {})


def split(path):
    """Return header and content of a file as the text of the format says."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


@pytest.mark.parametrize("kind", KINDS)
def test_each_dtype_is_read_by_its_name(kind, path):
    array = np.arange(6).astype(KINDS[kind]).reshape(2, 3)
    path.write_bytes(file_of({"w": entry(kind, (2, 3), (0, array.nbytes))}, array.tobytes()))
    found = read_all(path)["w"]
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("kind", KINDS)
def test_each_dtype_is_written_by_its_name(kind, path):
    array = np.arange(6).astype(KINDS[kind]).reshape(2, 3)
    write(path, {"w": array})
    assert split(path) == ({"w": entry(kind, (2, 3), (0, array.nbytes))}, array.tobytes())


def test_arrays_are_aligned_and_follow_one_another(path):
    arrays = {"a": np.array(True), "é/b": np.arange(3.0), "c": np.arange(5, dtype=np.float32), "d": np.empty((0, 2))}
    write(path, arrays)
    header, content = split(path)
    assert int.from_bytes(path.read_bytes()[:8], "little") % 8 == 0
    end = 0
    for name, item in sorted(header.items(), key=lambda pair: pair[1]["data_offsets"]):
        first, last = item["data_offsets"]
        assert first == end
        assert first % arrays[name].itemsize == 0
        assert content[first:last] == arrays[name].tobytes()
        end = last
    assert end == len(content)


def test_attributes_are_texts_of_the_metadata(path):
    write(path, {"w": np.zeros(1)}, {"step": 7, "who": "né"})
    assert split(path)[0]["__metadata__"] == {"step": "7", "who": "né"}
    with open_safetensors(path) as file:
        assert file.attributes == {"step": "7", "who": "né"}


def test_arrays_may_lie_in_any_order_and_a_header_may_end_in_spaces(path):
    header = json.dumps(
        {"b": entry(offsets=(1, 3)), "a": entry(shape=(1,), offsets=(0, 1)), "e": entry("F32", (0,), (1, 1))}
    )
    path.write_bytes(file_of(header.encode() + b"   ", b"\1\2\3"))
    assert {name: array.tolist() for name, array in read_all(path).items()} == {"b": [2, 3], "a": [1], "e": []}


def test_bfloat16_is_read_by_its_bits(path):
    halves = np.array([0x3FC0, 0xC000, 0x7F80], np.uint16)
    path.write_bytes(file_of({"w": entry("BF16", (3,), (0, 6))}, halves.tobytes()))
    read = read_all(path)["w"]
    assert read.dtype == np.dtype(bfloat16)
    np.testing.assert_array_equal(read.astype(np.float32), np.float32([1.5, -2, np.inf]))


TWO = b"\1\2"
REFUSED = {
    "empty": (b"", "announces a header"),
    "cut in the length": (b"\2\0\0", "announces a header"),
    "a header longer than the file": (file_of({})[:-1], "announces a header"),
    "a header of 2**63 bytes": (b"\0" * 7 + b"\x80{}", "announces a header"),
    "a header of over 100 MB": ((100_000_001).to_bytes(8, "little") + b"{}", "announces a header"),
    "no object": (file_of(b"[]"), "no JSON object"),
    "a space first": (file_of(b" {}"), "no JSON object"),
    "not JSON": (file_of(b"{]"), "no JSON object"),
    "not UTF-8": (file_of(b'{"\xff": 1}'), "no JSON object"),
    "nested deeply": (file_of(b'{"a":' + b"[" * 100_000), "no JSON object"),
    "a number of 5000 digits": (file_of(b'{"a":' + b"1" * 5000 + b"}"), "no JSON object|has not just"),
    "NaN": (file_of(b'{"w": NaN}'), "NaN is no JSON"),
    "a name twice": (file_of(b'{"w": {}, "w": {}}'), "occurs twice"),
    "no fields": (file_of({"w": {}}), "has not just"),
    "a field more": (file_of({"w": {**entry(), "more": 1}}, TWO), "has not just"),
    "an unknown dtype": (file_of({"w": entry("F8_E4M3")}, TWO), "has dtype 'F8_E4M3'"),
    "a dtype that is no text": (file_of({"w": entry([])}, TWO), "has dtype"),
    "a negative dim": (file_of({"w": entry(shape=(-2,))}, TWO), "no short lists of integers"),
    "a dim of 2**63": (file_of({"w": entry(shape=(0, 1 << 63), offsets=(0, 0))}), "no short lists of integers"),
    "a dim that is a bool": (file_of({"w": entry("U8", (True,), (0, 1))}, b"\1"), "no short lists of integers"),
    "a dim that is a float": (file_of({"w": entry(shape=(2.0,))}, TWO), "no short lists of integers"),
    "33 dims": (file_of({"w": entry("U8", (1,) * 33, (0, 1))}, b"\1"), "no short lists of integers"),
    "one offset": (file_of({"w": entry(offsets=(2,))}, TWO), "no short lists of integers"),
    "2**80 elements": (file_of({"w": entry(shape=(1 << 40, 1 << 40))}, TWO), "offsets are"),
    "offsets beyond the file": (file_of({"w": entry(offsets=(1, 3))}, TWO), "offsets are"),
    "offsets backwards": (file_of({"w": entry(offsets=(2, 0))}, TWO), "offsets are"),
    "a hole": (file_of({"v": entry(), "w": entry(offsets=(3, 5))}, TWO + TWO + b"\5"), "two arrays or in none"),
    "a hole at the end": (file_of({"w": entry()}, TWO + b"\3"), "1 bytes at the end"),
    "an overlap": (file_of({"v": entry(), "w": entry(offsets=(1, 3))}, TWO + b"\3"), "two arrays or in none"),
    "a bool of 2": (file_of({"w": entry("BOOL")}, TWO), "neither 0 nor 1"),
    "metadata that is no text": (file_of({"__metadata__": {"a": 1}}), "not all texts"),
    "a name with a control character": (file_of({"a\x07": entry()}, TWO), "cannot name"),
    "a name that is no Unicode": (file_of(b'{"\\ud800": ' + json.dumps(entry()).encode() + b"}", TWO), "cannot name"),
    "nine million values": (file_of(b'{"a":[' + b"1," * 9_000_000), "too many values"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_breaks_a_rule_of_the_format_is_refused(case, path):
    content, reason = REFUSED[case]
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=reason) as error:
        read_all(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("arrays", "attributes"),
    [
        ({"w": np.zeros(1, "c16")}, {}),
        ({"w": np.zeros(1, "U1")}, {}),
        ({"__metadata__": np.zeros(1)}, {}),
        ({}, {"text": "\ud800"}),
        ({"a\0": np.zeros(1)}, {}),
    ],
)
def test_what_the_format_cannot_hold_is_not_written(arrays, attributes, path):
    with pytest.raises(CheckpointError, match=str(path)):
        write(path, arrays, attributes)
    assert not path.exists()


def test_each_file_cut_short_is_refused(path):
    write(path, {"a": np.arange(3.0), "b": np.array(True)}, {"step": 7})
    sound = path.read_bytes()
    for length in range(len(sound)):
        path.write_bytes(sound[:length])
        with pytest.raises(CheckpointError):
            open_safetensors(path)


def test_shapes_and_dtypes_are_known_before_anything_is_read(path):
    write(path, {"w": np.zeros((2, 3), np.float16)})
    with open_safetensors(path) as file:
        assert file.arrays == {"w": TensorSpec((2, 3), np.dtype(np.float16))}


def test_a_header_that_readers_would_refuse_is_not_written(path, monkeypatch):
    # That of the format, so that nobody's reader takes too much memory.
    assert safetensors._LONGEST_HEADER == 100_000_000
    write(path, {"w": np.zeros(2)}, {"a": "x"})
    needed = int.from_bytes(path.read_bytes()[:8], "little")
    monkeypatch.setattr(safetensors, "_LONGEST_HEADER", needed)
    write(path, {"w": np.ones(2)}, {"a": "x"})
    assert read_all(path)["w"].tolist() == [1, 1]
    sound = path.read_bytes()
    with pytest.raises(CheckpointError) as raised:
        write(path, {"w": np.zeros(2)}, {"a": "x" * 9})
    assert str(raised.value) == f"{path}: needs a header of {needed + 8} bytes; at most {needed} can be"
    assert path.read_bytes() == sound
