"""The members of an archive are those that Python's zipfile has written, and no others."""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats.numpy_archive import open_numpy_archive, write_numpy_archive
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CheckpointError


def npy(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


SOUND = npy(np.arange(3.0))


def zip_of(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytearray:
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", compression) as archive:
        warnings.simplefilter("ignore")
        for name, content in members:
            archive.writestr(name, content)
    return bytearray(file.getvalue())


def changed(content: bytearray, offset: int, value: bytes, header: bytes = b"PK\1\2") -> bytearray:
    """Return an archive with other bytes at ``offset`` of the last entry of its directory, or of a member's header."""
    place = content.rindex(header) + offset
    content[place : place + len(value)] = value
    return content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.npz"


def refusal_of(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught, open_numpy_archive(path) as file:
        file.verify()
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


def read_all(path: Path) -> dict[str, list[float]]:
    with open_numpy_archive(path) as file:
        return {name: read_array(file, name).tolist() for name in file.arrays}


@pytest.mark.parametrize("flag", [0x1, 0x20, 0x40, 0x21])
def test_a_member_that_is_encrypted_or_patched_is_refused(flag: int, path: Path) -> None:
    content = changed(zip_of([("w.npy", SOUND)]), 8, flag.to_bytes(2, "little"))
    assert refusal_of(path, content) == ("member 'w.npy' is encrypted or compressed by a rare method; use np.savez")


@pytest.mark.parametrize("flag", [0x2, 0x4, 0x8, 0x10, 0x800])
def test_flags_of_how_well_a_member_is_compressed_do_not_matter(flag: int, path: Path) -> None:
    path.write_bytes(changed(zip_of([("w.npy", SOUND)]), 8, flag.to_bytes(2, "little")))
    assert read_all(path) == {"w": [0.0, 1.0, 2.0]}


def test_a_name_without_the_flag_of_utf_8_is_of_the_code_page_that_zip_began_with(path: Path) -> None:
    content = zip_of([("w.npy", SOUND)])
    for offset, header in ((46, b"PK\1\2"), (30, b"PK\3\4")):
        changed(content, offset, b"\x82", header)
    path.write_bytes(content)
    assert read_all(path) == {"é": [0.0, 1.0, 2.0]}


def test_a_name_may_be_in_any_letters(path: Path) -> None:
    path.write_bytes(zip_of([("größe/文.npy", SOUND), ("w.npy", SOUND)]))
    assert list(read_all(path)) == ["größe/文", "w"]


def test_members_come_as_they_lie_whatever_the_order_of_the_directory(path: Path) -> None:
    content = bytes(zip_of([("b.npy", SOUND), ("a.npy", SOUND)]))
    first, second, end = content.index(b"PK\1\2"), content.rindex(b"PK\1\2"), content.index(b"PK\5\6")
    path.write_bytes(content[:first] + content[second:end] + content[first:second] + content[end:])
    assert list(read_all(path)) == ["b", "a"]


def test_an_archive_of_nothing_is_one(path: Path) -> None:
    path.write_bytes(zip_of([]))
    assert read_all(path) == {}


@pytest.mark.parametrize("magic", [b"PK\3\5", b"QK\3\4", bytes(4)])
def test_a_member_that_does_not_begin_as_one_is_refused(magic: bytes, path: Path) -> None:
    content = changed(zip_of([("w.npy", SOUND)]), 0, magic, b"PK\3\4")
    assert refusal_of(path, content) == (
        "member 'w.npy' is not where the directory says, or overlaps the next; restore the file"
    )


@pytest.mark.parametrize(("offset", "said"), [(26, "its name"), (28, "its extra field")])
def test_a_header_that_is_longer_than_the_member_is_refused(offset: int, said: str, path: Path) -> None:
    content = changed(zip_of([("w.npy", SOUND)]), offset, b"\xff\x7f", b"PK\3\4")
    assert "is not where the directory says, or overlaps the next" in refusal_of(path, content), said


@pytest.mark.parametrize("extra", [0, 8])
def test_a_member_may_lie_right_before_the_next_and_not_in_it(extra: int, path: Path) -> None:
    content = zip_of([("v.npy", SOUND), ("w.npy", SOUND)])
    entry = content.index(b"PK\1\2")
    content[entry + 20 : entry + 28] = 2 * (len(SOUND) + extra).to_bytes(4, "little")
    if not extra:
        path.write_bytes(content)
        assert list(read_all(path)) == ["v", "w"]
    else:
        assert "member 'v.npy' is not where the directory says" in refusal_of(path, content)


@pytest.mark.parametrize(("more", "said"), [(0, "does not inflate to its {} bytes"), (1, "would make {} bytes of {}")])
def test_deflate_makes_1032_bytes_of_one_and_not_more(more: int, said: str, path: Path) -> None:
    stored = 200
    size = 1032 * stored + more
    # Its header fits, and the rest of it is not there.
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = packer.compress(npy(np.zeros(size - 128, np.uint8))[:50_000]) + packer.flush()
    archive = zip_of([("w.npy", packed.ljust(stored, b"\0"))])
    changed(archive, 10, zipfile.ZIP_DEFLATED.to_bytes(2, "little"))
    changed(archive, 24, size.to_bytes(4, "little"))
    assert said.format(size, stored) in refusal_of(path, archive)


def test_a_member_whose_crc32_differs_is_told_with_both(path: Path) -> None:
    content = zip_of([("v.npy", SOUND), ("w.npy", SOUND)])
    expected = zlib.crc32(SOUND) ^ 1
    changed(content, 16, expected.to_bytes(4, "little"))
    assert refusal_of(path, content) == (
        f'member "w.npy" is damaged (CRC32 {zlib.crc32(SOUND):08x}, expected {expected:08x}); restore the file'
    )


@pytest.mark.parametrize("name", ["w", "w.npy.txt", ".npy.w"])
def test_a_member_of_another_suffix_is_refused_by_its_name(name: str, path: Path) -> None:
    assert refusal_of(path, zip_of([(name, SOUND)])) == f'member "{name}" is no .npy, or is there twice'


def test_a_long_name_that_leads_out_is_told_shortly(path: Path) -> None:
    content = zip_of([("../" + "a" * 200, SOUND)])
    assert refusal_of(path, content) == (
        f"member '../{77 * 'a'}': the name leads out of the folder of an archive; choose another"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"a": null}', "its attributes are no texts and numbers; restore the file"),
        (b'{"a": [1]}', "its attributes are no texts and numbers; restore the file"),
        (b'"a"', "its attributes are no texts and numbers; restore the file"),
        (b"[" * 100_000, "its attributes are no JSON ("),
        (b"\xff", "its attributes are no JSON ("),
        (b" " * ((1 << 20) + 1), "its attributes are uint8 (1048577,); restore the file"),
    ],
)
def test_attributes_that_are_none_are_refused(text: bytes, said: str, path: Path) -> None:
    np.savez(path, **{"%attributes": np.frombuffer(text, np.uint8)})
    assert refusal_of(path, path.read_bytes()).startswith(said)


@pytest.mark.parametrize("dtype", ["U3", "S3", "O", "M8[s]", ">f4", "V3"])
def test_what_would_not_be_read_is_not_written(dtype: str, path: Path) -> None:
    arrays = {"w": np.zeros(2, dtype)}
    with pytest.raises(CheckpointError) as caught:
        write_numpy_archive(path, infos_of(arrays), arrays.items(), {})
    assert str(caught.value) == (
        f'{path}: array "w" has dtype {np.dtype(dtype)}; use bool, integers, float or complex in native byte order'
    )
    assert not path.exists()


def test_bfloat16_comes_back_and_numpy_sees_its_bytes(path: Path) -> None:
    arrays = {"w": np.array([[1.5, -2.0]], bfloat16)}
    write_numpy_archive(path, infos_of(arrays), arrays.items(), {})
    assert np.load(path)["w"].tobytes() == bytes.fromhex("c03f 00c0")
    with open_numpy_archive(path) as file:
        assert file.arrays["w"].dtype == np.dtype(bfloat16)
        np.testing.assert_array_equal(read_array(file, "w").astype(np.float32), [[1.5, -2.0]])


@pytest.mark.parametrize(("more", "said"), [(0, "Bad magic number"), (1, "a directory of 16777217 bytes")])
def test_a_directory_has_at_most_16_mebibytes(more: int, said: str, path: Path) -> None:
    length = (1 << 24) + more
    with path.open("wb") as file:
        file.seek(length)
        file.write(b"PK\5\6" + bytes(8) + length.to_bytes(4, "little") + bytes(6))
    with pytest.raises(CheckpointError, match=rf"is no ZIP file, or is damaged \({said}"):
        open_numpy_archive(path)


def test_attributes_are_no_array_among_names_before_and_after_theirs(path: Path) -> None:
    arrays = {name: np.array(number) for number, name in enumerate(["!a", "#", "%", "%b", "w"])}
    write_numpy_archive(path, infos_of(arrays), arrays.items(), {"step": 7})
    assert read_all(path) == {"!a": 0, "#": 1, "%": 2, "%b": 3, "w": 4}
