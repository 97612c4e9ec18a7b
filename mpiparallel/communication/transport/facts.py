"""What decides how the devices of a group talk: gathered by MPI from all members, before a device is used."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Final

import numpy as np

from mpiparallel.backend.gpu.links import DeviceLinks
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.transport.cuda_aware import proven_cuda_aware
from mpiparallel.dataclass import dataclass

VARIABLE: Final = "MPIPARALLEL_TRANSPORT"
"""How arrays of GPUs travel: ``auto``, the default, or ``nccl``, ``ipc``, ``mpi``, ``staging``; rank 0's counts."""
_BYTES: Final = 512


@dataclass(frozen=True)
class MemberFacts:
    """One member: its host, its device and the card that this is in, what it can load, what it asks for.

    ``nccl`` is the version of NCCL, 0 for none. ``aware`` says that its MPI has been proven to take device arrays.
    """

    host: int
    device: str
    card: str
    nccl: int
    aware: bool
    asked: str


def gather_facts(communicator: Communicator, links: DeviceLinks) -> list[MemberFacts]:
    """Return the facts of all members, in their order; all of them call it."""
    own = MemberFacts(
        communicator.hosts[communicator.rank],
        links.uuid,
        links.card,
        links.nccl_version,
        proven_cuda_aware(communicator.library),
        os.environ.get(VARIABLE, "auto").lower()[:32],
    )
    row = np.zeros(_BYTES, np.uint8)
    text = json.dumps(asdict(own)).encode()
    row[: len(text)] = np.frombuffer(text, np.uint8)
    rows = np.zeros((communicator.size, _BYTES), np.uint8)
    communicator.all_gather(row, rows)
    return [MemberFacts(**json.loads(one.tobytes().rstrip(b"\0"))) for one in rows]
