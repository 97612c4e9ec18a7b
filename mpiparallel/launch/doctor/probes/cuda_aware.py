"""A rank of the doctor's job: send an array in a GPU's memory to the other rank and back; rank 0 keeps what it saw."""

from __future__ import annotations

import importlib
import json
from typing import Any

from mpiparallel.communication.transport.cuda_aware import keep_verdict

_BYTES = 1 << 20


def main() -> None:
    """Send both ways, compare, and let rank 0 print whether all arrived whole."""
    cupy: Any = importlib.import_module("cupy")
    mpi: Any = importlib.import_module("mpi4py.MPI")
    world = mpi.COMM_WORLD
    cupy.cuda.Device(world.rank % cupy.cuda.runtime.getDeviceCount()).use()
    sent, received = (cupy.full(_BYTES, value, "u1") for value in (1 + world.rank, 0))
    # MPI knows nothing of streams.
    cupy.cuda.get_current_stream().synchronize()
    world.Sendrecv(sent, 1 - world.rank, recvbuf=received, source=1 - world.rank)
    whole = bool((received == 2 - world.rank).all())
    whole = world.allreduce(whole, mpi.LAND)
    if world.rank == 0:
        library = " ".join(mpi.Get_library_version().split("\0")[0].split("\n")[0].split())
        print(json.dumps({"whole": whole, "kept": keep_verdict(library, whole)}), flush=True)


if __name__ == "__main__":
    main()
