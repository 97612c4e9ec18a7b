"""The manifest: the file that makes shards a checkpoint.

It is written last. Shards that no manifest names are not a checkpoint, however whole they look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from mpiparallel.checkpoint.durable_file import write_durably
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

MANIFEST_NAME = "manifest.json"
_FORMAT = "mpiparallel checkpoint 1"


@dataclass(frozen=True)
class TensorEntry:
    """A tensor of a checkpoint: its layout, canonical, and its dtype as NumPy writes it, like ``<f4``."""

    layout: Layout
    dtype: str


@dataclass(frozen=True)
class ShardEntry:
    """The file of one rank, relative to the folder of the checkpoint, and the digest of each array in it."""

    file: str
    digests: Mapping[str, str]


@dataclass(frozen=True)
class Manifest:
    """What a committed checkpoint consists of; ``shards[rank]`` is what ``rank`` wrote."""

    epoch: int
    step: int
    tensors: Mapping[str, TensorEntry]
    shards: tuple[ShardEntry, ...]

    @property
    def rank_count(self) -> int:
        """How many ranks wrote the checkpoint."""
        return len(self.shards)

    @classmethod
    def load(cls, folder: str | Path) -> Manifest:
        """Return the manifest in ``folder``. Raises ``CheckpointError`` if there is none or it is damaged."""
        path = Path(folder) / MANIFEST_NAME
        try:
            return _from_json(_checked(path.read_bytes()))
        except FileNotFoundError as error:
            raise CheckpointError(
                f"{path}: is missing, so no checkpoint was completed here; name another folder"
            ) from error
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{path}: is no sound manifest ({error}); use an older checkpoint") from error

    def write(self, folder: str | Path) -> None:
        """Commit: put the manifest into ``folder`` in one step, on disk on return. Raises ``CheckpointError``."""
        path = Path(folder) / MANIFEST_NAME
        content = _to_json(self)
        text = json.dumps({"crc32": f"{crc32(_canonical(content)):08x}", "manifest": content}, indent=1)
        try:
            write_durably(path, text.encode())
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL
            raise CheckpointError(f"{path}: cannot be written ({error}); it needs {len(text)} bytes") from error


def layout_to_json(layout: Layout) -> dict[str, Any]:
    """Return ``layout`` in its canonical form as JSON values. Raises ``CheckpointError`` for a partial sum.

    >>> layout_to_json(Layout((8, 6), DeviceMatrix((2, 4, 1)), ((0,), (2,))))["tensor_map"]
    [[0], []]
    """
    if layout.partial:
        raise CheckpointError(f"{layout}: a partial sum cannot be saved; reduce it first")
    layout = layout.canonical
    permuted = {"ranks": list(layout.devices.ranks)} if layout.devices.ranks else {}
    return {
        "global_shape": list(layout.global_shape),
        "device_matrix": list(layout.devices.shape),
        "first_rank": layout.devices.first_rank,
        **permuted,
        "tensor_map": [list(axes) for axes in layout.tensor_map],
        "optimizer_axes": list(layout.optimizer_axes),
    }


def layout_from_json(entry: Mapping[str, Any]) -> Layout:
    """Return the layout that ``layout_to_json`` wrote. Raises ``LayoutError``, ``TypeError`` or ``KeyError``."""
    (first_rank,) = _integers([entry["first_rank"]])
    return Layout(
        _integers(entry["global_shape"]),
        DeviceMatrix(_integers(entry["device_matrix"]), first_rank, _integers(entry.get("ranks", []))),
        tuple(_integers(axes) for axes in entry["tensor_map"]),
        optimizer_axes=_integers(entry["optimizer_axes"]),
    )


def _to_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "epoch": manifest.epoch,
        "step": manifest.step,
        "rank_count": manifest.rank_count,
        "tensors": {
            name: {"dtype": entry.dtype, **layout_to_json(entry.layout)} for name, entry in manifest.tensors.items()
        },
        "shards": [{"file": shard.file, "digests": dict(shard.digests)} for shard in manifest.shards],
    }


def _checked(text: bytes) -> dict[str, Any]:
    outer = json.loads(text)
    content: dict[str, Any] = outer["manifest"]
    found = f"{crc32(_canonical(content)):08x}"
    if outer["crc32"] != found:
        raise ValueError(f"its CRC-32 is {found}, expected {outer['crc32']}")
    if content["format"] != _FORMAT:
        raise ValueError(f'its format is "{content["format"]}", this release reads "{_FORMAT}"')
    return content


def _from_json(content: Mapping[str, Any]) -> Manifest:
    tensors = {
        name: TensorEntry(layout_from_json(entry), np.dtype(entry["dtype"]).str)
        for name, entry in content["tensors"].items()
    }
    shards = tuple(ShardEntry(shard["file"], dict(shard["digests"])) for shard in content["shards"])
    epoch, step, rank_count = _integers([content["epoch"], content["step"], content["rank_count"]])
    if rank_count != len(shards):
        raise ValueError(f"it names {len(shards)} shards of {rank_count} ranks")
    for rank, shard in enumerate(shards):
        if not re.fullmatch(rf"rank_{rank}/[^/\0]+", shard.file) or not set(shard.digests) <= set(tensors):
            raise ValueError(f'shard "{shard.file}" is not one of rank {rank}')
    return Manifest(epoch, step, tensors, shards)


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _integers(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        raise TypeError(f"{values!r} is no list of integers")
    return tuple(values)
