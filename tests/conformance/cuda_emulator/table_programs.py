"""The programs of the table of operators, bound to a device's kernels before any of them runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    return [_bind(case, backend) for case in CASES]


def _bind(case: OperatorCase, backend: Any) -> TableProgram:
    traced = trace_case(case)
    sharded = place(traced.graph, ParallelConfiguration())
    for name, value in sharded.graph.parameters.items():
        if value.parameter is not None:
            value.parameter.place(sharded.stored[name], 0, backend)
    graph = local_graph(sharded, 0)
    fuse_elementwise(graph, 0)
    program = Program(graph, Runtime(backend, alone(), RandomState(3)))
    return TableProgram(case, traced, program, backend)
