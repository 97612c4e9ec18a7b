"""Ranks with a device that is not there, and arrays that travel between them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.gpu.wait import forget_watches
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.transport import facts, ipc_group
from mpiparallel.communication.transport.opening import open_transport
from mpiparallel.communication.transport.staged import PinnedSlots
from mpiparallel.compatibility.remark import forget_remarks
from tests.conformance.hidden_arrays.backend import hidden_backend, install
from tests.conformance.hidden_arrays.ipc import forget_blocks
from tests.conformance.hidden_arrays.library import own_gpu, shared_gpu
from tests.conformance.hidden_arrays.nccl import NcclCommunicator
from tests.conformance.hidden_arrays.stream import DEVICE

SMALL_SLOT = 1024
"""Bytes: most arrays of the tests travel in several portions."""


@contextmanager
def gpus_of_their_own(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Let each rank have a GPU, NCCL in a ``folder``, and an MPI that takes arrays of GPUs."""
    with pytest.MonkeyPatch.context() as patch:
        install(patch, uuid=own_gpu, folder=folder)
        patch.setattr(facts, "proven_cuda_aware", lambda library: True)
        # Ranks in threads open each other's blocks as ranks in processes do.
        patch.setattr(ipc_group, "memory_space", lambda: f"{os.getpid()} {threading.get_ident()}")
        NcclCommunicator.made.clear()
        forget_remarks()
        DEVICE.reset()
        yield patch
    forget_blocks()
    NcclCommunicator.made.clear()
    forget_watches()


def travel_by(patch: pytest.MonkeyPatch, way: str) -> None:
    """Let arrays travel by this way; for CUDA IPC all ranks share a GPU."""
    patch.setenv(facts.VARIABLE, way)
    uuid = shared_gpu if way == "ipc" else own_gpu
    runtime = sys.modules["cupy"].cuda.runtime
    patch.setattr(runtime, "getDeviceProperties", lambda number: {"uuid": uuid()})
    patch.setattr(runtime, "deviceGetPCIBusId", lambda number: uuid().hex())


class Rank:
    """A rank with a device, and its transport by the way that the environment asks for."""

    def __init__(self, communicator: Communicator) -> None:
        self.communicator = communicator
        self.backend: Any = hidden_backend()
        self.transport: Any = open_transport(communicator, communicator, self.backend, PinnedSlots(SMALL_SLOT))

    def array(self, values: Any) -> Any:
        return self.backend.from_host(np.ascontiguousarray(values))

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self.array(np.full(shape, 99).astype(dtype))
