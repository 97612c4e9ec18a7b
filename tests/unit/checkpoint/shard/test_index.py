"""What a shard says of itself has limits and places, and what breaks them is told with its numbers."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.shard.block_digest import BlockTable, block_count, digest_in, digest_of, small_table
from mpiparallel.checkpoint.shard.index import Footer, Index, check_attribute, check_info, check_name, gaps
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.errors import CheckpointError

MEND = "restore the file, or run mpiparallel ckpt recover"


@pytest.mark.parametrize(
    ("extents", "end", "between"),
    [
        ([], 0, []),
        ([], 5, [(0, 5)]),
        ([(0, 5)], 5, []),
        ([(0, 2), (2, 5)], 5, []),
        ([(3, 4), (1, 2)], 5, [(0, 1), (2, 3), (4, 5)]),
        ([(2, 2), (0, 5), (9, 9)], 5, []),
    ],
)
def test_what_lies_between_extents_is_found(
    extents: list[tuple[int, int]], end: int, between: list[tuple[int, int]]
) -> None:
    assert gaps(extents, end) == between


@pytest.mark.parametrize(
    ("extents", "said"),
    [
        ([(0, 3), (2, 5)], "puts two things at bytes [0, 3] and [2, 5], of 6 in all"),
        ([(1, 3), (1, 2)], "puts two things at bytes [1, 2] and [1, 3], of 6 in all"),
        ([(4, 7)], "puts two things at bytes [4, 7] and [6, 6], of 6 in all"),
        ([(-1, 2)], "puts two things at bytes [0, 0] and [-1, 2], of 6 in all"),
    ],
)
def test_what_lies_in_two_extents_or_outside_is_told(extents: list[tuple[int, int]], said: str) -> None:
    with pytest.raises(ValueError, match="puts two things") as caught:
        gaps(extents, 6)
    assert str(caught.value) == said


@pytest.mark.parametrize("name", ["a", "x" * 1024, "é" * 512, " ", "a/b", "文" * 341])
def test_a_name_has_up_to_1024_bytes(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", "''"),
        (7, "7"),
        ("a\0", "'a\\x00'"),
        ("x" * 1025, f"'{'x' * 76}..."),
        ("é" * 513, f"'{'é' * 76}..."),
        ("\n" + "x" * 76, f"'\\n{'x' * 76}'"),
    ],
)
def test_a_name_that_is_none_is_told_shortly(name: object, shown: str) -> None:
    with pytest.raises(ValueError, match="cannot name") as caught:
        check_name(name)
    assert str(caught.value) == (
        f"{shown} cannot name an array; use a text of at most 1024 bytes without control characters"
    )


@pytest.mark.parametrize("shape", [(), (1,) * 32, (0, 3), ((1 << 59) - 1,), (0, (1 << 59) - 1)])
def test_an_array_has_up_to_32_dims_and_less_than_2_to_the_62_bytes(shape: tuple[int, ...]) -> None:
    check_info(TensorSpec(shape, np.dtype("f8")))


@pytest.mark.parametrize(
    ("shape", "dtype", "said"),
    [
        ((1,) * 33, "f8", f"has shape {(1,) * 33!s:.200}; use at most 32 dims"),
        ((3, -1), "f8", "has shape (3, -1); use at most 32 dims"),
        ((1 << 59,), "f8", f"has shape ({1 << 59},), which no memory holds"),
        ((0, 1 << 59), "f8", f"has shape (0, {1 << 59}), which no memory holds"),
        ((1 << 30, 1 << 32), "u1", f"has shape ({1 << 30}, {1 << 32}), which no memory holds"),
        ((2,), ">f8", "has dtype >f8; use bool, integers, float or complex in little-endian byte order"),
        ((2,), "U3", "has dtype <U3; use bool, integers, float or complex in little-endian byte order"),
    ],
)
def test_an_array_that_cannot_be_stored_is_told(shape: tuple[int, ...], dtype: str, said: str) -> None:
    with pytest.raises(ValueError, match="has ") as caught:
        check_info(TensorSpec(shape, np.dtype(dtype)))
    assert str(caught.value) == said


@pytest.mark.parametrize("value", ["", "a", 0.5, float("inf"), 0, -(1 << 63), (1 << 63) - 1])
def test_an_attribute_is_a_text_a_float_or_an_integer_of_64_bits(value: Any) -> None:
    check_attribute("a", value)


@pytest.mark.parametrize("value", [None, True, [1], 1 << 63, -(1 << 63) - 1, b"a", "x" * 0 or {}])
def test_an_attribute_that_is_none_is_told(value: Any) -> None:
    with pytest.raises(ValueError, match="attribute") as caught:
        check_attribute("step", value)
    assert str(caught.value) == (
        f"attribute 'step' is {value!r:.80}; use a name with a text, a float or an integer of 64 bits"
    )
    with pytest.raises(ValueError, match="attribute 7 is 'a'"):
        check_attribute(7, "a")


def test_a_footer_comes_back_and_a_damaged_one_does_not() -> None:
    footer = Footer(1 << 40, 77, b"0123456789abcdef")
    content = footer.encode()
    assert len(content) == 56
    assert Footer.decode(content) == footer
    for damaged in (content[:-1], content + b"\0", b"", b"\0" + content[1:]):
        with pytest.raises(ValueError, match=r"^has no sound footer$"):
            Footer.decode(damaged)


@pytest.mark.parametrize(("magic", "version"), [(b"\x93mpshard", 2), (b"\x93mpshare", 1), (b"\x93mpshard", 0)])
def test_a_footer_of_another_version_or_format_is_refused(magic: bytes, version: int) -> None:
    content = struct.pack("<8sQQQ16s", magic, version, 1, 2, bytes(16))
    with pytest.raises(ValueError, match=f"^has a footer of version {version}, not 1$"):
        Footer.decode(content + xxhash.xxh3_64_digest(content))


def described(*changes: dict[str, Any]) -> bytes:
    digest = xxhash.xxh3_64_hexdigest(bytes(32))
    first = {"name": "w", "dtype": "<f4", "shape": [4, 2], "dataset": "w", "first": 0, "offset": 0, "blocks": digest}
    arrays = [{**first, "name": f"w{number}", **change} for number, change in enumerate(changes)]
    return json.dumps(
        {"format": "mpiparallel shard", "attributes": {}, "skeleton": "00" * 16, "arrays": arrays}
    ).encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"blocks": "00" * 16}, 'says that array "w1" has 16 bytes of digests for 32 bytes'),
        ({"blocks": ""}, 'says that array "w1" has 0 bytes of digests for 32 bytes'),
        ({"first": -1}, "says that array \"w1\" is element -1 of 'w', at byte 0"),
        ({"offset": -8}, "says that array \"w1\" is element 0 of 'w', at byte -8"),
        ({"dataset": "a\n"}, "says that array \"w1\" is element 0 of 'a\\n', at byte 0"),
        ({"dtype": "f4"}, "says that array \"w1\" has dtype 'f4' and shape [4, 2]"),
        ({"shape": [4, 2.0]}, "says that array \"w1\" has dtype '<f4' and shape [4, 2.0]"),
        ({"name": "w0"}, "names an array twice"),
        ({"first": "0"}, "gives an array first that is no int"),
        ({"more": 1}, "does not say name, dtype, shape, dataset, first, offset, blocks of an array"),
    ],
)
def test_an_entry_among_sound_ones_is_told_by_its_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=r"says|names|gives|does not say") as caught:
        Index.decode(described({}, change, {}))
    assert str(caught.value) == said
    assert list(Index.decode(described({}, {"first": 3, "offset": 64}, {})).arrays) == ["w0", "w1", "w2"]


def test_an_index_of_another_format_is_told_shortly() -> None:
    content = described().replace(b"mpiparallel shard", b"x" * 50)
    with pytest.raises(ValueError, match=f'^is of format "{"x" * 40}", not "mpiparallel shard"$'):
        Index.decode(content)


@pytest.mark.parametrize(("more", "is_read"), [(0, True), (1, False)])
def test_what_is_around_the_arrays_has_a_mebibyte_and_16_kibibytes_for_each(
    more: int, is_read: bool, tmp_path: Path
) -> None:
    around = bytes((1 << 20) + 2 * (1 << 14) + more)
    index = described({}, {"shape": [0], "blocks": ""}).replace(b"00" * 16, xxhash.xxh3_128_hexdigest(around).encode())
    footer = struct.pack("<8sQQQ16s", b"\x93mpshard", 1, 32 + len(around), len(index), xxhash.xxh3_128_digest(index))
    path = tmp_path / "one.h5"
    path.write_bytes(bytes(32) + around + index + footer + xxhash.xxh3_64_digest(footer))
    if is_read:
        with open_shard(path) as shard:
            shard.verify()
    else:
        with pytest.raises(CheckpointError) as caught:
            open_shard(path)
        assert str(caught.value) == f"{path}: index: does not say what {len(around)} bytes of the file are; {MEND}"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "no shard of mpiparallel"),
        (b"x" * 55, "no shard of mpiparallel"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file, but no shard of mpiparallel"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "an HDF5 file, but no shard of mpiparallel"),
        (b"\x89HDF\r\n\x1a", "no shard of mpiparallel"),
    ],
)
def test_a_file_that_is_no_shard_is_told_with_its_length(content: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "one.h5").write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        open_shard(tmp_path / "one.h5")
    assert str(caught.value) == (
        f"{tmp_path}/one.h5: is {what}, or a damaged one: it has {len(content)} bytes and has no sound footer; {MEND}"
    )


@pytest.mark.parametrize("length", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
@pytest.mark.parametrize("piece", [1 << 18, (1 << 20) + 7, 9 << 20])
def test_a_table_has_a_digest_for_each_mebibyte_however_it_comes(length: int, piece: int) -> None:
    content = np.resize(np.arange(251, dtype=np.uint8), length).tobytes()
    expected = [xxhash.xxh3_64_digest(content[start : start + 2**20]) for start in range(0, length, 2**20)]
    table = BlockTable()
    for start in range(0, length, piece):
        table.add(memoryview(content)[start : start + piece])
    found = table.content()
    assert found == b"".join(expected)
    assert block_count(length) == len(expected)
    assert [digest_in(found, block) for block in range(len(expected))] == expected
    assert digest_of(found) == xxhash.xxh3_64_hexdigest(b"".join(expected))
    if len(expected) < 2:
        assert small_table(content) == found


def test_an_index_may_have_arrays_of_every_dtype() -> None:
    dtypes = [
        "|b1",
        "|i1",
        "|u1",
        "<i2",
        "<u2",
        "<i4",
        "<u4",
        "<i8",
        "<u8",
        "<f2",
        "bfloat16",
        "<f4",
        "<f8",
        "<c8",
        "<c16",
    ]
    found = Index.decode(described(*({"dtype": dtype, "shape": [0], "blocks": ""} for dtype in dtypes))).arrays
    assert [stored.info.dtype.itemsize for stored in found.values()] == [1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16]
