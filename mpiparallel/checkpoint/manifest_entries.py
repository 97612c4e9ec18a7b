"""What a manifest says of tensors and of the shards of ranks, and how its file says it.

Most tensors are cut like others, and ranks that are replicas have written the same. Each of these is said once; where
it comes again, the tensor or the rank is named that has it.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np

from mpiparallel.checkpoint.shard_places import IN_RANK_FOLDERS, is_shard_of
from mpiparallel.dataclass import dataclass
from mpiparallel.dtype import dtype_text
from mpiparallel.errors import CheckpointError, LayoutError
from mpiparallel.layout.layout import Layout
from mpiparallel.layout.layout_json import integers, layout_from_json, layout_to_json

_DIGESTS = re.compile("(?:[0-9a-f]{16},)*")
_DIGEST = re.compile("[0-9a-f]{32}")
_PLAIN_MARSHAL: Final = 2
"""A format of ``marshal`` in which equal JSON values are equal bytes; later ones mark what is held more than once."""


@dataclass(frozen=True)
class TensorEntry:
    """A tensor of a checkpoint: its layout, canonical, and its dtype as NumPy writes it, like ``<f4``."""

    layout: Layout
    dtype: str


@dataclass(frozen=True)
class ShardEntry:
    """The file of one rank: its path in the folder, its length in bytes, its digest, and that of each array in it."""

    file: str
    size: int
    digest: str
    arrays: Mapping[str, str]


def shard_file(name: str, rank: int) -> str:
    """Return where in its folder a checkpoint has the shard of ``rank``, unless ranks have folders of their own.

    >>> shard_file("resnet-1_77", 3)
    'rank_3/resnet-1_77.h5'
    """
    return IN_RANK_FOLDERS.file(name, rank)


def saved_layout_to_json(layout: Layout) -> dict[str, Any]:
    """Return ``layout`` in its canonical form as JSON values. Raises ``CheckpointError`` for a partial sum.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> saved_layout_to_json(Layout((8, 6), DeviceMatrix((2, 4, 1)), ((0,), (2,))))["tensor_map"]
    [[0], []]
    """
    if layout.partial:
        raise CheckpointError(f"{layout}: a partial sum cannot be saved; reduce it first")
    if not layout.tiles:
        raise CheckpointError(f"{layout}: parts that overlap cannot be saved; save it from where it is whole")
    return layout_to_json(layout.canonical)


def saved_layout_from_json(entry: Mapping[str, Any]) -> Layout:
    """Return what ``saved_layout_to_json`` wrote. Raises ``LayoutError``, ``TypeError`` or ``KeyError``."""
    layout = layout_from_json(entry)
    if layout.partial:
        raise LayoutError(f"{layout} is a partial sum")
    if not layout.tiles:
        raise LayoutError(f"bounds {layout.bounds} do not lie side by side over {layout.global_shape}")
    return layout


def tensors_to_json(tensors: Mapping[str, TensorEntry]) -> dict[str, Any]:
    """Return the entry of each tensor; of tensors that are alike the first has it, and the others refer to that."""
    told: dict[str, Any] = {}
    first: dict[str, str] = {}
    distinct = {id(entry): _tensor_to_json(entry) for entry in {id(one): one for one in tensors.values()}.values()}
    texts = {key: json.dumps(entry) for key, entry in distinct.items()}
    for name, entry in tensors.items():
        known = first.setdefault(texts[id(entry)], name)
        told[name] = distinct[id(entry)] if known == name else known
    return told


def _tensor_to_json(entry: TensorEntry) -> dict[str, Any]:
    return {"dtype": entry.dtype, **saved_layout_to_json(entry.layout)}


def shards_to_json(shards: Sequence[ShardEntry | None]) -> list[dict[str, Any] | None]:
    """Return the entry of each rank; a rank with the same arrays as an earlier one, such as a replica, refers to that
    rank.
    """
    first: dict[tuple[str, ...], int] = {}
    told: list[dict[str, Any] | None] = []
    for rank, shard in enumerate(shards):
        if shard is None:
            told.append(None)
            continue
        known = first.setdefault((*shard.arrays, *shard.arrays.values()), rank)
        arrays = dict(shard.arrays) if known == rank else known
        told.append({"file": shard.file, "size": shard.size, "digest": shard.digest, "arrays": arrays})
    return told


def tensors_from_json(content: Mapping[str, Any]) -> dict[str, TensorEntry]:
    said = {name: entry for name, entry in content.items() if type(entry) is not str}
    known: dict[bytes, TensorEntry] = {}
    for name, entry in said.items():
        # Most tensors share few layouts: each is read once, and remembers what was asked of it.
        text = marshal.dumps(entry, _PLAIN_MARSHAL)
        if text not in known:
            known[text] = TensorEntry(saved_layout_from_json(entry), dtype_text(np.dtype(text_in(entry["dtype"]))))
        said[name] = known[text]
    return {name: said[entry if type(entry) is str else name] for name, entry in content.items()}


def shards_from_json(
    entries: Sequence[Any], name: str, tensors: Mapping[str, TensorEntry]
) -> tuple[ShardEntry | None, ...]:
    found: list[ShardEntry | None] = []
    # Tensors share few entries, and ranks their arrays, so that these are looked at once each.
    used: dict[int, list[TensorEntry | None]] = {}
    for rank, entry in enumerate(entries):
        if entry is None:
            found.append(None)
            continue
        if not is_shard_of(path_below(text_in(entry["file"])), name, rank):
            raise ValueError(f'shard "{entry["file"]}" is not that of rank {rank}, {shard_file(name, rank)}')
        (size,) = integers([entry["size"]])
        arrays = entry["arrays"]
        if type(arrays) is int:
            arrays = _arrays_of(found, rank, arrays)
        else:
            arrays = dict(arrays.items())
            _check_digests(entry["file"], arrays)
        if id(arrays) not in used:
            used[id(arrays)] = list({id(one): one for one in map(tensors.get, arrays)}.values())
        if any(one is None or rank not in one.layout.devices for one in used[id(arrays)]):
            foreign = _foreign(rank, arrays, tensors)
            raise ValueError(f'shard "{entry["file"]}" has "{foreign}", of which rank {rank} holds nothing')
        found.append(ShardEntry(entry["file"], size, digest_text(entry["digest"]), arrays))
    return tuple(found)


def _arrays_of(found: Sequence[ShardEntry | None], rank: int, earlier: int) -> Mapping[str, str]:
    shard = found[earlier] if 0 <= earlier < rank else None
    if shard is None:
        raise ValueError(f"the arrays of rank {rank} are to be those of rank {earlier}, which has said none before")
    return shard.arrays


def _check_digests(file: str, arrays: Mapping[str, str]) -> None:
    # In one look, for there are thousands.
    digests = ",".join([*arrays.values(), ""])
    if not _DIGESTS.fullmatch(digests) or digests.count(",") != len(arrays):
        raise ValueError(f'shard "{file}" has arrays whose digests are none')


def _foreign(rank: int, arrays: Mapping[str, str], tensors: Mapping[str, TensorEntry]) -> str:
    entries = {name: tensors.get(name) for name in arrays}
    return next(name for name, one in entries.items() if one is None or rank not in one.layout.devices)


def path_below(file: str) -> str:
    path = PurePosixPath(file)
    if path.is_absolute() or not path.parts or ".." in path.parts or str(path) != file or not file.isprintable():
        raise ValueError(f"{file!r} is no file below the folder")
    return file


def digest_text(value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError(f"{value!r} is no digest")
    return value


def text_in(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
