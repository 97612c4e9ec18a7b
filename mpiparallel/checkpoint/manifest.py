"""The manifest: the file that makes shards a checkpoint.

It is written last. Shards that no manifest names are not a checkpoint, however whole they look.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import numpy as np
import xxhash

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.durable_file import write_durably
from mpiparallel.checkpoint.files.regular_file import read_regular
from mpiparallel.checkpoint.manifest_entries import (
    ShardEntry,
    TensorEntry,
    digest_text,
    path_below,
    shards_from_json,
    shards_to_json,
    tensors_from_json,
    tensors_to_json,
    text_in,
)
from mpiparallel.checkpoint.shard.index import check_info
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.layout import Layout
from mpiparallel.layout.layout_json import integers

MANIFEST_SUFFIX: Final = ".manifest.json"
_FORMAT: Final = "mpiparallel checkpoint 3"
_READ: Final = ("mpiparallel checkpoint 2", _FORMAT)
"""What is read: the second says in full what the third names where it has been said."""
_MOST_BYTES: Final = 1 << 30
_UNSOUND: Final = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError)


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


def _to_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "prefix": manifest.prefix,
        "epoch": manifest.epoch,
        "step": manifest.step,
        "saved": manifest.saved,
        "rank_count": manifest.rank_count,
        "training": dict(manifest.training),
        "files": dict(manifest.files),
        "tensors": tensors_to_json(manifest.tensors),
        "shards": shards_to_json(manifest.shards),
    }


def _enveloped(content: bytes) -> bytes:
    return b'{"xxh3": "' + xxhash.xxh3_128_hexdigest(content).encode() + b'", "manifest": ' + content + b"}\n"


def _checked(text: bytes) -> dict[str, Any]:
    """Return the content of a manifest's file, of which no byte has changed since it was written."""
    content = text[len(_enveloped(b"")) - len(b"}\n") : -len(b"}\n")]
    if text != _enveloped(content):
        raise ValueError(f"the XXH3 of its content, {xxhash.xxh3_128_hexdigest(content)}, is not what it begins with")
    found: dict[str, Any] = json.loads(content)
    if found["format"] not in _READ:
        raise ValueError(f'its format is "{found["format"]}", this release reads {" and ".join(map(repr, _READ))}')
    return found


def _from_json(content: Mapping[str, Any]) -> Manifest:
    tensors = tensors_from_json(content["tensors"])
    distinct = {id(entry): (name, entry) for name, entry in tensors.items()}.values()
    prefix = text_in(content["prefix"])
    epoch, step, rank_count = integers([content["epoch"], content["step"], content["rank_count"]])
    name = checkpoint_name(prefix, epoch, step)
    shards = shards_from_json(content["shards"], name, tensors)
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
    beside = {path_below(file): digest_text(digest) for file, digest in content["files"].items()}
    return Manifest(prefix, epoch, step, tensors, shards, content["training"], float(content["saved"]), beside)


def _check_lengths(tensors: Iterable[tuple[str, TensorEntry]], shards: Sequence[ShardEntry | None]) -> None:
    """Raise ``ValueError`` where a tensor has more bytes than all shards together, or is one that no shard holds."""
    written = sum(shard.size for shard in shards if shard is not None)
    for name, entry in tensors:
        info = TensorSpec(entry.layout.global_shape, np.dtype(entry.dtype))
        check_info(info)
        if info.byte_count > written:
            raise ValueError(f'tensor "{name}" has more bytes than the {written} of all shards')
