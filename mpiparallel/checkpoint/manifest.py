"""The manifest: the file that makes shards a checkpoint.

It is written last. Shards that no manifest names are not a checkpoint, however whole they look.
"""

from __future__ import annotations

import json
import marshal
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
import xxhash

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.durable_file import write_durably
from mpiparallel.checkpoint.files.regular_file import read_regular
from mpiparallel.checkpoint.shard.index import check_info
from mpiparallel.checkpoint.shard_places import IN_RANK_FOLDERS, is_shard_of
from mpiparallel.dtype import dtype_text
from mpiparallel.errors import CheckpointError, LayoutError
from mpiparallel.layout.layout import Layout
from mpiparallel.layout.layout_json import integers, layout_from_json, layout_to_json

MANIFEST_SUFFIX: Final = ".manifest.json"
_FORMAT: Final = "mpiparallel checkpoint 2"
_MOST_BYTES: Final = 1 << 30
_PLAIN_MARSHAL: Final = 2
"""A format of ``marshal`` in which equal JSON values are equal bytes; later ones mark what is held more than once."""
_UNSOUND: Final = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError)
_DIGESTS = re.compile("(?:[0-9a-f]{16},)*")
_DIGEST = re.compile("[0-9a-f]{32}")


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


@dataclass(frozen=True)
class Manifest:
    """What a committed checkpoint consists of.

    ``shards[rank]`` is what ``rank`` wrote, None where others hold all that it has. ``training`` is what a run needs to
    go on, beside its tensors, as JSON values. ``saved`` is when it was committed, in seconds since 1970. ``files`` has
    the digests of files in its folder that belong to it though others read them, such as strategy files.
    """

    prefix: str
    epoch: int
    step: int
    tensors: Mapping[str, TensorEntry]
    shards: tuple[ShardEntry | None, ...]
    training: Mapping[str, Any] = field(default_factory=dict)
    saved: float = 0.0
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its files are named after, like ``resnet-1_77``."""
        return checkpoint_name(self.prefix, self.epoch, self.step)

    @property
    def rank_count(self) -> int:
        """How many ranks the state was on."""
        return len(self.shards)

    @property
    def layouts(self) -> dict[str, Layout]:
        """The layout of each tensor over the ranks that wrote it."""
        return {name: entry.layout for name, entry in self.tensors.items()}

    @classmethod
    def load(cls, path: str | Path) -> Manifest:
        """Return the manifest in the file ``path``. Raises ``CheckpointError`` if there is none or it is damaged."""
        path = Path(path)
        try:
            manifest = _from_json(_checked(read_regular(path, _MOST_BYTES)))
        except FileNotFoundError as error:
            raise CheckpointError(
                f"{path}: is missing, so this checkpoint was not completed here; name another"
            ) from error
        except (CheckpointError, *_UNSOUND) as error:
            raise CheckpointError(f"{path}: is no sound manifest ({error}); use an older checkpoint") from error
        if path.name != manifest.name + MANIFEST_SUFFIX:
            raise CheckpointError(f'{path}: is the manifest of "{manifest.name}"; restore the name that it had')
        return manifest

    def write(self, folder: str | Path) -> Path:
        """Commit: put the manifest into ``folder`` in one step, on disk on return. Raises ``CheckpointError``."""
        path = Path(folder) / f"{self.name}{MANIFEST_SUFFIX}"
        text = _enveloped(json.dumps(_to_json(self), sort_keys=True, allow_nan=False).encode())
        try:
            write_durably(path, text)
            # What copies files, and who lists them, sees the order in which they were committed.
            os.utime(path, (self.saved, self.saved))
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL
            raise CheckpointError(f"{path}: cannot be written ({error}); it needs {len(text)} bytes") from error
        return path


def checkpoint_name(prefix: str, epoch: int, step: int) -> str:
    """Return what the files of a checkpoint are named after.

    Raises ``CheckpointError`` if ``prefix`` cannot begin a file's name.

    >>> checkpoint_name("resnet", 1, 77)
    'resnet-1_77'
    """
    if not prefix or not prefix.isprintable() or "/" in prefix or prefix.startswith("."):
        raise CheckpointError(f"{prefix!r} cannot begin the name of a checkpoint; use letters, digits, - and _")
    return f"{prefix}-{epoch}_{step}"


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


def _to_json(manifest: Manifest) -> dict[str, Any]:
    entries = {id(entry): entry for entry in manifest.tensors.values()}
    told = {key: {"dtype": one.dtype, **saved_layout_to_json(one.layout)} for key, one in entries.items()}
    return {
        "format": _FORMAT,
        "prefix": manifest.prefix,
        "epoch": manifest.epoch,
        "step": manifest.step,
        "saved": manifest.saved,
        "rank_count": manifest.rank_count,
        "training": dict(manifest.training),
        "files": dict(manifest.files),
        "tensors": {name: told[id(entry)] for name, entry in manifest.tensors.items()},
        "shards": [_shard_to_json(shard) for shard in manifest.shards],
    }


def _shard_to_json(shard: ShardEntry | None) -> dict[str, Any] | None:
    if shard is None:
        return None
    return {"file": shard.file, "size": shard.size, "digest": shard.digest, "arrays": dict(shard.arrays)}


def _enveloped(content: bytes) -> bytes:
    return b'{"xxh3": "' + xxhash.xxh3_128_hexdigest(content).encode() + b'", "manifest": ' + content + b"}\n"


def _checked(text: bytes) -> dict[str, Any]:
    """Return the content of a manifest's file, of which no byte has changed since it was written."""
    content = text[len(_enveloped(b"")) - len(b"}\n") : -len(b"}\n")]
    if text != _enveloped(content):
        raise ValueError(f"the XXH3 of its content, {xxhash.xxh3_128_hexdigest(content)}, is not what it begins with")
    found: dict[str, Any] = json.loads(content)
    if found["format"] != _FORMAT:
        raise ValueError(f'its format is "{found["format"]}", this release reads "{_FORMAT}"')
    return found


def _from_json(content: Mapping[str, Any]) -> Manifest:
    tensors, known = {}, dict[bytes, TensorEntry]()
    for name, entry in content["tensors"].items():
        # Most tensors share few layouts: each is read once, and remembers what was asked of it.
        said = marshal.dumps(entry, _PLAIN_MARSHAL)
        if said not in known:
            known[said] = TensorEntry(saved_layout_from_json(entry), dtype_text(np.dtype(_text(entry["dtype"]))))
        tensors[name] = known[said]
    distinct = {id(entry): (name, entry) for name, entry in tensors.items()}.values()
    prefix = _text(content["prefix"])
    epoch, step, rank_count = integers([content["epoch"], content["step"], content["rank_count"]])
    name = checkpoint_name(prefix, epoch, step)
    shards = tuple(_shard_from_json(entry, name, rank, tensors) for rank, entry in enumerate(content["shards"]))
    files = [shard.file for shard in shards if shard is not None]
    if len(set(files)) != len(files):
        raise ValueError("it names one file for two ranks")
    if rank_count != len(shards):
        raise ValueError(f"it names {len(shards)} shards of {rank_count} ranks")
    for tensor, entry in distinct:
        devices = entry.layout.devices
        if max(devices.ranks, default=devices.first_rank + devices.size - 1) >= rank_count:
            raise ValueError(f'tensor "{tensor}" lies on ranks {devices.ranks_text} of {rank_count}')
    _check_lengths(distinct, shards)
    if not isinstance(content["training"], dict) or not isinstance(content["saved"], float | int):
        raise TypeError("what it says of the training is no object, or its time is no number")
    beside = {_below(file): _hex(digest) for file, digest in content["files"].items()}
    return Manifest(prefix, epoch, step, tensors, shards, content["training"], float(content["saved"]), beside)


def _check_lengths(tensors: Iterable[tuple[str, TensorEntry]], shards: Sequence[ShardEntry | None]) -> None:
    """Raise ``ValueError`` where a tensor has more bytes than all shards together, or is one that no shard holds."""
    written = sum(shard.size for shard in shards if shard is not None)
    for name, entry in tensors:
        info = TensorSpec(entry.layout.global_shape, np.dtype(entry.dtype))
        check_info(info)
        if info.byte_count > written:
            raise ValueError(f'tensor "{name}" has more bytes than the {written} of all shards')


def _shard_from_json(entry: Any, name: str, rank: int, tensors: Mapping[str, TensorEntry]) -> ShardEntry | None:
    if entry is None:
        return None
    if not is_shard_of(_below(_text(entry["file"])), name, rank):
        raise ValueError(f'shard "{entry["file"]}" is not that of rank {rank}, {shard_file(name, rank)}')
    (size,) = integers([entry["size"]])
    arrays = dict(entry["arrays"].items())
    # In one look, for there are thousands.
    digests = ",".join([*arrays.values(), ""])
    if not _DIGESTS.fullmatch(digests) or digests.count(",") != len(arrays):
        raise ValueError(f'shard "{entry["file"]}" has arrays whose digests are none')
    # Tensors share few entries, so that these are looked at once each.
    entries = {id(one): one for one in map(tensors.get, arrays)}
    foreign = {key for key, one in entries.items() if one is None or rank not in one.layout.devices}
    if foreign:
        tensor = next(tensor for tensor in arrays if id(tensors.get(tensor)) in foreign)
        raise ValueError(f'shard "{entry["file"]}" has "{tensor}", of which rank {rank} holds nothing')
    return ShardEntry(entry["file"], size, _hex(entry["digest"]), arrays)


def _below(file: str) -> str:
    path = PurePosixPath(file)
    if path.is_absolute() or not path.parts or ".." in path.parts or str(path) != file or not file.isprintable():
        raise ValueError(f"{file!r} is no file below the folder")
    return file


def _hex(value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError(f"{value!r} is no digest")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
