"""Operations on images for ``Dataset.map``, under MindSpore's names.

An image is an array of NumPy, (height, width, channels). Random operations draw from the ``generator`` that ``map``
hands them, so a sample's augmentation depends on the seed, the epoch and the sample only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.dataset.vision.channels import HWC2CHW as HWC2CHW
from mpiparallel.dataset.vision.channels import ToTensor as ToTensor
from mpiparallel.dataset.vision.crop import CenterCrop as CenterCrop
from mpiparallel.dataset.vision.crop import RandomCrop as RandomCrop
from mpiparallel.dataset.vision.flip import RandomHorizontalFlip as RandomHorizontalFlip
from mpiparallel.dataset.vision.interpolation import Inter as Inter
from mpiparallel.dataset.vision.resize import Resize as Resize
from mpiparallel.dataset.vision.scaling import Normalize as Normalize
from mpiparallel.dataset.vision.scaling import Rescale as Rescale
from mpiparallel.dataset.vision.slice_patches import SliceMode as SliceMode
from mpiparallel.dataset.vision.slice_patches import SlicePatches as SlicePatches

__all__ = [
    "HWC2CHW",
    "CenterCrop",
    "Inter",
    "Normalize",
    "RandomCrop",
    "RandomHorizontalFlip",
    "Rescale",
    "Resize",
    "SliceMode",
    "SlicePatches",
    "ToTensor",
]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__, ("c_transforms", "transforms"))
