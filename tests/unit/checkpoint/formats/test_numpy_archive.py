"""NumPy's ``.npz``: NumPy itself, and Python's zipfile, are the truth."""

from __future__ import annotations

import io
import tracemalloc
import warnings
import zipfile
import zlib

import numpy as np
import pytest

from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats import zip_directory
from mpiparallel.checkpoint.formats.numpy_archive import open_numpy_archive, write_numpy_archive
from mpiparallel.errors import CheckpointError

ARRAYS = {
    "net.w1": np.random.default_rng(0).normal(size=(300, 170)),
    "é/fortran": np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4)),
    "scalar": np.array(7),
    "empty": np.empty((0, 3), np.int8),
    "flags": np.array([True, False]),
    "half": np.arange(5, dtype=np.float16),
    "complex": np.array([1 + 2j]),
    "several blocks": (np.arange(3_000_000) % 251).astype(np.uint8),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "one.npz"


def read_all(path):
    with open_numpy_archive(path) as file:
        return {name: read_array(file, name) for name in file.arrays}


def write(path, arrays, attributes=None):
    write_numpy_archive(path, infos_of(arrays), arrays.items(), attributes or {})


def assert_equal(found, expected):
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def zip_of(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_saved_is_read(save, path):
    save(path, **ARRAYS)
    assert_equal(read_all(path), ARRAYS)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_part_can_be_read_before_and_after_the_whole_was_compared(save, path):
    save(path, **ARRAYS)
    for name in ("net.w1", "é/fortran", "several blocks"):
        flat = ARRAYS[name].reshape(-1)
        with open_numpy_archive(path) as file:
            for first, count in ((3, 5), (0, flat.size), (flat.size - 1, 1), (2, 0), (1, flat.size - 2)):
                target = np.empty(count, flat.dtype)
                file.fill(name, first, target)
                np.testing.assert_array_equal(target, flat[first : first + count])


def test_what_is_written_numpy_loads_without_pickles(path):
    write(path, ARRAYS)
    with np.load(path, allow_pickle=False) as loaded:
        assert_equal(dict(loaded), ARRAYS)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def test_attributes_come_back_and_numpy_sees_them_as_json(path):
    attributes = {"step": 7, "rate": 0.1, "who": "né"}
    write(path, {"w": np.zeros(1)}, attributes)
    with open_numpy_archive(path) as file:
        assert file.attributes == attributes
        assert list(file.arrays) == ["w"]
    assert b'"step": 7' in np.load(path)["%attributes"].tobytes()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_changed_byte_of_an_array_is_found_by_its_crc32(save, path):
    save(path, w=ARRAYS["net.w1"])
    sound = path.read_bytes()
    for index in range(300, len(sound) - 300, 20_011):
        content = bytearray(sound)
        content[index] ^= 4
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"w\.npy"):
            read_all(path)


def test_verify_reads_everything(path):
    np.savez(path, v=np.zeros(9), w=ARRAYS["net.w1"])
    with open_numpy_archive(path) as file:
        file.verify()
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.write_bytes(content)
    with open_numpy_archive(path) as file, pytest.raises(CheckpointError, match=r"w\.npy"):
        file.verify()


SOUND = npy(np.arange(3.0))


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def with_header(text):
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode()


def altered(name, offset, value):
    """Return an archive of one member whose directory has other bytes at ``offset`` of the member's entry."""
    content = bytearray(zip_of([(name, SOUND)]))
    entry = content.index(b"PK\1\2") + offset
    content[entry : entry + len(value)] = value
    return bytes(content)


def running_into_the_next():
    """Return an archive of two members whose directory says that the first is 8 bytes longer."""
    content = bytearray(zip_of([("v.npy", SOUND), ("w.npy", SOUND)]))
    entry = content.index(b"PK\1\2")
    content[entry + 20 : entry + 28] = 2 * (len(SOUND) + 8).to_bytes(4, "little")
    return bytes(content)


def bomb(size):
    """Return an archive whose member inflates to more than it says."""
    content = bytearray(zip_of([("w.npy", npy(np.zeros(size, np.uint8)))], zipfile.ZIP_DEFLATED))
    said = (npy(np.zeros(10, np.uint8)).__len__()).to_bytes(4, "little")
    entry = content.index(b"PK\1\2")
    content[entry + 24 : entry + 28] = said
    return bytes(content)


def deflated(content, flush=zlib.Z_FINISH, rest=b""):
    """Return an archive of one member of these bytes, compressed up to ``flush``, and ``rest`` behind them in it."""
    maker = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    stored = maker.compress(content) + maker.flush(flush) + rest
    archive = bytearray(zip_of([("w.npy", stored)]))
    entry = archive.index(b"PK\1\2")
    archive[entry + 10 : entry + 12] = zipfile.ZIP_DEFLATED.to_bytes(2, "little")
    archive[entry + 16 : entry + 20] = zlib.crc32(content).to_bytes(4, "little")
    archive[entry + 24 : entry + 28] = len(content).to_bytes(4, "little")
    return bytes(archive)


REFUSED = {
    "empty": (b"", "no ZIP file"),
    "one .npy": (SOUND, "no ZIP file"),
    "a member that is no .npy": (zip_of([("w.txt", SOUND)]), "is no .npy"),
    "a member of no name": (zip_of([(".npy", SOUND)]), "cannot name"),
    "a name twice": (zip_of([("w.npy", SOUND), ("w.npy", SOUND)]), "there twice"),
    "an absolute name": (zip_of([("/etc/w.npy", SOUND)]), "leads out"),
    "a name that climbs": (zip_of([("a/../../w.npy", SOUND)]), "leads out"),
    "a name with a backslash": (zip_of([("a\\w.npy", SOUND)]), "leads out"),
    "a name with a control character": (zip_of([("a\x07.npy", SOUND)]), "cannot name"),
    "bzip2": (zip_of([("w.npy", SOUND)], zipfile.ZIP_BZIP2), "rare method"),
    "encrypted": (altered("w.npy", 8, b"\1\0"), "encrypted"),
    "another name in the member itself": (altered("w.npy", 46, b"v.npy"), "not where the directory says"),
    "a member beyond the file": (altered("w.npy", 42, b"\xff\xff\xff\x7f"), "not where the directory says|damaged"),
    "a member larger than stored": (altered("w.npy", 24, b"\xff\xff\xff\x7f"), "impossible"),
    "a member stored longer than it is": (
        altered("w.npy", 24, (len(SOUND) - 8).to_bytes(4, "little")),
        rf"member .w\.npy. has {len(SOUND)} bytes, not {len(SOUND) - 8}; restore the file",
    ),
    "a member that runs into the next": (running_into_the_next(), "not where the directory says"),
    "another CRC32": (altered("w.npy", 16, b"\0\0\0\0"), "CRC32"),
    "a directory of 4 GB": (zip_of([])[:12] + b"\xff\xff\xff\xfe" + b"\0" * 6, "no ZIP file"),
    "a pickle": (zip_of([("w.npy", npy(np.array([Evil()], object), allow_pickle=True))]), "has dtype object"),
    "texts": (zip_of([("w.npy", npy(np.array(["a"])))]), "has dtype <U1"),
    "records": (zip_of([("w.npy", npy(np.zeros(1, "i4,f4")))]), "has dtype"),
    "the other byte order": (zip_of([("w.npy", npy(np.zeros(1, ">f8")))]), "has dtype >f8"),
    "a dtype that is None": (
        zip_of([("w.npy", with_header("{'descr': None, 'fortran_order': False, 'shape': (1,)}\n") + b"\0" * 8)]),
        "has dtype None",
    ),
    "a dtype of no name": (
        zip_of([("w.npy", with_header("{'descr': '<z9', 'fortran_order': False, 'shape': (1,)}\n") + b"\0" * 9)]),
        r"w\.npy. has dtype <z9, which NumPy does not know; restore it",
    ),
    "no array": (zip_of([("w.npy", b"hello")]), "no array of NumPy"),
    "nothing": (zip_of([("w.npy", b"")]), "no array of NumPy"),
    "a header that is code": (zip_of([("w.npy", with_header("__import__('os').abort()\n"))]), "no dict of Python"),
    "a header nested deeply": (zip_of([("w.npy", with_header("(" * 9000 + "\n"))]), "no dict of Python"),
    "a header of 60 kB": (zip_of([("w.npy", with_header(" " * 60_000 + "\n"))]), "a header of 60001 bytes"),
    "a negative dim": (
        zip_of([("w.npy", with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}\n") + b"\0" * 8)]),
        "has shape",
    ),
    "a huge shape": (
        zip_of([("w.npy", with_header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({1 << 80},)}}\n"))]),
        "needs 9671406556917033397649408",
    ),
    "too few bytes": (zip_of([("w.npy", SOUND[:-1])]), "has 23 bytes.*needs 24"),
    "too many bytes": (zip_of([("w.npy", SOUND + b"\0")]), "has 25 bytes.*needs 24"),
    "a compressed member without its end": (deflated(SOUND, zlib.Z_SYNC_FLUSH), "does not inflate to its"),
    "bytes behind a compressed member's end": (deflated(SOUND, rest=b"more"), "does not inflate to its"),
    "a bomb": (bomb(5_000_000), "does not inflate to its|impossible|needs 5000000"),
    "attributes that are no JSON": (zip_of([("%attributes.npy", npy(np.arange(3, dtype=np.uint8)))]), "no JSON"),
    "attributes that are a list": (
        zip_of([("%attributes.npy", npy(np.frombuffer(b"[]", np.uint8)))]),
        "no texts and numbers",
    ),
    "attributes of float": (zip_of([("%attributes.npy", SOUND)]), "its attributes are float64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_hostile_is_refused(case, path):
    content, reason = REFUSED[case]
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=reason) as error:
        read_all(path)
    assert str(path) in str(error.value)


def test_a_member_of_which_each_byte_was_compressed_is_read(path):
    path.write_bytes(deflated(SOUND))
    assert_equal(read_all(path), {"w": np.arange(3.0)})


@pytest.mark.parametrize("length", [10_000, 10_001])
def test_a_header_is_read_where_numpy_reads_one_of_its_length(length, path):
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}"
    content = with_header(text.ljust(length - 1) + "\n") + np.ones(1).tobytes()
    path.write_bytes(zip_of([("w.npy", content)]))
    try:
        expected = np.lib.format.read_array(io.BytesIO(content)).tolist()
    except ValueError:
        expected = "refused"
    try:
        found = read_all(path)["w"].tolist()
    except CheckpointError:
        found = "refused"
    assert found == expected
    assert (found == "refused") == (length > 10_000)


def test_members_that_overlap_are_refused(path):
    content = bytearray(zip_of([("a.npy", SOUND), ("b.npy", SOUND)]))
    entry = content.rindex(b"PK\1\2")
    content[entry + 42 : entry + 46] = bytes(4)
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not where the directory says"):
        open_numpy_archive(path)


def test_a_directory_longer_than_any_archive_of_arrays_has_is_not_read(path, monkeypatch):
    write(path, {"w": np.zeros(1)})
    assert list(read_all(path)) == ["w"]
    monkeypatch.setattr(zip_directory, "_LONGEST_DIRECTORY", 40)
    with pytest.raises(CheckpointError, match="a directory of 51 bytes"):
        open_numpy_archive(path)


@pytest.mark.parametrize("step", [1, 2, 7, 128, 257, 1000, 5127, 1 << 20])
def test_a_compressed_member_is_inflated_in_steps_of_any_size(step, path):
    np.savez_compressed(path, w=np.zeros(5000, np.uint8))
    with path.open("rb") as file:
        (member,) = zip_directory.read_directory(path, file.fileno())
        found = list(zip_directory.blocks(path, file.fileno(), member, step))
    assert b"".join(found) == npy(np.zeros(5000, np.uint8))
    assert max(map(len, found)) <= step


def test_a_bomb_is_not_inflated_to_its_end(path):
    content = bytearray(zip_of([("w.npy", npy(np.zeros(10, np.uint8)) + bytes(50_000_000))], zipfile.ZIP_DEFLATED))
    entry = content.rindex(b"PK\1\2")
    content[entry + 24 : entry + 28] = len(npy(np.zeros(10, np.uint8))).to_bytes(4, "little")
    path.write_bytes(content)
    with path.open("rb") as file:
        (member,) = zip_directory.read_directory(path, file.fileno())
        inflated = zip_directory.blocks(path, file.fileno(), member, 100)
        assert len(next(inflated)) == 100
        with pytest.raises(CheckpointError, match="does not inflate"):
            next(inflated)
    with pytest.raises(CheckpointError, match="does not inflate"):
        read_all(path)


def test_what_follows_the_end_of_a_compressed_member_is_not_kept_in_memory(path):
    header = npy(np.zeros(0, np.uint8))
    deflater = zlib.compressobj(wbits=-15)
    packed = deflater.compress(header) + deflater.flush() + bytes(20 << 20)
    content = bytearray(zip_of([("w.npy", packed)]))
    for start, method, size in ((content.index(b"PK\3\4"), 8, 22), (content.rindex(b"PK\1\2"), 10, 24)):
        content[start + method] = 8
        content[start + size : start + size + 4] = len(header).to_bytes(4, "little")
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with open_numpy_archive(path) as file, pytest.raises(CheckpointError, match="does not inflate"):
            file.verify()
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


def test_a_compressed_array_is_read_in_little_more_memory_than_its_own(path):
    np.savez_compressed(path, w=np.zeros(16 << 20, np.uint8))
    target = np.ones(16 << 20, np.uint8)
    with open_numpy_archive(path) as file:
        tracemalloc.start()
        try:
            file.fill("w", 0, target)
            assert tracemalloc.get_traced_memory()[1] < 5 << 20
        finally:
            tracemalloc.stop()
    assert not target.any()


@pytest.mark.parametrize("name", ["%attributes", "", "a\0b", "a\nb", "/w", "a/../w", "a\\w"])
def test_names_that_would_not_be_read_are_not_written(name, path):
    with pytest.raises(CheckpointError, match=str(path)):
        write(path, {name: np.zeros(1)})
    assert not path.exists()


def test_attributes_longer_than_would_be_read_are_not_written(path):
    longest = "a" * ((1 << 20) - len('{"note": ""}'))
    write(path, {"w": np.zeros(1)}, {"note": longest})
    with open_numpy_archive(path) as file:
        assert file.attributes == {"note": longest}
    path.unlink()
    with pytest.raises(CheckpointError, match=rf"{path}: the attributes have 1048577 bytes, more than 1048576"):
        write(path, {"w": np.zeros(1)}, {"note": longest + "a"})
    assert not path.exists()
