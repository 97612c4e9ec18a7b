"""What each layer of a network takes for one micro-batch on the ranks of a stage: seconds, and bytes of a rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import numpy as np

from mpiparallel.compile.recomputation import RECOMPUTED
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Value
from mpiparallel.search.cost.memory import kept_for_gradient, live_nodes
from mpiparallel.search.cost.prices import Prices, bytes_held
from mpiparallel.search.cost.timed_nodes import TimedNode, timed_nodes
from mpiparallel.search.forecast.move import Owners

Array = np.ndarray[Any, Any]

_ONCE: Final = ("gradients", "update", "weights and inputs")
"""Phases of moves that a step has once, however many micro-batches there are."""


class LayerNumbers:
    """To which layer of a network the operators of its training belong, by their names; -1 for those in none."""

    def __init__(self, count: int, graph: Graph | None = None) -> None:
        """``graph`` is one in which each of the layers is a stage of its own: names are the same in all graphs."""
        self.count = count
        nodes = () if graph is None else graph.nodes
        self._numbers = {node.name: node.notes.stage for node in nodes if node.notes.stage is not None}

    def of(self, name: str) -> int:
        """Return the layer of an operator of this name."""
        return self._numbers.get(name.removeprefix(RECOMPUTED), -1)


@dataclass(frozen=True)
class LayerProfile:
    """Seconds and bytes of a rank for each layer, and last for what is in no layer.

    Seconds are those of one micro-batch, ``forward`` and ``backward``, and of what is done once a ``step``. Bytes are
    those ``kept`` for the gradient of a micro-batch, and of these the ``bordering`` ones that other layers read. There
    are also those ``held`` of parameters and states, and those ``trained``, of weights alone.
    """

    forward: Array
    backward: Array
    step: Array
    kept: Array
    bordering: Array
    held: Array
    trained: Array

    def between(self, other: LayerProfile, part: float) -> LayerProfile:
        """Return what lies so far on the way to another."""
        return self._each(other, lambda one, two: one + part * (two - one))

    def changed(self, before: LayerProfile, after: LayerProfile) -> LayerProfile:
        """Return this with what another has changed."""
        change = before._each(after, lambda one, two: two - one)
        return self._each(change, lambda one, two: np.maximum(one + two, 0.0))

    def _each(self, other: LayerProfile, function: Any) -> LayerProfile:
        names = [field.name for field in fields(LayerProfile)]
        return LayerProfile(**{name: function(getattr(self, name), getattr(other, name)) for name in names})


def profiled(sharded: ShardedGraph, prices: Prices, layers: LayerNumbers) -> LayerProfile:
    """Return the profile of a training step on one micro-batch, as it is laid out."""
    found = {field.name: np.zeros(layers.count + 1) for field in fields(LayerProfile)}
    homes = _homes(sharded.graph, layers)
    owners = _Phases(sharded, layers, homes)
    for one in timed_nodes(sharded, prices):
        phase, layer = owners.of(one)
        found[phase][layer] += one.seconds
    readers: dict[Value, set[int]] = {}
    for node in sharded.graph.nodes:
        for value in node.inputs:
            if node.is_forward:
                readers.setdefault(value, set()).add(layers.of(node.name))
    for value in kept_for_gradient(live_nodes(sharded.graph)):
        layer = layers.of("" if value.node is None else value.node.name)
        size = bytes_held(sharded.layouts[value], value.spec.dtype.itemsize)
        found["kept"][layer] += size
        found["bordering"][layer] += size if readers.get(value, set()) - {layer} else 0
    for name, value in sharded.graph.parameters.items():
        size, layer = bytes_held(sharded.stored[name], value.spec.dtype.itemsize), homes.get(name, -1)
        found["held"][layer] += size
        if value.parameter is not None and value.parameter.requires_grad:
            found["trained"][layer] += size
    return LayerProfile(**found)


def _homes(graph: Graph, layers: LayerNumbers) -> dict[str, int]:
    """Return the layer of each parameter, where it is first read; of a state that of its weight."""
    found: dict[str, int] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value.parameter is not None and node.is_forward and not node.operator.updates:
                found.setdefault(value.name, layers.of(node.name))
    for node in graph.nodes:
        updated = [node.inputs[index] for index in node.operator.updates]
        home = next((found[value.name] for value in updated if value.name in found), -1)
        for value in updated:
            found.setdefault(value.name, home)
    return found


class _Phases:
    """In which phase of a step a node of a rank is, of each micro-batch forward or backward or once, and its layer."""

    def __init__(self, sharded: ShardedGraph, layers: LayerNumbers, homes: Mapping[str, int]) -> None:
        nodes = sharded.graph.nodes
        last = max((place for place, node in enumerate(nodes) if node.notes.origin is not None), default=len(nodes))
        self._phases = {
            node.name: "step" if place > last else "forward" if node.is_forward else "backward"
            for place, node in enumerate(nodes)
        }
        self._owners, self._layers, self._homes = Owners(sharded), layers, homes

    def of(self, one: TimedNode) -> tuple[str, int]:
        """Return both."""
        known = self._phases.get(one.node.name)
        if known is not None:
            updated = [one.node.inputs[index].name for index in one.node.operator.updates]
            home = next((self._homes[name] for name in updated if name in self._homes), None)
            return known, self._layers.of(self._owners.of_node(one.node)) if home is None else home
        operator, _, phase = self._owners.of_value(one.node.operator.scope.rpartition("/")[0])
        told = "step" if phase in _ONCE else "backward" if phase == "backward" else "forward"
        return told, self._layers.of(operator)
