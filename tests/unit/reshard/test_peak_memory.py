from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import reshard
from tests.conformance.resharding.reshard_cases import EXECUTORS, MODES

RANKS = 4
TENSORS = 4
MEBIBYTE = 1 << 20
SCRATCH = MEBIBYTE // 4
# Plans, views and threads of four ranks.
SMALL = MEBIBYTE


def peak_of_a_move(executor: str, mode: str) -> int:
    """Return how many bytes the ranks together hold at most above what they hold before and after."""
    devices = DeviceMatrix((RANKS,))
    rows, columns = (Layout((512, 1024), devices, cut) for cut in (((0,), ()), ((), (0,))))
    source = {f"t{index}": rows for index in range(TENSORS)}
    options: dict[str, Any] = {"executor": executor, "mode": mode, "scratch_bytes": SCRATCH, "wave_bytes": MEBIBYTE}
    # No executor has a hand in digests, and they take their time.
    options["digest"] = executor == "packed"

    def on_each_rank(communicator: Communicator) -> None:
        # A strided source must be packed, and its checksum and digest be made in portions.
        state = {name: np.ones((1024, 128)).T for name in source}
        communicator.barrier()
        if communicator.rank == 0:
            tracemalloc.reset_peak()
            before.append(tracemalloc.get_traced_memory()[0])
        communicator.barrier()
        reshard(state, source, dict.fromkeys(source, columns), communicator, **options)

    before: list[int] = []
    tracemalloc.start()
    try:
        run_world(RANKS, on_each_rank)
        return tracemalloc.get_traced_memory()[1] - before[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("mode", MODES)
def test_a_move_needs_its_targets_or_one_wave_of_them_and_the_scratch_memory(executor: str, mode: str) -> None:
    waves = TENSORS if mode == "safe" else 1
    peak = peak_of_a_move(executor, mode)
    assert peak > RANKS * waves * MEBIBYTE
    assert peak <= RANKS * (waves * MEBIBYTE + SCRATCH) + SMALL
