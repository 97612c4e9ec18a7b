"""The HDF5 of an index in which the datasets of many shards appear as whole tensors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import Attribute
from mpiparallel.checkpoint.shard.element_type import hdf5_type
from mpiparallel.checkpoint.shard.skeleton import VERSION, dataset_name
from mpiparallel.checkpoint.shard.sparse_image import SparseImage
from mpiparallel.dtype import is_inexact, is_narrow
from mpiparallel.layout.box import Box


class VirtualSource(NamedTuple):
    """Where the elements of ``box`` of a tensor are: from ``first`` on in a ``dataset`` of ``shape`` of a ``file``.

    The dataset has the shape of the box and ``first`` is 0, or it has one dim.
    """

    box: Box
    file: str
    dataset: str
    shape: tuple[int, ...]
    first: int


class VirtualTensor(NamedTuple):
    """A tensor made of pieces, or of a ``value`` that is copied, as HDF5 has no virtual scalars."""

    info: TensorSpec
    pieces: Sequence[VirtualSource] = ()
    value: NDArray[Any] | None = None


def lay_out_virtual(tensors: Mapping[str, VirtualTensor], attributes: Mapping[str, Attribute]) -> bytes:
    """Return an HDF5 file with a virtual dataset for each tensor; where a piece is missing floats are NaN, others 0."""
    image = SparseImage()
    with h5py.File(image, "w", libver=VERSION) as file:
        for name, value in attributes.items():
            file.attrs[name] = value
        for name, tensor in tensors.items():
            key = dataset_name(name)
            kind = hdf5_type(tensor.info.dtype)
            space = h5py.h5s.create_simple(tensor.info.shape)
            dataset = h5py.h5d.create(file.id, key.encode(), kind, space, _creation(tensor))
            if tensor.value is not None:
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, _known(tensor.value))
    return image.content(0, image.seek(0, os.SEEK_END))


def _creation(tensor: VirtualTensor) -> Any:
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if tensor.value is None and is_inexact(tensor.info.dtype):
        creation.set_fill_value(_known(np.array(np.nan, tensor.info.dtype)))
    for piece in tensor.pieces:
        target = h5py.h5s.create_simple(tensor.info.shape)
        target.select_hyperslab(piece.box.start, piece.box.shape)
        source = h5py.h5s.create_simple(piece.shape)
        if piece.shape != piece.box.shape:
            source.select_hyperslab((piece.first,), (piece.box.size,))
        creation.set_virtual(target, _literal(piece.file), _literal(piece.dataset), source)
    return creation


def _known(array: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers in a dtype that h5py knows; HDF5 converts them to that of the dataset."""
    return array.astype(np.float32) if is_narrow(array.dtype) else array


def _literal(name: str) -> bytes:
    """Return a name in which HDF5 finds no pattern: there % begins one."""
    return name.replace("%", "%%").encode()
