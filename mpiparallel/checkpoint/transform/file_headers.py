"""What the files of ranks say before an array is read, and what lies beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.catalogue import manifest_of_shard
from mpiparallel.checkpoint.files.array_file import ArrayFile, Attribute
from mpiparallel.checkpoint.formats.registry import FORMATS, open_file
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.checkpoint.transform.checkpoint_files import newest_files
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError, TransformError

Opener = Callable[[], ArrayFile]
Headers = Mapping[int, "FileHeader"]


@dataclass(frozen=True)
class FileHeader:
    """The arrays of one file by name, and what else it tells."""

    arrays: Mapping[str, TensorSpec]
    attributes: Mapping[str, Attribute]


def read_headers(openers: Mapping[int, Opener]) -> tuple[dict[int, FileHeader], dict[int, str]]:
    """Return what the file of each rank says, and for each that is of no use why."""
    headers: dict[int, FileHeader] = {}
    problems: dict[int, str] = {}
    for rank, opener in sorted(openers.items()):
        try:
            with opener() as file:
                headers[rank] = FileHeader(dict(file.arrays), dict(file.attributes))
        except (CheckpointError, OSError) as error:
            problems[rank] = str(error)
    return headers, problems


def slices_in(headers: Headers, name: str) -> dict[int, TensorSpec]:
    """Return shape and dtype of what each rank has of a parameter."""
    return {rank: header.arrays[name] for rank, header in headers.items() if name in header.arrays}


def manifest_of(folder: Path, file: Path) -> Manifest | None:
    """Return the manifest in ``folder`` that a shard of ours belongs to, if one is there."""
    path = folder / f"{file.stem}{MANIFEST_SUFFIX}"
    if not path.exists():
        return None
    manifest = Manifest.load(path)
    named = {folder / shard.file for shard in manifest.shards if shard is not None}
    return manifest if file in named or file.suffix == FORMATS["h5"].suffix else None


def told_beside(files: Mapping[int, Path]) -> tuple[dict[str, tuple[int, ...]], dict[int, FileHeader]]:
    """Return the global shapes in the manifest of the files of some ranks, or without one the headers of all others.

    From a few slices alone it cannot be told whether a dim is cut evenly. Nothing is told where the files do not lie in
    folders ``rank_<r>`` as the newest there.
    """
    rank, path = next(iter(files.items()))
    beside = manifest_of_shard(path)
    if beside is not None and beside.parent != path.parent.parent:
        return {name: layout.global_shape for name, layout in Manifest.load(beside).layouts.items()}, {}
    if path.parent.name != f"rank_{rank}":
        return {}, {}
    folder = path.parent.parent
    manifest = manifest_of(folder, path)
    if manifest is not None:
        return {name: layout.global_shape for name, layout in manifest.layouts.items()}, {}
    try:
        newest = newest_files(folder)
    except TransformError:
        return {}, {}
    if any(newest.get(rank) != path for rank, path in files.items()):
        return {}, {}
    others = {rank: partial(open_file, path) for rank, path in newest.items() if rank not in files}
    return {}, read_headers(others)[0]
