"""The name under which MindSpore 1.x programs import the operations of :mod:`mpiparallel.dataset.vision`."""

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
