"""New memory for what is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import CheckpointError

_HUGE_PAGE: Final = 2 << 20
_SLAB_BYTES: Final = 64 << 20
_ALIGNMENT: Final = 64


class LackOfMemoryError(CheckpointError):
    """There is no room here for what a checkpoint holds."""


def new_arrays(infos: Mapping[str, TensorSpec]) -> dict[str, NDArray[Any]]:
    """Return arrays, not initialised. Raises LackOfMemoryError.

    Some lie together in up to 64 MiB, because the kernel can give that in huge pages. To get memory page by page takes
    as long as to fill it. The memory is given back when all that lie together are gone.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for slab in _slabs(infos):
        length = sum(map(_room, slab.values())) + _HUGE_PAGE
        try:
            memory = np.empty(length, np.uint8)
        except (MemoryError, ValueError) as error:
            nbytes = sum(map(_room, infos.values()))
            raise LackOfMemoryError(f"there is no room for the {nbytes} bytes of this rank; use more ranks") from error
        start = -memory.__array_interface__["data"][0] % _HUGE_PAGE
        for name, info in slab.items():
            arrays[name] = memory[start : start + info.byte_count].view(info.dtype).reshape(info.shape)
            start += _room(info)
    return arrays


def _slabs(infos: Mapping[str, TensorSpec]) -> Iterator[dict[str, TensorSpec]]:
    slab: dict[str, TensorSpec] = {}
    length = 0
    for name, info in infos.items():
        if slab and length + _room(info) > _SLAB_BYTES:
            yield slab
            slab, length = {}, 0
        slab[name] = info
        length += _room(info)
    if slab:
        yield slab


def _room(info: TensorSpec) -> int:
    return -(-info.byte_count // _ALIGNMENT) * _ALIGNMENT
