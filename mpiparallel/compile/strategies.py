"""The strategies of a graph as data: how each node is to cut its inputs, and where its outputs are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.graph.operator import Strategy
from mpiparallel.parallel.saved_strategies import SavedStrategies


@dataclass(frozen=True)
class Strategies:
    """The strategies of nodes for their ``inputs`` and ``outputs``; a node without one is placed by rules."""

    inputs: Mapping[Node, Strategy] = field(default_factory=dict)
    outputs: Mapping[Node, Strategy] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, loaded: Mapping[str, Strategy] | None = None) -> Strategies:
        """Return those that the program has given its operators; ``loaded`` ones, by name, come before them."""
        saved = SavedStrategies(graph, loaded or {})
        inputs, outputs = {}, {}
        for node in graph.nodes:
            if node.notes.origin is not None and not node.operator.updates:
                continue
            strategy = saved.of(node)
            if strategy is not None:
                inputs[node] = strategy
            if node.operator.out_strategy is not None and node.notes.origin is None:
                outputs[node] = node.operator.out_strategy
        return cls(inputs, outputs)

    def with_inputs(self, others: Mapping[Node, Strategy]) -> Strategies:
        """Return these with other strategies for some nodes."""
        return replace(self, inputs={**self.inputs, **others})
