"""The kernels of graphs, measured as they follow each other in a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.execution.program import Profile, Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.search.machine.fitted_times import MeasuredKernel, fitted_times
from mpiparallel.search.machine.kernel_times import KernelTimes
from mpiparallel.search.machine.stopwatch import Stopwatch

_TIMES: Final = 5
_LEAST: Final = 1e-9
_LARGE: Final = 1 << 15
"""Bytes below which a kernel takes little more than its call, and says nothing of its rates."""
_PRODUCTS: Final = ("MatMul", "BatchMatMul")
"""Those are measured by themselves, in many sizes."""


def node_cost(node: Node) -> Cost:
    """Return what the kernel of a node costs; what several members pass on inside is neither read nor written."""
    inputs, outputs = node_specs(node)
    if not node.members:
        return node.operator.cost(inputs, outputs)
    costs = [one.operator.cost(*node_specs(one)) for one in node.members]
    written = sum(spec.byte_count for spec in (*outputs, *(inputs[place] for place in node.operator.updates)))
    return Cost(sum(one.operations for one in costs), sum(spec.byte_count for spec in inputs), written)


def node_specs(node: Node) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Return the shapes and dtypes of a node's inputs and outputs."""
    return [value.spec for value in node.inputs], [value.spec for value in node.outputs]


def compile_share(graphs: Sequence[Graph], place: int, count: int) -> None:
    """Run the kernels of some names once, as the one in ``place`` of ``count`` ranks that share them out.

    What that compiles is kept, so the other ranks of the host only load it.
    """
    by_name = defaultdict[str, list[Node]](list)
    for node in (node for graph in graphs for node in graph.nodes if not node.operator.is_view):
        by_name[node.operator.kernel_names(*node_specs(node))[0]].append(node)
    for name in sorted(by_name)[place::count]:
        for node in by_name[name]:
            inputs, outputs = ([_ones(value) for value in side] for side in (node.inputs, node.outputs))
            kernel = node.operator.kernel(Runtime(), inputs, outputs)
            with np.errstate(all="ignore"):
                kernel()


def _ones(value: Value) -> np.ndarray[Any, Any]:
    return np.ones(value.spec.shape, value.spec.dtype) if value.constant is None else value.constant


def measured_kernels(graphs: Sequence[Graph], watch: Stopwatch) -> tuple[KernelTimes, ...]:
    """Return what the kernels of ``graphs`` take, by name, but for products of matrices."""
    found = defaultdict[str, list[MeasuredKernel]](list)
    for graph in graphs:
        program = _Measured(graph, watch)
        for node, seconds in zip(program.nodes, program.seconds(), strict=True):
            inputs, outputs = node_specs(node)
            one = MeasuredKernel(node_cost(node), len(inputs) + len(outputs), max(seconds, _LEAST))
            for name in node.operator.kernel_names(inputs, outputs):
                found[name].append(one)
    return tuple(fitted_times(name, found[name]) for name in sorted(found) if _tell(name, found[name]))


def _tell(name: str, measured: Sequence[MeasuredKernel]) -> bool:
    """Return whether kernels tell what others of their name take, large ones too."""
    largest = max(one.cost.bytes_read + one.cost.bytes_written for one in measured)
    return name not in _PRODUCTS and largest >= _LARGE


class _Measured:
    """The program of a graph, whose kernels are measured; ``nodes`` are those that they compute, in order."""

    def __init__(self, graph: Graph, watch: Stopwatch) -> None:
        self._program, self._watch = Program(graph, Runtime()), watch
        draw = np.random.default_rng(1)
        self._inputs = [_drawn(draw, value.spec) for value in graph.inputs]
        profile = Profile()
        self._program.run_profiled(self._inputs, profile)
        self.nodes = [node for node, _ in profile.nodes]

    def seconds(self) -> list[float]:
        """Return the seconds of each kernel, of some runs."""
        runs = []
        for _ in range(_TIMES):
            profile = Profile(clock=self._watch.clock)
            self._program.run_profiled(self._inputs, profile)
            weight = self._watch.weight()
            runs.append([seconds * weight for _, seconds in profile.nodes])
        return [self._watch.of_some(each) for each in zip(*runs, strict=True)]


def _drawn(draw: np.random.Generator, spec: TensorSpec) -> np.ndarray[Any, Any]:
    if spec.dtype.kind == "f":
        return draw.standard_normal(spec.shape).astype(spec.dtype)
    return np.zeros(spec.shape, spec.dtype)
