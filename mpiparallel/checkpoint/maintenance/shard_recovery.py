"""Making a checkpoint whole again: lost and damaged shards are written anew from the replicas of their slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.catalogue import find
from mpiparallel.checkpoint.files.meter import Progress
from mpiparallel.checkpoint.files.regular_file import check_folder
from mpiparallel.checkpoint.maintenance.shard_check import ShardCheck, ShardProblem
from mpiparallel.checkpoint.maintenance.verification import LostSlice, Verification, verify
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.checkpoint.manifest_entries import ShardEntry
from mpiparallel.checkpoint.rank_shard import write_rank_shard
from mpiparallel.checkpoint.shard.block_digest import digest_of
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError

_SHOWN: Final = 20


class LostSlicesError(CheckpointError):
    """A checkpoint cannot be made whole: ``slices`` are in no sound file."""

    def __init__(self, text: str, slices: Sequence[LostSlice]) -> None:
        super().__init__(text)
        self.slices = tuple(slices)


@dataclass(frozen=True)
class Rebuilt:
    """A shard that was written anew: what was wrong with it, and which tensors came from the file of which rank."""

    rank: int
    file: str
    problems: tuple[ShardProblem, ...]
    sources: Mapping[int, tuple[str, ...]]
    size: int


@dataclass(frozen=True)
class CheckpointRecovery:
    """What was done to a checkpoint: the shards ``rebuilt``, and what remains that no replica can mend.

    ``renewed`` are the ranks whose shards another version of HDF5 has arranged otherwise: the manifest has new digests.
    """

    folder: Path
    name: str
    rebuilt: tuple[Rebuilt, ...]
    renewed: tuple[int, ...]
    remaining: tuple[ShardProblem, ...]


def recover(folder: str | Path, name: str | None = None, progress: Progress | None = None) -> CheckpointRecovery:
    """Rebuild every lost or damaged shard of a checkpoint in ``folder``: the newest, or that of ``name``.

    Each slice comes from a rank that holds the same, and from a file that is sound. What is written is compared with
    the digests of the manifest. The files are then as they were committed, byte for byte. Only where another version of
    HDF5 arranges them otherwise does the manifest get a new digest. It may be killed at any moment and called again.

    Everything is read and checked first. Raises ``LostSlicesError``, a ``CheckpointError``, before anything is written
    if a slice is in no sound file; its ``slices`` are what is missing.
    """
    root, manifest = find(folder if name is None else Path(folder) / name)
    found = verify(root, manifest, progress)
    plans = {rank: _sources(found, rank) for rank in found.damaged_ranks}
    _refuse_lost(found, plans)
    for rank in plans:
        _check_place(root / _entry(manifest, rank).file)
    rebuilt, renewed = [], []
    checks = list(found.checks)
    for rank, plan in plans.items():
        entry = _rebuild(root, manifest, rank, plan, checks)
        # From here on others may be rebuilt from the new file.
        checks[rank] = ShardCheck(rank, (), frozenset(entry.arrays), entry.digest, entry.size)
        if entry != manifest.shards[rank]:
            manifest = _renewed(root, manifest, rank, entry)
            renewed.append(rank)
        problems = tuple(problem for problem in found.problems if problem.rank == rank and problem.kind != "unequal")
        rebuilt.append(Rebuilt(rank, entry.file, problems, _grouped(plan), entry.size))
    remaining = tuple(problem for problem in found.problems if problem.kind in ("unequal", "companion"))
    return CheckpointRecovery(root, manifest.name, tuple(rebuilt), tuple(renewed), remaining)


def _entry(manifest: Manifest, rank: int) -> ShardEntry:
    entry = manifest.shards[rank]
    if entry is None:
        raise CheckpointError(f"checkpoint {manifest.name}: rank {rank} wrote no shard")
    return entry


def _sources(found: Verification, rank: int) -> dict[str, int | None]:
    """Return for each tensor of a shard the rank whose file has the same content, sound; None where none has.

    The shard's own file is one of them, for what is whole in it. Few sources are better than many.
    """
    arrays = _entry(found.manifest, rank).arrays
    groups = {name: found.manifest.tensors[name].layout.replica_group(rank) for name in arrays}
    used = [rank]
    sources: dict[str, int | None] = dict.fromkeys(arrays)
    # Those with the fewest holders leave the least choice, and whoever has them often has the others too.
    for name in sorted(arrays, key=lambda name: len(groups[name])):
        members = [member for member in used if member in groups[name]] + list(groups[name])
        source = next((member for member in members if _has(found, member, name, arrays[name])), None)
        if source is not None and source not in used:
            used.append(source)
        sources[name] = source
    return sources


def _has(found: Verification, rank: int, name: str, digest: str) -> bool:
    check, entry = found.checks[rank], found.manifest.shards[rank]
    return check is not None and entry is not None and name in check.sound and entry.arrays[name] == digest


def _refuse_lost(found: Verification, plans: Mapping[int, Mapping[str, int | None]]) -> None:
    # A slice of which replicas had drifted apart is loadable, but what its rank had is gone all the same.
    missing = {(slice_.tensor, slice_.box): slice_ for slice_ in found.lost}
    for rank, plan in plans.items():
        for name in [name for name, source in plan.items() if source is None]:
            layout = found.manifest.tensors[name].layout
            box = layout.box(rank)
            # What has no elements needs no source, unless the manifest says otherwise.
            if not box.empty or _entry(found.manifest, rank).arrays[name] != digest_of(b""):
                missing.setdefault((name, box), LostSlice(name, box, layout.replica_group(rank)))
    slices = list(missing.values())
    if not slices:
        return
    raise LostSlicesError(
        f"{found.folder}: checkpoint {found.manifest.name} cannot be made whole, and nothing was changed: "
        f"{len(slices)} slices are in no sound file; restore one file of each from a copy, or use an older checkpoint\n"
        + "\n".join(["missing:", *_first(slices), "because:", *_first(found.problems)]),
        slices,
    )


def _first(told: Sequence[object]) -> list[str]:
    more = [f"  and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
    return [f"  {item}" for item in told[:_SHOWN]] + more


def _check_place(path: Path) -> None:
    """Raise ``CheckpointError`` where no shard can be put."""
    if path.parent.is_symlink() or path.parent.exists():
        check_folder(path.parent)
    if path.is_dir() and not path.is_symlink():
        raise CheckpointError(f"{path}: is a folder where a shard belongs; move it away, and recover again")


def _rebuild(
    root: Path, manifest: Manifest, rank: int, plan: Mapping[str, int | None], checks: Sequence[ShardCheck | None]
) -> ShardEntry:
    """Write the shard of ``rank`` and return what the manifest should say of it."""
    entry = _entry(manifest, rank)
    path = root / entry.file
    infos = {
        name: TensorSpec(manifest.tensors[name].layout.local_shape(rank), np.dtype(manifest.tensors[name].dtype))
        for name in plan
    }
    with StoredState.of_manifest(root, _narrowed(manifest, plan, checks)) as state:
        identity = manifest.prefix, manifest.epoch, manifest.step
        written = write_rank_shard(root, identity, rank, infos, _arrays(state, rank, infos), file=entry.file)
    if written.arrays != dict(entry.arrays):
        raise CheckpointError(
            f"{path}: was rebuilt, but not to what was committed: this machine's memory or disk changes bytes; have it "
            "looked at, and run mpiparallel ckpt recover on another one"
        )
    return replace(entry, digest=written.digest, size=written.size)


def _narrowed(manifest: Manifest, plan: Mapping[str, int | None], checks: Sequence[ShardCheck | None]) -> Manifest:
    """Return the manifest of a state in which each tensor is in the file of its source only."""
    named = _grouped(plan)
    shards = (
        replace(entry, digest=check.digest, arrays={name: entry.arrays[name] for name in named.get(rank, ())})
        if entry and check
        else None
        for rank, (entry, check) in enumerate(zip(manifest.shards, checks, strict=True))
    )
    return replace(manifest, shards=tuple(shards))


def _arrays(state: StoredState, rank: int, infos: Mapping[str, TensorSpec]) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, info in infos.items():
        array = np.empty(info.shape, info.dtype)
        if array.size:
            state.fill(name, state.tensors[name].layout.parts(rank), 0, array.reshape(-1))
        yield name, array
        del array


def _renewed(root: Path, manifest: Manifest, rank: int, entry: ShardEntry) -> Manifest:
    """Return the manifest with that entry, on disk as well."""
    if not (root / f"{manifest.name}{MANIFEST_SUFFIX}").exists():
        raise CheckpointError(f"{root}: checkpoint {manifest.name} was deleted meanwhile; there is nothing to recover")
    shards = (*manifest.shards[:rank], entry, *manifest.shards[rank + 1 :])
    renewed = replace(manifest, shards=shards)
    renewed.write(root)
    return renewed


def _grouped(plan: Mapping[str, int | None]) -> dict[int, tuple[str, ...]]:
    grouped: dict[int, tuple[str, ...]] = {}
    for name, source in plan.items():
        if source is not None:
            grouped[source] = (*grouped.get(source, ()), name)
    return grouped
