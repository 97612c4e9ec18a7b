"""What a node's placement is made from."""

from __future__ import annotations

from mpiparallel.graph.graph import Node
from mpiparallel.parallel.placement import Operands, ShardingRule


def operands_of(node: Node) -> Operands:
    """Return the name, the rule and the global shapes of a node."""
    inputs = tuple(value.spec.shape for value in node.inputs)
    return Operands(node.name, ShardingRule(node.equation, inputs, tuple(value.spec.shape for value in node.outputs)))
