"""Which checkpoints a folder holds."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Collection, Iterable, MutableMapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from mpiparallel.checkpoint.catalogued import Catalogued, saved_in
from mpiparallel.checkpoint.files.durable_file import PARTIAL_PREFIX, sync_folder
from mpiparallel.checkpoint.files.regular_file import from_root
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.checkpoint.shard_places import SHARD_FORMATS
from mpiparallel.errors import CheckpointError

_TICK_SECONDS = 1e-3
_RANK_FOLDER = re.compile(r"rank_(0|[1-9][0-9]*)")
_SHARD = re.compile(r"(.+-[0-9]+_[0-9]+)\.h5")
# How far above a shard its manifest may be: working folders of ranks, with a folder of checkpoints in each.
_MOST_ABOVE = 5


class CheckpointFiles(NamedTuple):
    """A checkpoint by its files, as paths in its folder: shards with their lengths in bytes, and its companions.

    ``saved`` is when it was committed, in seconds since 1970. It needs far less memory than the manifest.
    """

    name: str
    prefix: str
    saved: float
    shards: tuple[tuple[str, int], ...] = ()
    companions: tuple[str, ...] = ()

    @classmethod
    def of(cls, manifest: Manifest) -> CheckpointFiles:
        """Return the files that a manifest names."""
        shards = tuple((shard.file, shard.size) for shard in manifest.shards if shard is not None)
        # What a user has put beside it is left alone, though it be named alike.
        beside = tuple(file for file in manifest.files if file.startswith(f"{manifest.name}.") and "/" not in file)
        return cls(manifest.name, manifest.prefix, manifest.saved, shards, beside)

    @property
    def byte_count(self) -> int:
        """Length of all shards."""
        return sum(size for _, size in self.shards)

    def is_whole(self, folder: Path) -> bool:
        """Return whether no shard is lost or cut short."""
        return all(file_size(folder / file) == size for file, size in self.shards)

    def is_lost(self, folder: Path) -> bool:
        """Return whether no shard is there."""
        return not any((folder / file).exists() for file, _ in self.shards)


def catalogue(folder: str | Path, prefix: str | None = None, own_folders: Collection[str] = ()) -> list[Catalogued]:
    """Return the committed checkpoints in ``folder``, the oldest first, those without a sound manifest before all.

    With ``prefix`` only those whose names begin with it. ``own_folders`` are folders of ranks below ``folder``; with
    them, only checkpoints of trainings that have saved there: those of other trainings may lie beside them. Raises
    ``CheckpointError`` if ``folder`` cannot be read.
    """
    found = []
    for path in _manifests(Path(folder), prefix):
        try:
            found.append(Catalogued(path, Manifest.load(path)))
        except CheckpointError as error:
            found.append(Catalogued(path, None, str(error)))
    chosen = saved_in(own_folders, found) if own_folders else found
    return sorted(chosen, key=_age)


def committed(
    folder: str | Path, prefix: str | None, known: MutableMapping[str, CheckpointFiles]
) -> list[CheckpointFiles]:
    """Return the committed checkpoints in ``folder`` that can be read, by their files, the oldest first.

    ``known`` has, by name, those that have been read before, and gets the others. With ``prefix`` only those that it
    begins. Raises ``CheckpointError`` if ``folder`` cannot be read.
    """
    names = []
    for path in _manifests(Path(folder), prefix):
        name = path.name.removesuffix(MANIFEST_SUFFIX)
        with suppress(CheckpointError):
            if name not in known:
                known[name] = CheckpointFiles.of(Manifest.load(path))
            names.append(name)
    return sorted((known[name] for name in names), key=lambda one: (one.saved, one.name))


def newest(folder: str | Path, prefix: str | None = None, own_folders: Collection[str] = ()) -> Manifest:
    """Return the manifest of the checkpoint in ``folder`` that was committed last, of those that can be read.

    Which count is as in ``catalogue``. Raises ``CheckpointError`` if there is none.
    """
    entries = catalogue(folder, prefix, own_folders)
    sound = [entry.manifest for entry in entries if entry.manifest is not None]
    if sound:
        return sound[-1]
    problems = "".join(f"; {entry.problem}" for entry in entries[-3:])
    named = "" if prefix is None else f' with prefix "{prefix}"'
    raise CheckpointError(f"{folder}: holds no checkpoint{named} that was completed; name another folder{problems}")


def find(named: str | Path) -> tuple[Path, Manifest]:
    """Return the folder and the manifest of the checkpoint that ``named`` means.

    That is the newest in a folder, the one of a name in it like ``saved/resnet-1_77``, or the one of a manifest's file.
    The folder may be the own one of a rank, below that of the manifest.
    Raises ``CheckpointError`` if there is none.
    """
    path = Path(named)
    if path.is_dir():
        root = root_of(path)
        return root, newest(root, own_folders=below(root, path))
    if not path.name.endswith(MANIFEST_SUFFIX):
        path = root_of(path.parent) / f"{path.name}{MANIFEST_SUFFIX}"
    if not path.exists():
        raise CheckpointError(
            f"{named}: is neither a folder of checkpoints, nor one in a folder (folder/name), nor a manifest; name one"
        )
    return path.parent, Manifest.load(path)


def root_of(folder: str | Path) -> Path:
    """Return the folder with the manifests of the shards in ``folder``: itself, or one above it that names them.

    Where there is none, it is ``folder``.
    """
    path = Path(folder)
    if any(path.glob(f"*{MANIFEST_SUFFIX}")):
        return path
    for shard in sorted(shard for format_ in SHARD_FORMATS for shard in path.glob(f"*-*_*.{format_}")):
        found = manifest_of_shard(shard)
        if found is not None:
            return found.parent
    return path


def below(root: Path, folder: Path) -> tuple[str, ...]:
    """Return the own folder of a rank as a path in ``root``; none where it is that folder itself."""
    return () if root == folder else (from_root(folder).relative_to(from_root(root)).as_posix(),)


def manifest_of_shard(shard: str | Path) -> Path | None:
    """Return the file of the manifest that names a shard, in one of the folders above it; None where there is none.

    One that cannot be read counts where it lies in the folder above the shard's.
    """
    path = from_root(shard)
    for folder in path.parents[:_MOST_ABOVE]:
        manifest = folder / f"{path.stem}{MANIFEST_SUFFIX}"
        if not manifest.is_file():
            continue
        try:
            shards = Manifest.load(manifest).shards
        except CheckpointError:
            if folder == path.parent.parent:
                return manifest
            continue
        if any(entry is not None and folder / entry.file == path for entry in shards):
            return manifest
    return None


def commit_time(folder: str | Path) -> float:
    """Return the time for a checkpoint that is committed to ``folder`` now, in seconds since 1970.

    It is later than those of all that are there, also where a clock has been set back.
    """
    known = (path.lstat().st_mtime for path in Path(folder).glob(f"*{MANIFEST_SUFFIX}"))
    return max(time.time(), max(known, default=0.0) + _TICK_SECONDS)


def uncommitted(folder: str | Path) -> list[Path]:
    """Return the shards in ``folder`` that no manifest names, and what killed saves have left, by path.

    Shards of a checkpoint whose manifest is there but damaged count as named.
    """
    root = Path(folder)
    named = set()
    entries = catalogue(root)
    folders = sorted({*_rank_folders(root), *_own_folders(root, entries)})
    for entry in entries:
        shards = () if entry.manifest is None else entry.manifest.shards
        named |= {root / shard.file for shard in shards if shard is not None}
        if entry.manifest is None:
            named |= {root / rank / f"{entry.name}.h5" for rank in folders}
    found = [root / name for name in _names(root) if name.startswith(PARTIAL_PREFIX)]
    for rank in folders:
        for name in _names(root / rank):
            if name.startswith(PARTIAL_PREFIX) or (_SHARD.fullmatch(name) and root / rank / name not in named):
                found.append(root / rank / name)
    return sorted(found)


def remove(folder: str | Path, checkpoints: Iterable[CheckpointFiles], own_folders: Iterable[str] = ()) -> None:
    """Delete checkpoints: manifests first, on disk, so that no half of one counts; then their shards and companions.

    Shards of their names in the folders of ranks go too, also in ``own_folders``; nothing is deleted through a link.
    Raises ``CheckpointError`` if a manifest cannot be deleted.
    """
    root, doomed = Path(folder), list(checkpoints)
    folders = sorted({*_rank_folders(root), *own_folders})
    if not doomed:
        return
    try:
        for one in doomed:
            (root / f"{one.name}{MANIFEST_SUFFIX}").unlink(missing_ok=True)
        sync_folder(root)
    except OSError as error:
        names = ", ".join(one.name for one in doomed)
        raise CheckpointError(f"{root}: checkpoint {names} cannot be deleted ({error})") from error
    for one in doomed:
        shards = {*(file for file, _ in one.shards), *(f"{rank}/{one.name}.h5" for rank in folders)}
        remove_files(root / file for file in sorted({*shards, *one.companions}) if _has_no_link(root, file))


def remove_files(paths: Iterable[Path]) -> None:
    """Delete files that no manifest names; those that cannot be deleted stay, for they do no harm."""
    for path in paths:
        with suppress(OSError):
            path.unlink()


def file_size(path: Path) -> int:
    """Return the length of a file in bytes; 0 where there is none."""
    with suppress(OSError):
        return path.lstat().st_size
    return 0


def _rank_folders(root: Path) -> list[str]:
    return [name for name in _names(root) if _RANK_FOLDER.fullmatch(name) and _is_folder(root / name)]


def _own_folders(root: Path, entries: Iterable[Catalogued]) -> set[str]:
    """Return the folders of their own in which ranks have saved, as far as manifests name them."""
    shards = (shard for entry in entries if entry.manifest is not None for shard in entry.manifest.shards)
    files = {shard.file for shard in shards if shard is not None}
    return {str(PurePosixPath(file).parent) for file in files if _has_no_link(root, file)}


def _has_no_link(root: Path, file: str) -> bool:
    """Return whether all folders on the way to a shard are there, none of them a link, which may lead anywhere."""
    parents = list(PurePosixPath(file).parents)[:-1]
    return all((root / parent).exists() and _is_folder(root / parent) for parent in parents)


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise CheckpointError(f"{folder}: cannot be read as a folder of checkpoints ({error})") from error


def _manifests(folder: Path, prefix: str | None) -> list[Path]:
    """Return the files of manifests in a folder, by name; with ``prefix`` those of checkpoints that it begins."""
    files = [name for name in _names(folder) if name.endswith(MANIFEST_SUFFIX) and not name.startswith(".")]
    return [folder / name for name in files if prefix is None or name.rpartition("-")[0] == prefix]


def _age(entry: Catalogued) -> tuple[bool, float, int, int, str]:
    manifest = entry.manifest
    if manifest is None:
        return False, 0.0, 0, 0, entry.name
    return True, manifest.saved, manifest.epoch, manifest.step, entry.name
