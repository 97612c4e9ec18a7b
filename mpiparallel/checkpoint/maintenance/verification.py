"""Whether a checkpoint is what was committed, and what its replicas can still make up for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from mpiparallel.checkpoint.files.meter import Meter, Progress
from mpiparallel.checkpoint.files.regular_file import check_folder
from mpiparallel.checkpoint.maintenance.shard_check import ShardCheck, ShardProblem, check_shard, reason
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.saving import file_digest
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout

Parts = tuple[int, ...]


class LostSlice(NamedTuple):
    """A slice of a tensor that no file has any more, and the ranks that held it."""

    tensor: str
    box: Box
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        ranks = f"rank {self.ranks[0]}" if len(self.ranks) == 1 else f"ranks {', '.join(map(str, self.ranks))}"
        return f'"{self.tensor}" {list(self.box.start)} to {list(self.box.stop)}, of {ranks}'


@dataclass(frozen=True)
class Verification:
    """What is wrong with a checkpoint in ``folder``.

    ``problems`` are those of its files, by rank, then of its companions. ``lost`` are the slices that no sound file
    has; where there are none, it can be loaded on any ranks. ``checks[rank]`` is what each shard is worth, None where
    that rank wrote none.
    """

    folder: Path
    manifest: Manifest
    problems: tuple[ShardProblem, ...]
    lost: tuple[LostSlice, ...]
    checks: tuple[ShardCheck | None, ...]

    @property
    def is_sound(self) -> bool:
        """Whether every byte is as it was committed and replicas are equal."""
        return not self.problems and not self.lost

    @property
    def damaged_ranks(self) -> tuple[int, ...]:
        """The ranks whose shards are not as they were committed."""
        return tuple(check.rank for check in self.checks if check is not None and check.problems)


def verify(folder: str | Path, manifest: Manifest, progress: Progress | None = None) -> Verification:
    """Read all files of a checkpoint and compare them with their digests, and those of replicas with each other.

    ``progress`` is told how many bytes are read, and how many there are. Raises nothing for damage: that is the result.

    >>> from tempfile import TemporaryDirectory
    >>> from mpiparallel.checkpoint.manifest_entries import ShardEntry
    >>> with TemporaryDirectory() as folder:
    ...     lost = ShardEntry("rank_0/net-1_2.h5", 64, "0" * 32, {})
    ...     [str(problem) for problem in verify(folder, Manifest("net", 1, 2, {}, (lost,))).problems]
    ['rank_0/net-1_2.h5: is missing']
    """
    root = Path(folder)
    meter = Meter(sum(shard.size for shard in manifest.shards if shard is not None), progress)
    checks = tuple(check_shard(root, manifest, rank, meter) for rank in range(manifest.rank_count))
    problems = [problem for check in checks if check is not None for problem in check.problems]
    problems += _unequal(manifest)
    problems += _companions(root, manifest)
    return Verification(root, manifest, tuple(problems), tuple(_lost(manifest, checks)), checks)


class SliceHolders:
    """Which ranks hold each slice of a tensor; found once for all tensors that are cut alike."""

    def __init__(self) -> None:
        self._known: dict[Any, dict[Parts, tuple[int, ...]]] = {}

    def of(self, layout: Layout) -> Mapping[Parts, tuple[int, ...]]:
        """Return the ranks that hold each slice, by replica."""
        key = layout.devices, layout.cutting_axes
        if key not in self._known:
            self._known[key] = {
                parts: tuple(layout.rank_at(parts, replica) for replica in range(layout.replica_count))
                for parts in product(*map(range, layout.cuts))
            }
        return self._known[key]


def _unequal(manifest: Manifest) -> Iterator[ShardProblem]:
    holders = SliceHolders()
    for name, entry in manifest.tensors.items():
        for ranks in holders.of(entry.layout).values():
            first: tuple[int, str] | None = None
            for rank in ranks:
                shard = manifest.shards[rank]
                digest = None if shard is None else shard.arrays.get(name)
                if shard is None or digest is None:
                    continue
                first = first or (rank, digest)
                if digest != first[1]:
                    text = f"is not equal to that of rank {first[0]}, whose replica it is; both are as they were saved"
                    yield ShardProblem("unequal", shard.file, text, rank, name)


def _lost(manifest: Manifest, checks: tuple[ShardCheck | None, ...]) -> Iterator[LostSlice]:
    holders = SliceHolders()
    sound = [frozenset() if check is None else check.sound for check in checks]
    for name, entry in manifest.tensors.items():
        for parts, ranks in holders.of(entry.layout).items():
            box = entry.layout.box_of_parts(parts)
            # Of a slice without elements nothing can be lost.
            if not box.empty and not any(name in sound[rank] for rank in ranks):
                yield LostSlice(name, box, ranks)


def _companions(root: Path, manifest: Manifest) -> Iterator[ShardProblem]:
    for file, digest in manifest.files.items():
        try:
            for parent in PurePosixPath(file).parents:
                check_folder(root / parent)
            found = file_digest(root / file)
        except FileNotFoundError:
            yield ShardProblem("companion", file, "is missing")
        except (CheckpointError, OSError, MemoryError) as error:
            yield ShardProblem("companion", file, reason(error, root / file))
        else:
            if found != digest:
                yield ShardProblem("companion", file, f"is damaged or was changed (XXH3 {found}, expected {digest})")
