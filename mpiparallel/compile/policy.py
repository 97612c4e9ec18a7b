"""What decides the layouts of a graph, node by node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.graph.graph import Node, Value
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.operator_placement import Operands, OperatorPlacement, ShardingRule


class Policy(ABC):
    """The rules by which ``place`` lays out a graph; what is decided so far is in ``sharded``.

    ``held`` are the layouts in which the ranks hold parameters already, by name: these stay where they are.
    """

    def __init__(
        self,
        sharded: ShardedGraph,
        strategies: Strategies,
        held: Mapping[str, Layout],
        configuration: ParallelConfiguration,
    ) -> None:
        self._sharded = sharded
        self._devices = sharded.devices
        self._strategies = strategies
        self._held = held
        self._configuration = configuration
        self._after_gradient: set[Value] = set()

    @abstractmethod
    def begin(self) -> None:
        """Lay out the inputs, and the parameters as far as they do not depend on the order of the nodes."""

    @abstractmethod
    def place(self, node: Node) -> OperatorPlacement:
        """Return the layouts in which a node takes its inputs and computes its outputs; all before it are placed."""

    def left_in(self, node: Node, placement: OperatorPlacement) -> tuple[Layout, ...]:
        """Return the layouts to which the outputs of a node are moved at once."""
        return placement.outputs

    @abstractmethod
    def end(self) -> None:
        """Lay out the outputs, once all nodes are placed."""


def operands_of(node: Node) -> Operands:
    """Return the name, the rule and the global shapes of a node."""
    inputs, outputs = (tuple([value.spec.shape for value in side]) for side in (node.inputs, node.outputs))
    return Operands(node.name, ShardingRule(node.equation, inputs, outputs))
