"""No damage to a shard goes unseen."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.checkpoint.shard.writer import write_shard
from mpiparallel.errors import CheckpointError
from tests.reliability.counts import count, record

PAGE = 4096


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    generator = np.random.default_rng(3)
    arrays = {f"w{index}": generator.standard_normal((40, index)) for index in range(5)}
    arrays |= {"large": generator.standard_normal((90, 101)), "empty": np.zeros((0, 3)), "flag": np.array(True)}
    arrays |= {"larger": generator.integers(0, 99, (70, 301)), "uneven": np.arange(2049.0)}
    write_shard(tmp_path / "shard.h5", infos_of(arrays), arrays.items(), {"prefix": "resnet", "step": 77})
    return tmp_path / "shard.h5"


def problem_of(path: Path) -> str:
    """Return what opening and verifying says of a damaged shard."""
    with pytest.raises(CheckpointError) as caught, open_shard(path) as opened:
        opened.verify()
    return str(caught.value)


def parts_of(path: Path) -> dict[str, range]:
    """Return where each part of the file is, as HDF5 sees it."""
    with h5py.File(path) as file:
        parts = {
            key: range(dataset.id.get_offset(), dataset.id.get_offset() + dataset.nbytes)
            for key, dataset in file.items()
        }
    size = path.stat().st_size
    return parts | {
        "superblock": range(48),
        "padding": range(48, parts["large"].start),
        "footer": range(size - 56, size),
    }


def test_no_flipped_bit_goes_unseen_wherever_it_is(shard: Path) -> None:
    content, parts, chooser = shard.read_bytes(), parts_of(shard), random.Random(5)
    places = [chooser.choice(part) for part in parts.values() for _ in range(20)]
    places += [chooser.randrange(len(content)) for _ in range(100)]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << chooser.randrange(8)
        shard.write_bytes(damaged)
        assert problem_of(shard).startswith(f"{shard}: ")


def test_every_bit_of_the_footer_counts(shard: Path) -> None:
    content = shard.read_bytes()
    for bit in range(8 * 56):
        damaged = bytearray(content)
        damaged[len(content) - 56 + bit // 8] ^= 1 << bit % 8
        shard.write_bytes(damaged)
        assert "is an HDF5 file, but no shard of mpiparallel, or a damaged one" in problem_of(shard)


def test_a_flipped_data_bit_is_named_and_the_other_arrays_can_be_read(shard: Path) -> None:
    content = bytearray(shard.read_bytes())
    content[parts_of(shard)["larger"][9]] ^= 4
    shard.write_bytes(content)
    message = r'shard\.h5: array "larger": bytes 0 to 168559 are damaged \(XXH3 [0-9a-f]{16}, expected [0-9a-f]{16}\); '
    with open_shard(shard) as opened:
        with pytest.raises(CheckpointError, match=message):
            read_array(opened, "larger")
        with pytest.raises(CheckpointError, match=message):
            opened.verify()
        opened.verify(name for name in opened.arrays if name != "larger")
        assert read_array(opened, "large").shape == (90, 101)


def test_of_a_large_array_only_the_damaged_block_is_lost(tmp_path: Path) -> None:
    path, array = tmp_path / "one.h5", np.arange(3 * 2**17)
    write_shard(path, infos_of({"w": array}), [("w", array)], {})
    content = bytearray(path.read_bytes())
    content[parts_of_only(path) + 2**20 + 5] ^= 1
    path.write_bytes(content)
    with open_shard(path) as opened:
        for first in (0, 2**18):
            target = np.empty(2**17, np.int64)
            opened.fill("w", first, target)
            assert target.tolist() == array[first : first + 2**17].tolist()
        for first, size in [(2**17 - 1, 2), (2**17 + 9, 1), (2**18 - 1, 5), (0, len(array))]:
            with pytest.raises(CheckpointError, match="bytes 1048576 to 2097151 are damaged"):
                opened.fill("w", first, np.empty(size, np.int64))


def parts_of_only(path: Path) -> int:
    with h5py.File(path) as file:
        return int(file["w"].id.get_offset())


def test_no_truncation_goes_unseen(shard: Path) -> None:
    content, chooser = shard.read_bytes(), random.Random(6)
    lengths = [0, 1, 55, 56, 57, len(content) - 56, len(content) - 1]
    for length in lengths + [chooser.randrange(len(content)) for _ in range(60)]:
        shard.write_bytes(content[:length])
        assert f"it has {length} bytes and has no sound footer" in problem_of(shard)


def test_no_zeroed_page_goes_unseen(shard: Path) -> None:
    content = shard.read_bytes()
    for page in range(0, len(content), PAGE):
        damaged = bytearray(content)
        damaged[page : page + PAGE] = bytes(len(damaged[page : page + PAGE]))
        if damaged != content:
            shard.write_bytes(damaged)
            assert problem_of(shard).startswith(f"{shard}: ")


def test_no_byte_added_removed_or_moved_goes_unseen(shard: Path) -> None:
    content, chooser = shard.read_bytes(), random.Random(7)
    for _ in range(60):
        start, stop = sorted(chooser.randrange(len(content) + 1) for _ in range(2))
        added = chooser.choice([b"\0", b"\0" * PAGE, content[-56:], content, chooser.randbytes(9)])
        for damaged in (content[:start] + added + content[start:], content[:start] + content[start + 1 :]):
            shard.write_bytes(damaged)
            assert problem_of(shard).startswith(f"{shard}: ") or damaged == content
        shard.write_bytes(content[stop:] + content[start:stop] + content[:start])
        assert problem_of(shard).startswith(f"{shard}: ")


def test_a_shard_of_another_rank_or_step_is_told_from_the_right_one(tmp_path: Path) -> None:
    written = []
    for step in range(2):
        array = np.arange(5)
        written.append(write_shard(tmp_path / f"{step}.h5", infos_of({"w": array}), [("w", array)], {"step": step}))
    open_shard(tmp_path / "0.h5", written[0].digest).close()
    with pytest.raises(CheckpointError, match=rf"1\.h5: has digest {written[1].digest}, expected {written[0].digest}"):
        open_shard(tmp_path / "1.h5", written[0].digest)


def mutations(content: bytes, number: int) -> Iterator[bytes]:
    chooser = random.Random(8)
    # Where the structure is; of the data alone a mutation is as good as another.
    spots = [*range(0, 4096), *range(len(content) - 3000, len(content))]
    for _ in range(number):
        mutated = bytearray(content)
        for _ in range(chooser.randint(1, 4)):
            place = chooser.choice(spots) if chooser.random() < 0.8 else chooser.randrange(len(mutated))
            kind, value = chooser.randrange(4), chooser.choice([0, 1, 127, 128, 255, chooser.randrange(256)])
            if kind == 0:
                mutated[place : place + 1] = bytes([value])
            elif kind == 1:
                mutated[place : place + 8] = bytes([value]) * 8
            elif kind == 2:
                mutated[place:place] = chooser.randbytes(chooser.randint(1, 40))
            else:
                del mutated[place : place + chooser.randint(1, 40)]
        if mutated != content:
            yield bytes(mutated)


def test_a_mutated_shard_is_an_error_and_nothing_else(shard: Path) -> None:
    refused = 0
    for mutated in mutations(shard.read_bytes(), count(5000, 500)):
        shard.write_bytes(mutated)
        assert problem_of(shard).startswith(f"{shard}: ")
        refused += 1
    record("shard mutated", refused=refused, silent=0)
