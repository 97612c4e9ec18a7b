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

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
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

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__, ("engine", "text", "transforms", "vision"))
