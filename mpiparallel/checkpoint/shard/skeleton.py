"""The HDF5 around the arrays of a shard.

HDF5 never touches the file itself: it lays out an image in memory in which the data are holes. So a full disk is an
``OSError``, not a crash inside HDF5, and no second copy of the state is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import h5py
import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.shard.element_type import hdf5_type
from mpiparallel.checkpoint.shard.index import FUSED_LENGTH, ArrayLocation
from mpiparallel.checkpoint.shard.sparse_image import PAGE, SparseImage
from mpiparallel.dtype import dtype_text

INDEX_DATASET = "%index"
# The first version of the format with checksums on its own metadata; every HDF5 since 2016 reads it.
VERSION = ("v110", "v110")


class Skeleton(NamedTuple):
    """All of a shard but the bytes of its arrays, its index and its footer."""

    image: SparseImage
    places: Mapping[str, ArrayLocation]
    index_offset: int

    @property
    def end(self) -> int:
        """Where HDF5's part of the file ends."""
        return self.image.seek(0, os.SEEK_END)


def lay_out(infos: Mapping[str, TensorSpec], index_length: Callable[[Mapping[str, ArrayLocation]], int]) -> Skeleton:
    """Return the HDF5 for arrays of ``infos`` and for an index whose length depends on the places of the arrays.

    An array of at least 64 KiB is a dataset; smaller ones follow one another in a dataset for each dtype.
    """
    image, places = SparseImage(), dict[str, ArrayLocation]()
    fused = _fused(infos)
    large = {name: info for name, info in infos.items() if info.byte_count >= FUSED_LENGTH}
    with _image_file(image) as file:
        datasets = _Datasets(file)
        for key, members in fused.items():
            size, dtype = sum(info.size for info in members.values()), next(iter(members.values())).dtype
            places.update(_fused_places(key, datasets.allocate(key, (size,), dtype), members))
        for name, info in large.items():
            key = dataset_name(name)
            places[name] = ArrayLocation(key, 0, datasets.allocate(key, info.shape, info.dtype))
        index_offset = datasets.allocate(INDEX_DATASET, (index_length(places),), np.dtype(np.uint8))
    return Skeleton(image, places, index_offset)


class _Datasets:
    """Contiguous datasets of a file, of whose data nothing is written."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._types: dict[np.dtype[Any], Any] = {}
        self._creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        self._creation.set_layout(h5py.h5d.CONTIGUOUS)
        self._creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        self._creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        self._creation.set_obj_track_times(False)

    def allocate(self, key: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
        """Make a dataset and return where its data belong; 0 where there are none."""
        if dtype not in self._types:
            self._types[dtype] = hdf5_type(dtype)
        space = h5py.h5s.create_simple(shape)
        dataset = h5py.h5d.create(self._file.id, key.encode(), self._types[dtype], space, self._creation)
        return int(dataset.get_offset() or 0)


def _image_file(image: SparseImage) -> Any:
    return h5py.File(image, "w", libver=VERSION, alignment_threshold=FUSED_LENGTH, alignment_interval=PAGE)


def _fused(infos: Mapping[str, TensorSpec]) -> dict[str, dict[str, TensorSpec]]:
    """Return the small arrays by the dataset that they share."""
    fused: dict[str, dict[str, TensorSpec]] = {}
    for name, info in infos.items():
        if info.byte_count < FUSED_LENGTH:
            fused.setdefault(f"%fused_{dtype_text(info.dtype).lstrip('<|')}", {})[name] = info
    return fused


def _fused_places(key: str, offset: int, members: Mapping[str, TensorSpec]) -> dict[str, ArrayLocation]:
    places, first = {}, 0
    for name, info in members.items():
        places[name] = ArrayLocation(key, first, offset + first * info.dtype.itemsize if info.size else 0)
        first += info.size
    return places


def dataset_name(name: str) -> str:
    """Return a dataset name that is no path and starts with no % that is ours."""
    # A name of dots only would be a path.
    return quote(name, safe=" ") if name.strip(".") else name.replace(".", "%2E")
