"""Which file of each rank is converted."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mpiparallel.checkpoint.catalogue import catalogue
from mpiparallel.checkpoint.formats.registry import FORMATS
from mpiparallel.errors import TransformError

_RANK_FOLDER: Final = re.compile(r"rank_(0|[1-9][0-9]{0,8})")
_STAMP: Final = re.compile(r".+-([0-9]{1,18})_([0-9]{1,18})", re.DOTALL)

Stamp = tuple[int, int]


def newest_files(folder: str | Path) -> dict[int, Path]:
    """Return the file of the newest checkpoint in each folder ``rank_<r>`` of ``folder``, by rank.

    The newest is that of the highest epoch, then step, in its name ``<prefix>-<epoch>_<step>``; a name without them
    counts where it is the only one. Ranks may have folders of their own, which the manifest names. Where manifests lie
    in ``folder``, HDF5 files that none of them names are passed over: their checkpoint was not completed. Of those that
    were, the one committed last is the newest, whatever its prefix. A rank that has lost its file of that has none.
    Raises ``TransformError``, a ``ValueError``, if there is no such file, or if files are of several formats. It does
    so too if the newest of one rank is not of the step of another's.
    """
    root = Path(folder)
    folders = _rank_folders(root)
    own = {} if folders else _in_own_folders(root)
    if own:
        return own
    committed = _committed(root)
    found = {rank: _candidates(root / name, committed) for rank, name in folders}
    found = {rank: paths for rank, paths in found.items() if paths}
    if not found:
        suffixes = ", ".join(sorted(format.suffix for format in FORMATS.values()))
        raise TransformError(
            f"{root}: has no checkpoint, that is rank_0/*, rank_1/*, ... ({suffixes}); name its folder"
        )
    check_one_format([path for paths in found.values() for path in paths])
    chosen = {rank: _newest(paths) for rank, paths in sorted(found.items())}
    if committed is not None:
        chosen = _of_newest_step(chosen)
    _check_one_step(chosen)
    return chosen


def _in_own_folders(root: Path) -> dict[int, Path]:
    """Return the shards of the newest checkpoint whose ranks have saved in folders of their own."""
    manifests = [entry.manifest for entry in catalogue(root) if entry.manifest is not None]
    shards = manifests[-1].shards if manifests else ()
    files = {rank: root / shard.file for rank, shard in enumerate(shards) if shard is not None}
    return {rank: path for rank, path in files.items() if path.is_file()}


def check_one_format(paths: Sequence[Path]) -> None:
    """Raise ``TransformError`` where files are of several formats."""
    first = paths[0]
    for path in paths:
        if path.suffix != first.suffix:
            raise TransformError(f"{first} and {path}: are of two formats; convert those of one format at a time")


def _rank_folders(root: Path) -> list[tuple[int, str]]:
    found = []
    for name in _names(root):
        match, mode = _RANK_FOLDER.fullmatch(name), (root / name).lstat().st_mode
        if match and stat.S_ISLNK(mode):
            raise TransformError(f"{root / name}: is a link, which is not followed; put the folder itself there")
        if match and stat.S_ISDIR(mode):
            found.append((int(match[1]), name))
    return found


def _committed(root: Path) -> set[str] | None:
    """Return the name of the newest checkpoint that was completed, all where that is not sure, None without any."""
    entries = catalogue(root)
    # Of one whose manifest is damaged nobody knows when it was committed.
    known = entries[-1:] if all(entry.manifest is not None for entry in entries) else entries
    return {entry.name for entry in known} or None


def _candidates(folder: Path, committed: set[str] | None) -> list[Path]:
    suffixes = {format.suffix for format in FORMATS.values()}
    paths = [folder / name for name in _names(folder) if not name.startswith(".") and Path(name).suffix in suffixes]
    own = FORMATS["h5"].suffix
    return [path for path in paths if committed is None or path.suffix != own or path.stem in committed]


def _newest(paths: Sequence[Path]) -> Path:
    stamps = {path: _stamp(path) for path in paths}
    known = [stamp for stamp in stamps.values() if stamp is not None]
    newest = [path for path, stamp in stamps.items() if stamp == max(known, default=None)]
    if len(newest) > 1:
        raise TransformError(
            f"{newest[0].parent}: {newest[0].name} and {newest[1].name} may both be meant; keep one of them there, or "
            "name the files to transform_checkpoint_by_rank"
        )
    return newest[0]


def _of_newest_step(chosen: Mapping[int, Path]) -> dict[int, Path]:
    """Return those of the newest step: it was completed, so a rank that has only older ones has lost its file."""
    stamps = {rank: _stamp(path) for rank, path in chosen.items() if path.suffix == FORMATS["h5"].suffix}
    newest = max((stamp for stamp in stamps.values() if stamp is not None), default=None)
    return {rank: path for rank, path in chosen.items() if newest is None or stamps.get(rank) in (None, newest)}


def _check_one_step(chosen: Mapping[int, Path]) -> None:
    first_rank, first = next(iter(chosen.items()))
    for rank, path in chosen.items():
        if _stamp(path) != _stamp(first):
            raise TransformError(
                f"the newest file of rank {first_rank} is {first.name}, that of rank {rank} is {path.name}: they are "
                "not of one step; remove the files of the step that not all ranks have completed"
            )


def _stamp(path: Path) -> Stamp | None:
    match = _STAMP.fullmatch(path.stem)
    return (int(match[1]), int(match[2])) if match else None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise TransformError(f"{folder}: cannot be read as a folder of checkpoints ({error}); name another") from error
