"""Strategies by the names that they have in strategy files."""

from __future__ import annotations

from collections.abc import Mapping

from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Strategy
from mpiparallel.graph.parameter import Parameter


def saved_name(node: Node) -> str | None:
    """Return the name of a node's operator in strategy files: ``MatMul_net.w1``; None where it has none.

    It is the operator's type, ``_`` and the first parameter that it takes and that is trained, or a cast of it. An
    operator on a list is called MakeTuple, as in MindSpore the list is what takes the parameters.
    """
    return next(iter(_saved_names(node)), None)


def _saved_names(node: Node) -> tuple[str, ...]:
    """Return the name in strategy files, then those that files of earlier versions have."""
    parameters = (parameter for value in node.inputs if (parameter := _parameter_of(value)) is not None)
    first = next((parameter.name for parameter in parameters if parameter.requires_grad), None)
    kinds = node.operator.saved_names or (node.operator.name,)
    return () if first is None else tuple(f"{kind}_{first}" for kind in kinds)


def _parameter_of(value: Value) -> Parameter | None:
    while value.node is not None and value.node.operator.name == "Cast":
        value = value.node.inputs[0]
    return value.parameter


class SavedStrategies:
    """The strategies of a file for the nodes of a graph; what the file lacks keeps the one that the program has set.

    A node's own name goes before that of its operator.
    """

    def __init__(self, graph: Graph, strategies: Mapping[str, Strategy]) -> None:
        self._graph = graph
        self._strategies = strategies
        self._wholes: dict[int, tuple[str, ...]] = {}
        for node in graph.nodes if strategies else ():
            whole, names = node.operator.step_of, _saved_names(node)
            if whole is not None and names and node.notes.origin is None:
                self._wholes[id(whole)] = names

    def of(self, node: Node) -> Strategy | None:
        """Return the strategy of a node; a step of an operator has the first entries of that operator's."""
        if not self._strategies:
            return node.operator.strategy
        names = _saved_names(node)
        if not names and node.operator.step_of is not None:
            names = self._wholes.get(id(node.operator.step_of), ())
        found = self._strategies.get(node.name)
        if found is not None:
            return found
        found = next((self._strategies[name] for name in names if name in self._strategies), None)
        if found is None:
            return node.operator.strategy
        return found if node.operator.step_of is None else found[: len(node.inputs)]

    @property
    def fit(self) -> bool:
        """Whether they are of this graph: it has an operator on a parameter that is named, or all that is named.

        Places alone tell little: many networks have a ``network/relu/ReLU``.
        """
        nodes = [node for node in self._graph.nodes if node.notes.origin is None]
        on_parameters = {name for node in nodes for name in _saved_names(node)}
        return not on_parameters.isdisjoint(self._strategies) or self._strategies.keys() <= {one.name for one in nodes}
