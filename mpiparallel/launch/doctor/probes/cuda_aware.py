"""A rank of the doctor's job: exchange and add up arrays in GPUs' memory with the other; rank 0 keeps what it saw."""

from __future__ import annotations

import importlib
import json
from typing import Any

from mpiparallel.communication.transport.cuda_aware import keep_verdict

_BYTES = 1 << 20
_REDUCTIONS = (("SUM", "f4", 3), ("SUM", "f8", 3), ("MAX", "i8", 2))
"""An operation, a type of elements, and what comes of one and two."""


def main() -> None:
    """Send both ways, then reduce, compare, and let rank 0 print after each whether all arrived whole."""
    cupy: Any = importlib.import_module("cupy")
    mpi: Any = importlib.import_module("mpi4py.MPI")
    world = mpi.COMM_WORLD
    cupy.cuda.Device(world.rank % cupy.cuda.runtime.getDeviceCount()).use()
    library = " ".join(mpi.Get_library_version().split("\0")[0].split("\n")[0].split())
    if world.rank == 0:
        # A library that reads the address on the host ends the process.
        keep_verdict(library, False)
    sent = world.allreduce(_exchanges(cupy, world), mpi.LAND)
    _say(world, sent=sent)
    reduced = sent and world.allreduce(_reduces(cupy, mpi, world), mpi.LAND)
    kept = world.rank == 0 and keep_verdict(library, reduced)
    _say(world, whole=reduced, kept=kept)


def _exchanges(cupy: Any, world: Any) -> bool:
    """Return whether what the other rank has sent arrives whole."""
    sent, received = _filled(cupy, 1 + world.rank, "u1"), _filled(cupy, 0, "u1")
    _await(cupy)
    world.Sendrecv(sent, 1 - world.rank, recvbuf=received, source=1 - world.rank)
    return bool((received == 2 - world.rank).all())


def _reduces(cupy: Any, mpi: Any, world: Any) -> bool:
    """Return whether sums and largest elements of both ranks' arrays are right."""
    found = []
    for operation, dtype, wanted in _REDUCTIONS:
        array = _filled(cupy, 1 + world.rank, dtype)
        _await(cupy)
        world.Allreduce(mpi.IN_PLACE, array, getattr(mpi, operation))
        found.append(bool((array == wanted).all()))
    return all(found)


def _filled(cupy: Any, value: int, dtype: str) -> Any:
    return cupy.full(_BYTES // int(dtype[1]), value, dtype)


def _await(cupy: Any) -> None:
    """Wait for the device: MPI knows nothing of streams."""
    cupy.cuda.get_current_stream().synchronize()


def _say(world: Any, **facts: Any) -> None:
    if world.rank == 0:
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
