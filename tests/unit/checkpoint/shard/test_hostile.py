"""A file made to do harm is refused before memory or time is spent on it, also where all its digests are right."""

from __future__ import annotations

import json
import os
import random
import struct
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xxhash

from mpiparallel.checkpoint.files.array_file import read_array
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.errors import CheckpointError
from tests.conformance import patience
from tests.reliability.counts import count, record

DATA = bytes(range(48))
LIMIT = 256 * 2**20


def external(file: h5py.File) -> None:
    file.create_dataset("w", (8,), "u1", external=[("/etc/hostname", 0, 8)])


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((8,), "u1")
    layout[:] = h5py.VirtualSource("/etc/hostname", "w", (8,))
    file.create_virtual_dataset("w", layout)


def external_link(file: h5py.File) -> None:
    file["w"] = h5py.ExternalLink("/etc/hostname", "/w")


def soft_link(file: h5py.File) -> None:
    file["w"] = h5py.SoftLink("/w")


def group(file: h5py.File) -> None:
    file.create_group("w").create_group("v")


def bomb(file: h5py.File) -> None:
    file.create_dataset("w", (2**24,), "u1", chunks=(2**24,), compression="gzip", data=np.zeros(2**24, "u1"))


def objects(file: h5py.File) -> None:
    file.create_dataset("w", (8,), h5py.string_dtype())


def references(file: h5py.File) -> None:
    file.create_dataset("w", (8,), h5py.ref_dtype)


def of_any_length(file: h5py.File) -> None:
    file.create_dataset("w", (8,), h5py.vlen_dtype(np.float64))


def null(file: h5py.File) -> None:
    file.create_dataset("w", dtype="f4")


def huge(file: h5py.File) -> None:
    file.create_dataset("w", (2**50,), "u1")


def harmless(file: h5py.File) -> None:
    file["w"] = np.arange(8)


def with_an_index(file: h5py.File) -> None:
    file["%index"] = np.frombuffer(json.dumps(described()).encode(), np.uint8)


MADE = [external, virtual, external_link, soft_link, group, bomb, objects, references, of_any_length, null, huge]


@pytest.mark.parametrize("make", [*MADE, harmless, lambda file: with_an_index(file)])
def test_an_hdf5_file_that_is_no_shard_is_said_to_be_one(tmp_path: Path, make: Callable[[h5py.File], None]) -> None:
    with h5py.File(tmp_path / "made.h5", "w") as file:
        make(file)
    refused(tmp_path / "made.h5", "is an HDF5 file, but no shard of mpiparallel, or a damaged one")


def refused(path: Path, message: str) -> None:
    """Open a file, which is to fail as ``message`` says and with little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError) as caught:
            open_shard(path)
        assert tracemalloc.get_traced_memory()[1] < LIMIT
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1500 + len(str(path))


@pytest.mark.parametrize("content", [b"", b"no shard", bytes(10**5), b"PK\x03\x04" + bytes(99)])
def test_any_other_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "one.h5").write_bytes(content)
    refused(tmp_path / "one.h5", "is no shard of mpiparallel, or a damaged one")


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.h5").mkdir()
    os.mkfifo(tmp_path / "pipe.h5")
    (tmp_path / "target.h5").write_bytes(sealed(described()))
    (tmp_path / "link.h5").symlink_to("target.h5")
    refused(tmp_path / "folder.h5", "is no regular file")
    refused(tmp_path / "pipe.h5", "is no regular file")
    refused(tmp_path / "link.h5", "is a link")
    refused(tmp_path / "missing.h5", "cannot be read")


def described(**changes: Any) -> dict[str, Any]:
    """Return an index, as json.loads gives it, of DATA; with some of the first array's fields changed."""
    digest = xxhash.xxh3_64_hexdigest(DATA[:32])
    first = {"name": "w", "dtype": "<f4", "shape": [4, 2], "dataset": "w", "first": 0, "offset": 0, "blocks": digest}
    arrays = [first | changes, {**first, "name": "none", "shape": [0, 7], "blocks": ""}]
    skeleton = xxhash.xxh3_128_hexdigest(DATA[32:])
    return {"format": "mpiparallel shard", "attributes": {"step": 7}, "skeleton": skeleton, "arrays": arrays}


def sealed(index: Any, data: bytes = DATA, **changes: int) -> bytes:
    """Return a file of ``data`` and ``index`` whose digests are right; its footer says what ``changes`` say."""
    content = index if isinstance(index, bytes) else json.dumps(index).encode()
    place = {"version": 1, "offset": len(data), "length": len(content)} | changes
    footer = struct.pack("<8sQQQ16s", b"\x93mpshard", *place.values(), xxhash.xxh3_128_digest(content))
    return data + content + footer + xxhash.xxh3_64_digest(footer)


def test_a_file_sealed_here_is_a_shard(tmp_path: Path) -> None:
    (tmp_path / "one.h5").write_bytes(sealed(described()))
    with open_shard(tmp_path / "one.h5") as shard:
        assert read_array(shard, "w").tobytes() == DATA[:32]
        assert read_array(shard, "none").shape == (0, 7)
        assert shard.attributes == {"step": 7}
        shard.verify()


@pytest.mark.parametrize("digest", ["ab" * 16, "ab", ""])
def test_a_wrong_digest_of_the_skeleton_is_found(tmp_path: Path, digest: str) -> None:
    (tmp_path / "one.h5").write_bytes(sealed(described() | {"skeleton": digest}))
    with open_shard(tmp_path / "one.h5") as shard, pytest.raises(CheckpointError, match="around the arrays is damaged"):
        shard.verify()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": [2**40, 2**40]}, "which no memory holds"),
        ({"shape": [2**30], "blocks": "ab" * 8 * 2**12}, "puts two things at bytes"),
        ({"shape": [2**30]}, "has 8 bytes of digests for 4294967296 bytes"),
        ({"shape": [0, 2**62]}, "which no memory holds"),
        ({"shape": [-4, -2]}, "has shape"),
        ({"shape": [4, 2.0]}, "and shape [4, 2.0]"),
        ({"shape": [4, True]}, "and shape [4, True]"),
        ({"shape": [[4], 2]}, "and shape"),
        ({"shape": [1] * 33}, "use at most 32 dims"),
        ({"shape": "42"}, "shape that is no list"),
        ({"shape": [10**400]}, "which no memory holds"),
        ({"dtype": "|O"}, "has dtype '|O'"),
        ({"dtype": "O"}, "has dtype"),
        ({"dtype": ">f4"}, "has dtype"),
        ({"dtype": "<f4,<f4"}, "has dtype"),
        ({"dtype": "f4"}, "has dtype"),
        ({"dtype": 4}, "dtype that is no str"),
        ({"offset": -32}, "at byte -32"),
        ({"offset": 17}, "puts two things at bytes"),
        ({"offset": 2**80}, "puts two things at bytes"),
        ({"offset": 0.0}, "offset that is no int"),
        ({"offset": True}, "offset that is no int"),
        ({"first": -1}, "is element -1"),
        ({"first": None}, "first that is no int"),
        ({"dataset": None}, "dataset that is no str"),
        ({"dataset": "a\n"}, "is element 0 of 'a"),
        ({"blocks": ""}, "has 0 bytes of digests for 32 bytes"),
        ({"blocks": "ab" * 16}, "has 16 bytes of digests"),
        ({"blocks": "xy" * 8}, "non-hexadecimal"),
        ({"blocks": ["ab" * 8]}, "blocks that is no str"),
        ({"name": ""}, "cannot name an array"),
        ({"name": "a\nb"}, "cannot name an array"),
        ({"name": "\x1b[2J"}, "cannot name an array"),
        ({"name": "x" * 10**6}, "cannot name an array"),
        ({"name": "\ud800"}, "cannot name an array"),
        ({"name": "none"}, "names an array twice"),
        ({"name": None}, "name that is no str"),
        ({"more": 1}, "does not say"),
    ],
)
def test_an_index_with_an_impossible_array_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (tmp_path / "one.h5").write_bytes(sealed(described(**change)))
    refused(tmp_path / "one.h5", message)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (described() | {"format": "another"}, 'is of format "another"'),
        (described() | {"format": 1}, "format that is no str"),
        (described() | {"skeleton": "x"}, "non-hexadecimal"),
        (described() | {"attributes": {"step": [1]}}, "attribute 'step' is [1]"),
        (described() | {"attributes": {"step": 2**63}}, "attribute 'step' is"),
        (described() | {"attributes": {"s" * 10**6: None}}, "attribute 'sss"),
        (described() | {"attributes": []}, "attributes that is no dict"),
        (described() | {"arrays": [7]}, "does not say"),
        (described() | {"arrays": {}}, "arrays that is no list"),
        ([], "does not say"),
        (None, "does not say"),
        (b"", "is none of a shard"),
        (b"\xff" * 40, "is no ASCII text"),
        (json.dumps(described()).encode("utf-16"), "is no ASCII text"),
        (json.dumps(described()).encode()[:-1], "is none of a shard"),
        (b"[" * 100_000 + b"]" * 100_000, "is nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "is nested too deeply"),
        (b"[" + b"[]," * 2**20 + b"0]", "is no ASCII text of at most"),
        (b"[" + b'{"a":1},' * 2**20 + b"0]", "is no ASCII text of at most"),
        (b"[" + b"{}," * (2**19 - 9) + b"0]", "does not say"),
        (b'"' + b"x" * (2**25 - 2) + b'"', "does not say"),
        (b" " * (2**25 + 1), "has 33554433 bytes at 48, but"),
        (b"9" * 10**5, "is none of a shard"),
    ],
)
def test_what_is_no_index_is_refused(tmp_path: Path, index: Any, message: str) -> None:
    (tmp_path / "one.h5").write_bytes(sealed(index))
    refused(tmp_path / "one.h5", message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "has a footer of version 2, not 1"),
        ({"offset": 2**63}, "but the file has"),
        ({"offset": 2**64 - 1, "length": 1}, "but the file has"),
        ({"length": 2**63}, "but the file has"),
        ({"length": 2**64 - 1}, "but the file has"),
        ({"offset": 49}, "but the file has"),
        ({"offset": 47}, "index: is damaged"),
        ({"length": 0}, "index: is damaged"),
    ],
)
def test_a_footer_that_points_elsewhere_is_refused(tmp_path: Path, change: dict[str, int], message: str) -> None:
    (tmp_path / "one.h5").write_bytes(sealed(described(), **change))
    refused(tmp_path / "one.h5", message)


def test_a_huge_file_of_holes_is_not_read(tmp_path: Path) -> None:
    seal = sealed(described(), offset=2**42)[len(DATA) :]
    with (tmp_path / "one.h5").open("wb") as file:
        try:
            file.seek(2**42)
            file.write(seal)
        except OSError:
            pytest.skip("this disk has no files of 4 TiB")
    refused(tmp_path / "one.h5", "does not say what 4398046511072 bytes of the file are")


ODD = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    2**64,
    1e308,
    float("nan"),
    "",
    "w",
    "\0",
    "<f8",
    [],
    [0],
    {},
    [[]],
    {"name": 1},
]


def mutated(value: Any, chooser: random.Random) -> Any:
    """Return a JSON value with one of its parts, at any depth, replaced, dropped or doubled."""
    if not value or not isinstance(value, (dict, list)) or chooser.random() < 0.1:
        return chooser.choice([*ODD, value * 2 if isinstance(value, (int, str)) else value])
    copy = value.copy()
    key = chooser.choice(list(value) if isinstance(value, dict) else range(len(value)))
    kind = chooser.randrange(10)
    if kind == 0:
        del copy[key]
    elif kind == 1 and isinstance(copy, list):
        copy.append(copy[key])
    else:
        copy[key] = mutated(value[key], chooser)
    return copy


def test_a_mutated_index_is_an_error_or_a_sound_shard(tmp_path: Path) -> None:
    path, chooser, opened, tries = tmp_path / "one.h5", random.Random(9), 0, count(20_000, 1000)
    for _ in range(tries):
        path.write_bytes(sealed(mutated(described(), chooser)))
        try:
            with open_shard(path) as shard:
                opened += 1
                for name in shard.arrays:
                    assert read_array(shard, name).nbytes <= len(DATA)
        except CheckpointError:
            continue
    assert 0 < opened < tries / 2
    record("index of a shard mutated and sealed again", refused=tries - opened, sound=opened)


WATCHED = """
import sys
seen = []
sys.addaudithook(lambda event, _: seen.append(event) if event.startswith("pickle.") else None)
from pathlib import Path
import numpy as np
from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.checkpoint.shard.writer import write_shard
seen.clear()
state = {"w": np.arange(6.0), "v": np.ones((300, 300), np.float16).T}
write_shard(sys.argv[1], infos_of(state), state.items(), {"step": 7})
with open_shard(sys.argv[1]) as shard:
    read_array(shard, "w"), read_array(shard, "v"), shard.verify()
print(seen)
import pickle
pickle.loads(pickle.dumps(Path))
print(seen)
"""


def test_nothing_is_pickled(tmp_path: Path) -> None:
    child = patience.run(
        [sys.executable, "-c", WATCHED, tmp_path / "one.h5"], capture_output=True, text=True, check=True
    )
    assert child.stdout.splitlines() == ["[]", "['pickle.find_class']"]
