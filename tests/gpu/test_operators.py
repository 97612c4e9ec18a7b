"""Every operator of the table on CuPy against NumPy; needs a CUDA device."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.threads import alone
from mpiparallel.compile.place import place
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.graph.execution import stretch
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import RandomState, Runtime
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.testing.case_strategies import run_case, trace_case
from tests.conformance.cases.operator_cases import CASES
from tests.conformance.cuda_emulator.table_programs import bind_case

pytestmark = pytest.mark.gpu

RUNS = 3
"""The second run is recorded, the third is replayed."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_values_and_gradients_are_those_of_numpy(case, backend) -> None:
    traced = trace_case(case)
    configuration = ParallelConfiguration()
    sharded = place(traced.graph, configuration)
    for name, value in sharded.graph.parameters.items():
        value.parameter.place(sharded.stored[name], 0, backend)
    program = Program(local_graph(sharded, 0), Runtime(backend, alone(), RandomState(3)))
    found = [backend.to_host(array) for array in program.run(traced.fed)]
    found += [backend.to_host(parameter.array) for parameter in traced.applications[0].parameters]
    for result, wanted in zip(found, run_case(alone(), case, None), strict=True):
        np.testing.assert_allclose(result, wanted, 1e-11, 1e-12)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded_and_replayed_each_gives_what_numpy_does(case, backend, monkeypatch) -> None:
    # Each operator alone is recorded, or refused.
    monkeypatch.setattr(stretch, "_FEWEST", 1)
    monkeypatch.setattr(stretch, "remark", lambda _line: None)
    programs = [bind_case(case, used) for used in (NumpyBackend(), backend)]
    for _ in range(RUNS):
        wanted, found = (program.run() for program in programs)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, 1e-11, 1e-12)
