"""A static plan of memory: where in one arena each value of a program lives, and for how long."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from mpiparallel.graph.graph import Graph, Node, Value

_BORDER = 64


@dataclass(frozen=True)
class BufferPlan:
    """Where each value starts in an arena of ``byte_count`` bytes; ``views`` are the nodes that copy nothing.

    Values that live at the same time do not overlap, but for an output computed in the memory of an input that dies
    there.
    """

    offsets: dict[Value, int]
    views: frozenset[Node]
    byte_count: int


def find_views(graph: Graph) -> frozenset[Node]:
    """Return the nodes whose output can show the memory of their input; some views need it in C order.

    What shows a parameter, and is read after that has been overwritten, is a copy instead.
    """
    views: set[Node] = set()
    strided: set[Value] = set()
    shown: dict[Value, Value] = {}
    last_read, overwritten = _last_reads(graph), _overwritings(graph)
    for step, node in enumerate(graph.nodes):
        operator = node.operator
        if not operator.is_view or (operator.needs_order and node.inputs[0] in strided):
            continue
        source, output = node.inputs[0], node.outputs[0]
        base = shown.get(source, source)
        if any(step < later <= last_read.get(output, step) for later in overwritten.get(base, ())):
            continue
        views.add(node)
        shown[output] = base
        if not operator.needs_order:
            strided.add(output)
    return frozenset(views)


def _last_reads(graph: Graph) -> dict[Value, int]:
    """Return the last step that reads a value or a view of it."""
    last = dict.fromkeys(graph.outputs, len(graph.nodes))
    for step, node in reversed([*enumerate(graph.nodes)]):
        until = max((last.get(output, step) for output in node.outputs), default=step)
        for value in node.inputs:
            last[value] = max(last.get(value, step), until if node.operator.is_view else step)
    return last


def _overwritings(graph: Graph) -> dict[Value, list[int]]:
    """Return the steps that overwrite a value."""
    found: dict[Value, list[int]] = {}
    for step, node in enumerate(graph.nodes):
        for index in node.operator.updates:
            found.setdefault(node.inputs[index], []).append(step)
    return found


@dataclass
class _Storage:
    """Memory that a value and its views share: from the node that makes it to the last that reads it."""

    byte_count: int
    born: int
    dies: int
    offset: int = -1


@dataclass
class _Planner:
    graph: Graph
    views: frozenset[Node]
    storages: dict[Value, _Storage] = field(default_factory=dict)

    def find_lifetimes(self) -> None:
        for step, node in enumerate(self.graph.nodes):
            for value in node.inputs:
                if value in self.storages:
                    self.storages[value].dies = step
            for value in node.outputs:
                self._make(value, node, step)
        for value in self.graph.outputs:
            if value in self.storages:
                self.storages[value].dies = len(self.graph.nodes)

    def _make(self, value: Value, node: Node, step: int) -> None:
        if node in self.views:
            if node.inputs[0] in self.storages:
                self.storages[value] = self.storages[node.inputs[0]]
                self.storages[value].dies = step
            return
        self.storages[value] = _Storage(value.spec.byte_count, step, step)

    def share_dying_inputs(self) -> None:
        for step, node in enumerate(self.graph.nodes):
            if not node.operator.reuses or node in self.views:
                continue
            output = self.storages[node.outputs[0]]
            for index in node.operator.reuses:
                source = node.inputs[index]
                found = self.storages.get(source)
                whole = source.node is not None and source.node not in self.views
                same_kind = source.spec == node.outputs[0].spec
                seen_otherwise = any(self.storages.get(other) is found for other in node.inputs if other is not source)
                if found is None or found is output or seen_otherwise:
                    continue
                if whole and same_kind and found.dies == step:
                    found.dies = output.dies
                    self._replace(output, found)
                    break

    def _replace(self, old: _Storage, new: _Storage) -> None:
        for value, storage in self.storages.items():
            if storage is old:
                self.storages[value] = new

    def pack(self) -> int:
        """Give each storage the lowest place free for its whole life, largest first; return the arena's size."""
        unique = {id(storage): storage for storage in self.storages.values()}
        placed: list[_Storage] = []
        for storage in sorted(unique.values(), key=lambda one: (-one.byte_count, one.born)):
            offset = 0
            for other in placed:
                if other.born > storage.dies or other.dies < storage.born:
                    continue
                if other.offset >= offset + storage.byte_count:
                    break
                offset = max(offset, other.offset + other.byte_count)
                offset += -offset % _BORDER
            storage.offset = offset
            insort(placed, storage, key=lambda one: one.offset)
        return max((one.offset + one.byte_count for one in placed), default=0)


def plan_buffers(graph: Graph) -> BufferPlan:
    """Return the memory plan of a graph's node outputs; inputs, parameters and constants have memory of their own."""
    planner = _Planner(graph, find_views(graph))
    planner.find_lifetimes()
    planner.share_dying_inputs()
    byte_count = planner.pack()
    offsets = {value: storage.offset for value, storage in planner.storages.items()}
    return BufferPlan(offsets, planner.views, byte_count)
