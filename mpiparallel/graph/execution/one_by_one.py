"""Nodes that were made one, where no kernel computes them together: each by its own, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.graph import Node, Value

_SLOT: Final = 70
"""Scratch memory from here on holds what is computed between."""


def one_by_one(runtime: Runtime, nodes: Sequence[Node], given: Mapping[Value, Array]) -> Kernel:
    """Return what runs the nodes in order; what is not among the given arrays is scratch memory."""
    arrays = dict(given)
    between = [value for node in nodes for value in node.outputs if value not in arrays]
    for slot, value in enumerate(between, _SLOT):
        arrays[value] = runtime.scratch(value.spec.shape, value.spec.dtype, slot)
    kernels = [
        node.operator.kernel(
            runtime, [arrays[value] for value in node.inputs], [arrays[value] for value in node.outputs]
        )
        for node in nodes
    ]
    return partial(_run_all, kernels)


def _run_all(kernels: Sequence[Kernel]) -> None:
    for kernel in kernels:
        kernel()
