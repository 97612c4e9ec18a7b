"""A checkpoint as its folder lists it, and which of several trainings has saved it."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.checkpoint.shard_places import SHARD_FORMATS
from mpiparallel.dataclass import dataclass


@dataclass(frozen=True)
class Catalogued:
    """A checkpoint that was committed: the file of its manifest, and the manifest or why that cannot be read."""

    path: Path
    manifest: Manifest | None
    problem: str = ""

    @property
    def name(self) -> str:
        """What its files are named after."""
        return self.path.name.removesuffix(MANIFEST_SUFFIX)


def saved_in(folders: Iterable[str], entries: Iterable[Catalogued]) -> list[Catalogued]:
    """Return the checkpoints that have a shard in one of ``folders``, or share another folder with such a checkpoint.

    A training may go on with fewer ranks, so that not every rank's folder has a shard of its newest.
    """
    held = [(entry, _folders_of(entry)) for entry in entries]
    known, before = set(folders), 0
    while len(known) > before:
        before = len(known)
        known.update(*(theirs for _, theirs in held if theirs & known))
    return [entry for entry, theirs in held if theirs & known]


def _folders_of(entry: Catalogued) -> set[str]:
    """Return the folders with shards of a checkpoint; where its manifest is damaged, those with files of its name."""
    root = entry.path.parent
    if entry.manifest is not None:
        return {str(PurePosixPath(shard.file).parent) for shard in entry.manifest.shards if shard is not None}
    return {
        path.parent.relative_to(root).as_posix()
        for format_ in SHARD_FORMATS
        for path in root.glob(f"*/{glob.escape(entry.name)}.{format_}")
    }
