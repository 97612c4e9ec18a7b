"""Whole tensors, gathered from the slices of all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import reshard


def gathered(
    arrays: Mapping[str, NDArray[Any]],
    layouts: Mapping[str, Layout],
    takers: Sequence[int],
    communicator: Communicator,
) -> dict[str, NDArray[Any]]:
    """Return on the ranks ``takers`` each tensor whole, and nothing on others; all ranks call it together.

    Raises ReshardError on all ranks if a taker has too little memory.
    """
    devices = DeviceMatrix((len(takers),) if len(takers) > 1 else ())
    targets = {
        name: Layout.replicated(layout.global_shape, devices).on_ranks(takers) for name, layout in layouts.items()
    }
    return reshard(dict(arrays), layouts, targets, communicator)
