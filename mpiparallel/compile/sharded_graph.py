"""A graph with a layout for every value: the same on all ranks, made without data, MPI or devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Strategy
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.operator_placement import OperatorPlacement


@dataclass(frozen=True)
class ShardedGraph:
    """A graph with its layouts over any ranks, those of ``devices``.

    ``placements`` has the layouts in which each node takes its inputs and computes its outputs. ``layouts`` has the
    layout of each value; a value that is computed in another layout is moved at once. ``used`` has the layout in which
    operators use each parameter, ``stored`` the one in which it is kept. ``strategies`` are those by which nodes were
    placed, where they had one.
    """

    graph: Graph
    devices: DeviceMatrix
    placements: dict[Node, OperatorPlacement] = field(default_factory=dict)
    layouts: dict[Value, Layout] = field(default_factory=dict)
    used: dict[str, Layout] = field(default_factory=dict)
    stored: dict[str, Layout] = field(default_factory=dict)
    output_layouts: dict[Value, Layout] = field(default_factory=dict)
    strategies: Mapping[Node, Strategy] = field(default_factory=dict)

    def output_layout(self, value: Value) -> Layout:
        """Return the layout of an output: whole on every rank, unless ``output_layouts`` has another."""
        return self.output_layouts.get(value, Layout.replicated(value.spec.shape, self.devices))
