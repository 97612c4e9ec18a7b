"""Whether one shard is the one that was committed, read to its last byte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.digested_file import DigestedFile, open_committed
from mpiparallel.checkpoint.files.meter import Meter
from mpiparallel.checkpoint.files.regular_file import check_folder
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.manifest_entries import ShardEntry
from mpiparallel.checkpoint.shard.block_digest import BLOCK
from mpiparallel.checkpoint.shard.reader import ShardFile
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError

ShardDamage = Literal["missing", "damaged", "rewritten", "unequal", "companion"]

_ADVICE: Final = "; restore the file"


@dataclass(frozen=True)
class ShardProblem:
    """What is wrong with a file of a checkpoint: with one of its arrays, or, where ``tensor`` is None, with all of it.

    ``kind`` says what: the file is "missing" or "damaged". It is "rewritten" if its arrays are as committed, but not
    the bytes around them. A slice is "unequal" if it differs from its replica, though both are as they were written. A
    "companion" is a file that is no shard; its ``rank`` is None. ``file`` is the path in the folder.
    """

    kind: ShardDamage
    file: str
    text: str
    rank: int | None = None
    tensor: str | None = None

    def __str__(self) -> str:
        array = "" if self.tensor is None else f'array "{self.tensor}": '
        return f"{self.file}: {array}{self.text}"


@dataclass(frozen=True)
class ShardCheck:
    """What the file of ``rank`` is worth: the tensors in ``sound`` are in it, whole, as they were committed.

    ``digest`` and ``size`` are those of the file that is there; the empty text and 0 where there is none.
    """

    rank: int
    problems: tuple[ShardProblem, ...]
    sound: frozenset[str]
    digest: str = ""
    size: int = 0


def check_shard(folder: Path, manifest: Manifest, rank: int, meter: Meter) -> ShardCheck | None:
    """Return what the shard of ``rank`` is worth, or None where it has none. It raises nothing for damage."""
    entry = manifest.shards[rank]
    if entry is None:
        return None
    path = folder / entry.file
    try:
        check_folder(path.parent)
        file = open_committed(path)
    except (CheckpointError, OSError, MemoryError) as error:
        meter.add(entry.size)
        if os.path.lexists(path):
            problem = ShardProblem("damaged", entry.file, reason(error, path), rank)
        else:
            problem = ShardProblem("missing", entry.file, "is missing", rank)
        return ShardCheck(rank, (problem,), frozenset())
    with file:
        return _checked(file, manifest, rank, entry, meter)


def reason(error: BaseException, path: Path) -> str:
    """Return what ``error`` says of the file ``path``, without its name and without advice that is given once for all.

    >>> reason(CheckpointError("a.h5: is damaged; restore the file, or another"), Path("a.h5"))
    'is damaged'
    """
    text = str(error) or type(error).__name__
    return text.removeprefix(f"{path}: ").partition(_ADVICE)[0]


def _checked(
    file: ShardFile | DigestedFile, manifest: Manifest, rank: int, entry: ShardEntry, meter: Meter
) -> ShardCheck:
    problems = []
    strange = {name for name, digest in entry.arrays.items() if not _is_committed(file, manifest, rank, name, digest)}
    size = _length(file.path)
    if strange:
        problems.append(
            ShardProblem(
                "damaged", entry.file, f"is of another rank or step: {len(strange)} arrays are not its own", rank
            )
        )
    elif (file.digest, size) != (entry.digest, entry.size):
        text = f"has digest {file.digest}, expected {entry.digest}, though all its arrays are as committed"
        problems.append(ShardProblem("rewritten", entry.file, text, rank))
    sound = set()
    meter.add(max(0, entry.size - sum(_info(manifest, rank, name).byte_count for name in entry.arrays)))
    for name in entry.arrays:
        if name in strange:
            meter.add(_info(manifest, rank, name).byte_count)
            continue
        damage = _damage(file, name, meter)
        if damage:
            problems.append(ShardProblem("damaged", entry.file, damage, rank, name))
        else:
            sound.add(name)
    try:
        file.verify(())
    except (CheckpointError, OSError) as error:
        problems.append(ShardProblem("damaged", entry.file, reason(error, file.path), rank))
    return ShardCheck(rank, tuple(problems), frozenset(sound), file.digest, size)


def _length(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _info(manifest: Manifest, rank: int, name: str) -> TensorSpec:
    tensor = manifest.tensors[name]
    return TensorSpec(tensor.layout.local_shape(rank), np.dtype(tensor.dtype))


def _is_committed(file: ShardFile | DigestedFile, manifest: Manifest, rank: int, name: str, digest: str) -> bool:
    return file.arrays.get(name) == _info(manifest, rank, name) and file.digests[name] == digest


def _damage(file: ShardFile | DigestedFile, name: str, meter: Meter) -> str:
    """Return which bytes of an array are damaged; the empty text where none are."""
    damaged = list(_damaged_blocks(file, name, meter))
    if not damaged:
        return ""
    more = f", and {len(damaged) - 1} more MiB of it" if len(damaged) > 1 else ""
    return f"{damaged[0]}{more}"


def _damaged_blocks(file: ShardFile | DigestedFile, name: str, meter: Meter) -> Iterator[str]:
    info = file.arrays[name]
    at_once = BLOCK // info.dtype.itemsize
    bounce = np.empty(min(at_once, info.size), info.dtype)
    for first in range(0, info.size, at_once):
        target = bounce[: min(at_once, info.size - first)]
        try:
            file.fill(name, first, target)
        except (CheckpointError, OSError) as error:
            yield reason(error, file.path).removeprefix(f'array "{name}": ')
        meter.add(target.nbytes)
