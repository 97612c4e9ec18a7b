"""Probes of datasets, of operations on images, and of first values."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import mpiparallel as ms
import mpiparallel.dataset as ds
from mpiparallel.common import initializer as initializers
from mpiparallel.dataset import vision
from mpiparallel.errors import DatasetError
from mpiparallel.graph.parameter import Parameter
from tests.conformance.made_up_data import write_images
from tests.conformance.probes.argument_probe import ROWS, Beside, Noted, Probe, Refused, seen


def initial(kind: Callable[..., Any], *required: Any, shape: tuple[int, ...] = (8, 6)) -> Callable[..., Any]:
    """Return what fills a tensor by an initializer."""

    def call(**options: Any) -> Any:
        ms.set_seed(3)
        return seen(initializers.initializer(kind(*required, **options), shape, ms.float32).init_data())

    return call


def rows_of(kind: Callable[..., Any], *required: Any) -> Callable[..., Any]:
    """Return what reads two epochs of a dataset."""

    def call(**options: Any) -> Any:
        data = kind(*required, **options)
        return repr([list(data.iterate(epoch)) for epoch in (0, 1)])

    return call


class Samples:
    """Six numbers that can be read by index."""

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, index * index

    def __len__(self) -> int:
        return 6


NUMBERS = ds.NumpySlicesDataset({"x": np.arange(6), "y": np.arange(6) % 2}, shuffle=False)
ORDER = {
    "num_samples": 2,
    "num_parallel_workers": Noted(4),
    "shuffle": False,
    "sampler": [3, 1],
    "num_shards": Beside(3, {"num_shards": 2, "shard_id": 0}),
    "shard_id": Beside(1, {"num_shards": 2, "shard_id": 0}),
}


ITERATED = {"num_epochs": 1, "output_numpy": True, "do_copy": Noted(True)}


def two_loops(rows: Iterable[Any]) -> Any:
    """Return the columns of two epochs, and what they are."""
    return [[repr(row) for row in rows] for _ in range(2)]


def _dataset(method: str, *required: Any) -> Callable[..., Any]:
    return rows_of(getattr(NUMBERS, method), *required)


def _image(kind: Callable[..., Any], *required: Any) -> Callable[..., Any]:
    pixels = np.random.default_rng(5).integers(0, 255, (6, 6, 3)).astype(np.uint8)

    def call(**options: Any) -> Any:
        data = ds.NumpySlicesDataset({"image": pixels[None].repeat(8, 0)}, shuffle=False)
        try:
            return rows_of(lambda: data.map(kind(*required, **options)))()
        except DatasetError as error:
            return str(error)

    return call


FILES = {"usage": "test", **ORDER, "num_samples": 1, "sampler": [1, 0], "cache": Noted("a cache")}
PIXELS = np.arange(5 * 5 * 3, dtype=np.uint8).reshape(5, 5, 3)


def digits(**options: Any) -> Any:
    """Return two epochs of a folder of MNIST's files: four images to train, three to test."""
    with tempfile.TemporaryDirectory() as folder:
        for half, count in (("train", 4), ("t10k", 3)):
            pixels = np.arange(count * 4, dtype=np.uint8).tobytes()
            images, labels = (Path(folder, f"{half}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
            images.write_bytes(struct.pack(">4I", 0x803, count, 2, 2) + pixels)
            labels.write_bytes(struct.pack(">2I", 0x801, count) + bytes(range(count)))
        return rows_of(ds.MnistDataset, folder)(**options)


def objects(**options: Any) -> Any:
    """Return two epochs of a folder of CIFAR-10's files, of eight images each."""
    with tempfile.TemporaryDirectory() as folder:
        return rows_of(ds.Cifar10Dataset, write_images(Path(folder)))(**options)


DATA: dict[str, Probe] = {
    "common.initializer.HeNormal": Probe(
        initial(initializers.HeNormal), {"negative_slope": 1, "mode": "fan_out", "nonlinearity": "tanh"}
    ),
    "dataset.NumpySlicesDataset": Probe(rows_of(ds.NumpySlicesDataset, np.arange(6)), {"column_names": "x", **ORDER}),
    "dataset.GeneratorDataset": Probe(
        lambda **options: rows_of(ds.GeneratorDataset, Samples())(**{"column_names": ["x", "y"]} | options),
        {
            **ORDER,
            "column_names": ["y", "x"],
            "column_types": Refused([np.float32, np.float32]),
            "schema": Refused("schema.json"),
            "python_multiprocessing": Noted(True),
            "max_rowsize": Noted(8),
        },
    ),
    "dataset.Dataset.batch": Probe(_dataset("batch", 4), {"drop_remainder": True, "num_parallel_workers": Noted(2)}),
    "dataset.Dataset.map": Probe(
        _dataset("map", lambda x: x + 1),
        {"input_columns": "y", "output_columns": "z", "num_parallel_workers": Noted(2)},
    ),
    "dataset.Dataset.repeat": Probe(
        lambda **options: NUMBERS.repeat(**options).take(20).get_dataset_size(), {"count": 2}
    ),
    "dataset.Dataset.take": Probe(_dataset("take"), {"count": 2}),
    "dataset.Dataset.create_tuple_iterator": Probe(
        lambda **options: two_loops(NUMBERS.create_tuple_iterator(**options)), {"columns": ["y"], **ITERATED}
    ),
    "dataset.Dataset.create_dict_iterator": Probe(
        lambda **options: two_loops(NUMBERS.create_dict_iterator(**options)), ITERATED
    ),
    "dataset.MnistDataset": Probe(digits, FILES),
    "dataset.Cifar10Dataset": Probe(objects, FILES),
    "dataset.vision.Resize": Probe(_image(vision.Resize, (4, 4)), {"interpolation": vision.Inter.NEAREST}),
    "dataset.vision.SlicePatches": Probe(
        lambda **options: seen(vision.SlicePatches(**{"num_width": 2} | options)(PIXELS)),
        {
            "num_height": 2,
            "num_width": 3,
            "slice_mode": vision.SliceMode.DROP,
            "fill_value": 9,
        },
    ),
    "dataset.Dataset.output_shapes": Probe(NUMBERS.output_shapes, {"estimate": Refused(True)}),
    "dataset.vision.Normalize": Probe(_image(vision.Normalize, [1.0] * 3, [2.0] * 3), {"is_hwc": False}),
    "dataset.vision.RandomCrop": Probe(
        lambda **options: _image(vision.RandomCrop)(**{"size": 4} | options),
        {"padding": 2, "pad_if_needed": Beside(True, {"size": 8}), "fill_value": Beside(9, {"padding": 4})},
    ),
    "dataset.vision.RandomHorizontalFlip": Probe(_image(vision.RandomHorizontalFlip), {"prob": 1.0}),
    "dataset.vision.ToTensor": Probe(_image(vision.ToTensor), {"output_type": np.float16}),
    "common.initializer.HeUniform": Probe(
        initial(initializers.HeUniform), {"negative_slope": 1, "mode": "fan_out", "nonlinearity": "tanh"}
    ),
    "common.initializer.Normal": Probe(initial(initializers.Normal), {"sigma": 2.0, "mean": 1.0}),
    "common.initializer.TruncatedNormal": Probe(
        initial(initializers.TruncatedNormal), {"sigma": 2.0, "mean": 1.0, "a": -0.01, "b": 0.01}
    ),
    "common.initializer.Uniform": Probe(initial(initializers.Uniform), {"scale": 2.0}),
    "common.initializer.Orthogonal": Probe(initial(initializers.Orthogonal), {"gain": 2.0}),
    "common.initializer.Sparse": Probe(initial(initializers.Sparse, 0.1), {"sigma": 2.0}),
    "common.initializer.Dirac": Probe(initial(initializers.Dirac, shape=(4, 2, 3, 3)), {"groups": 2}),
    "common.initializer.VarianceScaling": Probe(
        initial(initializers.VarianceScaling), {"scale": 2.0, "mode": "fan_out", "distribution": "uniform"}
    ),
    "common.initializer.XavierNormal": Probe(initial(initializers.XavierNormal), {"gain": 2.0}),
    "common.initializer.XavierUniform": Probe(initial(initializers.XavierUniform), {"gain": 2.0}),
    "common.initializer.initializer": Probe(
        lambda **options: seen(initializers.initializer("ones", **{"shape": (2,)} | options).init_data()),
        {"shape": (3,), "dtype": ms.float16},
    ),
    "Parameter": Probe(
        lambda **options: seen(Parameter(ROWS, **options)),
        {"name": "w", "requires_grad": False, "layerwise_parallel": True, "parallel_optimizer": False},
    ),
}
