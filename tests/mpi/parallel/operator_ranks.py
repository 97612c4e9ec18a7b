"""Runs a sample of the operator table under every strategy that is legal on the ranks of one ``mpirun``."""

from __future__ import annotations

import sys

import numpy as np

from mpiparallel.communication.threads import alone
from mpiparallel.testing.case_strategies import LaidOutCase, batches, run_case, strategies_of
from tests.conformance.cases.operator_cases import CASES

SAMPLE = (
    "Add-row",
    "AdamWeightDecay",
    "ArgMaxWithValue--1",
    "Argmin-nan",
    "BatchMatMul",
    "Conv2D-same",
    "Dropout",
    "Gather",
    "Gather-split3",
    "GatherLast",
    "LayerNorm-1-1",
    "MatMul-yT",
    "ReduceMax-(0,2)",
    "ReduceProd-(0, 2)-False",
    "Softmax--1",
    "SumExp",
)


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import mpi

    mpi.abort_job_on_uncaught_exception()
    world = mpi.world()
    count = 0
    for case in CASES:
        if case.name not in SAMPLE:
            continue
        expected = run_case(alone(), case, None)
        for batch in batches(case, list(strategies_of(case, world.size))):
            found = LaidOutCase.of(case, batch, world.size).run(world)
            for strategy, results in zip(batch, found, strict=True):
                for result, wanted in zip(results, expected, strict=True):
                    np.testing.assert_allclose(result, wanted, 1e-11, 1e-12, err_msg=f"{case.name} under {strategy}")
                count += 1
    sys.stdout.write(f"rank {world.rank} of {world.size} holds {count} strategies\n")


if __name__ == "__main__":
    main()
