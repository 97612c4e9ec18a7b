"""What can be counted in the graph that one rank runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mpiparallel.graph.execution.buffer_plan import find_views
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.ops.images.convolution.convolution import Conv2D, Conv2DBackpropFilter
from mpiparallel.ops.images.convolution.convolution_base import Convolution


def gemm_operations(node: Node) -> int:
    """Return the multiplications and additions of a matrix product or a convolution."""
    if isinstance(node.operator, Convolution):
        images = node.outputs[0] if isinstance(node.operator, Conv2D) else node.inputs[0]
        weight = node.outputs[0] if isinstance(node.operator, Conv2DBackpropFilter) else node.inputs[1]
        return 2 * images.spec.size * (weight.spec.size // weight.spec.shape[0])
    contracted = node.inputs[0].spec.shape[-2 if getattr(node.operator, "transpose_a", False) else -1]
    return 2 * node.outputs[0].spec.size * contracted


def graph_costs(graph: Graph) -> dict[str, Any]:
    """Return what can be counted in a rank's graph: kernels, GEMM operations, collectives and their bytes."""
    views = find_views(graph)
    computing = [node for node in graph.nodes if node not in views]
    collectives = [node for node in computing if node.operator.kind == "communication"]
    return {
        "kernels": len(computing),
        "calls": dict(Counter(node.operator.name for node in computing)),
        "gemm_operations": sum(gemm_operations(node) for node in computing if node.operator.kind == "gemm"),
        "collectives": len(collectives),
        "collective_bytes": sum(value.spec.byte_count for node in collectives for value in node.inputs),
    }
