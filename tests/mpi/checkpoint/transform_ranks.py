"""Converts the genuine checkpoint of eight ranks to four, shared by the ranks of mpi4py's world and of ours."""

from __future__ import annotations

import sys

from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoints
from mpiparallel.communication import init, release
from mpiparallel.communication.world import current


def main() -> None:
    # Not above: the process of the tests collects this file, and must not start MPI.
    from mpi4py import MPI

    genuine, target = sys.argv[1:]
    init()
    strategies = f"{genuine}/src_strategy.ckpt", f"{genuine}/dst_strategy.ckpt"
    for name, communicator in (("theirs", MPI.COMM_WORLD), ("ours", current())):
        report = transform_checkpoints(
            f"{genuine}/src_checkpoints", f"{target}/{name}", "transformed", *strategies, communicator=communicator
        )
        sys.stdout.write(f"rank {current().rank} made {list(report.files)}\n")
    release()


if __name__ == "__main__":
    main()
