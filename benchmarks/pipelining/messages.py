"""What a message between two ranks costs by a request that is prepared once, and by one that is made for it.

    mpiparallel run -n 2 benchmarks/pipelining/messages.py
    mpiparallel run -n 2 --mpi mpich benchmarks/pipelining/messages.py

Rank 0 sends and rank 1 receives, by turns: as stages of a pipeline do; by the same requests of MPI, without the flight
recorder; and by requests that are made anew. An exchange ends when both ends have waited. The least of ``--rounds``
rounds of ``--exchanges`` each is told, in microseconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from math import inf

import numpy as np
from mpi4py import MPI

from mpiparallel.communication import init, world

TAG = 7


def parse() -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, nargs="+", default=[8, 4096, 65536, 1 << 20])
    parser.add_argument("--exchanges", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    return parser.parse_args()


def ways(array: np.ndarray) -> tuple[dict[str, Callable[[], object]], MPI.Prequest]:
    """Return what carries ``array`` from rank 0 to rank 1 once, by its name, and the request to be freed."""
    communicator, comm, peer = world.current(), MPI.COMM_WORLD, 1 - world.current().rank
    buffer = [array, MPI.BYTE]
    if communicator.rank == 0:
        message, prepared, start = communicator.message_to(array, peer), comm.Send_init(buffer, peer, TAG), comm.Isend
    else:
        message, prepared, start = communicator.message_from(array, peer), comm.Recv_init(buffer, peer, TAG), comm.Irecv

    def of_stages() -> None:
        message.start()
        message.end()

    def again() -> None:
        prepared.Start()
        prepared.Wait()

    carriers = {"stages": of_stages, "prepared": again, "made anew": lambda: start(buffer, peer, TAG).Wait()}
    return carriers, prepared


def main() -> None:
    """Measure each size."""
    flags = parse()
    init()
    communicator = world.current()
    for size in flags.bytes:
        carriers, prepared = ways(np.zeros(size, np.uint8))
        least = dict.fromkeys(carriers, inf)
        for _ in range(flags.rounds):
            for name, carry in carriers.items():
                communicator.barrier()
                begin = time.perf_counter()
                for _ in range(flags.exchanges):
                    carry()
                communicator.barrier()
                least[name] = min(least[name], (time.perf_counter() - begin) / flags.exchanges)
        prepared.Free()
        if communicator.rank == 0:
            told = ", ".join(f"{name} {seconds * 1e6:.2f}" for name, seconds in least.items())
            print(f"{size:>8} bytes: {told} microseconds", flush=True)


if __name__ == "__main__":
    main()
