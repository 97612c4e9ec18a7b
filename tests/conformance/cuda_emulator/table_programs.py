"""The programs of the table of operators, bound to a device's kernels before any of them runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mpiparallel.communication.threads import alone
from mpiparallel.compile.elementwise_fusion import fuse_elementwise
from mpiparallel.compile.place import place
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import RandomState, Runtime
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.testing.case_strategies import TracedCase, trace_case
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_cases import CASES


@dataclass
class TableProgram:
    """One case with its gradient as a program on a backend."""

    case: OperatorCase
    traced: TracedCase
    program: Program
    backend: Any

    def run(self) -> list[Any]:
        """Return what the case gives, and what it has made of its parameters."""
        found = [self.backend.to_host(array) for array in self.program.run(self.traced.fed)]
        return found + [self.backend.to_host(one.array) for one in self.traced.applications[0].parameters]


def bind_table(backend: Any) -> list[TableProgram]:
    """Bind every case of the table, each operator fused with those of its gradient where it can be."""
    return [bind_case(case, backend) for case in CASES]


def narrowed(case: OperatorCase, dtype: Any) -> OperatorCase:
    """Return a case with floats of 16 bits."""
    given = [np.asarray(one) for one in case.inputs]
    with np.errstate(over="ignore"):
        return replace(case, inputs=tuple(one.astype(dtype) if one.dtype.kind == "f" else one for one in given))


def bind_case(case: OperatorCase, backend: Any) -> TableProgram:
    """Bind a case, each operator fused with those of its gradient where it can be."""
    traced = trace_case(case)
    sharded = place(traced.graph, ParallelConfiguration())
    for name, value in sharded.graph.parameters.items():
        if value.parameter is not None:
            value.parameter.place(sharded.stored[name], 0, backend)
    graph = local_graph(sharded, 0)
    fuse_elementwise(graph, 0)
    program = Program(graph, Runtime(backend, alone(), RandomState(3)))
    return TableProgram(case, traced, program, backend)
