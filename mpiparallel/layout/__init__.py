"""Where the elements of a tensor live: integers only, no arrays, no MPI."""

from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

__all__ = ["Box", "DeviceMatrix", "Layout"]
