"""Input data: sources, and the operations on their rows, under MindSpore's names.

>>> import numpy as np
>>> import mpiparallel.dataset as ds
>>> def rows():
...     for i in range(4):
...         yield np.float32(i), i % 2
>>> pairs = ds.GeneratorDataset(rows, column_names=["image", "label"]).batch(2)
>>> [batch["label"].tolist() for batch in pairs.create_dict_iterator(num_epochs=1)]
[[0, 1], [0, 1]]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from mpiparallel.compatibility.absent_names import getattr_of

if TYPE_CHECKING:
    from mpiparallel.dataset import config as config
    from mpiparallel.dataset import text as text
    from mpiparallel.dataset import transforms as transforms
    from mpiparallel.dataset import vision as vision
    from mpiparallel.dataset.cifar10 import Cifar10Dataset as Cifar10Dataset
    from mpiparallel.dataset.dataset import Dataset as Dataset
    from mpiparallel.dataset.generator_dataset import GeneratorDataset as GeneratorDataset
    from mpiparallel.dataset.mnist import MnistDataset as MnistDataset
    from mpiparallel.dataset.numpy_slices_dataset import NumpySlicesDataset as NumpySlicesDataset

__all__ = [
    "Cifar10Dataset",
    "Dataset",
    "GeneratorDataset",
    "MnistDataset",
    "NumpySlicesDataset",
    "config",
    "text",
    "transforms",
    "vision",
]

_HOMES: Final = {
    "Cifar10Dataset": "cifar10",
    "Dataset": "dataset",
    "GeneratorDataset": "generator_dataset",
    "MnistDataset": "mnist",
    "NumpySlicesDataset": "numpy_slices_dataset",
}

if not TYPE_CHECKING:
    _ABSENT = getattr_of(__name__, ("config", "engine", "text", "transforms", "vision"))

    def __getattr__(name: str) -> Any:
        # A rank loads the sources and operations that it reads by, not images and texts beside them.
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name) if name in _HOMES else _ABSENT(name)

    def __dir__() -> list[str]:
        return sorted(__all__)
