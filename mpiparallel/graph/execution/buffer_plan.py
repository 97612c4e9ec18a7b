"""A static plan of memory: where in one arena each value of a program lives, and for how long."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import field
from heapq import heappop, heappush
from operator import itemgetter

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Value

_BORDER = 64
_MOST_PACKED_CLOSELY = 4096


@dataclass(frozen=True)
class BufferPlan:
    """Where each value starts in an arena of ``byte_count`` bytes; ``views`` are the nodes that copy nothing.

    Values that live at the same time do not overlap, but for an output computed in the memory of an input that dies
    there. ``lives`` are the first and the last node, by number, for which the memory of a value is kept.
    """

    offsets: dict[Value, int]
    lives: dict[Value, tuple[int, int]]
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
    within: _Storage | None = None

    @property
    def shared(self) -> _Storage:
        """The storage that stands for this one: itself, or the one in whose memory it was put."""
        found = self
        while found.within is not None:
            found = found.within
        return found


@dataclass
class _BufferPlanner:
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
            output = self.storages[node.outputs[0]].shared
            for index in node.operator.reuses:
                source = node.inputs[index]
                found = self._storage(source)
                whole = source.node is not None and source.node not in self.views
                same_kind = source.spec == node.outputs[0].spec and self._lie_alike(source, node.outputs[0])
                seen_otherwise = any(self._storage(other) is found for other in node.inputs if other is not source)
                if found is None or seen_otherwise:
                    continue
                if whole and same_kind and found.dies == step:
                    found.dies = output.dies
                    output.within = found
                    break

    def _lie_alike(self, *values: Value) -> bool:
        return len({value in self.graph.channels_last for value in values}) == 1

    def _storage(self, value: Value) -> _Storage | None:
        found = self.storages.get(value)
        return None if found is None else found.shared

    def pack(self) -> int:
        """Give each storage its place; return the arena's size.

        The largest find the lowest place that is free for their whole life. Where there are very many, which takes
        too long, the others share places with those of their size alone.
        """
        unique = {id(storage.shared): storage.shared for storage in self.storages.values()}
        ordered = sorted(unique.values(), key=lambda one: (-one.byte_count, one.born))
        end = _pack_closely(ordered[:_MOST_PACKED_CLOSELY])
        return _pack_by_size(ordered[_MOST_PACKED_CLOSELY:], end)


def _pack_closely(ordered: Sequence[_Storage]) -> int:
    """Give each storage, in order, the lowest place that is free for its whole life; return where they end."""
    # Where those begin that have a place, and where the next may begin; the first and the last node of their lives.
    placed: list[tuple[int, int, int, int]] = []
    whole_end = 0
    for storage in ordered:
        offset = 0
        first, last, byte_count = storage.born, storage.dies, storage.byte_count
        for start, end, born, dies in placed:
            if born <= last and dies >= first:
                if start - offset >= byte_count:
                    break
                if end > offset:
                    offset = end
        storage.offset = offset
        end = offset + byte_count
        whole_end = max(whole_end, end)
        insort(placed, (offset, end + -end % _BORDER, first, last), key=itemgetter(0))
    return whole_end


def _pack_by_size(storages: Sequence[_Storage], end: int) -> int:
    """Give each storage a place behind ``end`` that only those of its size have; return where they end."""
    resting: dict[int, list[int]] = {}
    living: list[tuple[int, int, int]] = []
    for storage in sorted(storages, key=lambda one: one.born):
        while living and living[0][0] < storage.born:
            _, size, offset = heappop(living)
            resting[size].append(offset)
        size = storage.byte_count + -storage.byte_count % _BORDER
        places = resting.setdefault(size, [])
        if places:
            storage.offset = places.pop()
        else:
            storage.offset = end + -end % _BORDER
            end = storage.offset + size
        heappush(living, (storage.dies, size, storage.offset))
    return end


def plan_buffers(graph: Graph) -> BufferPlan:
    """Return the memory plan of a graph's node outputs; inputs, parameters and constants have memory of their own."""
    planner = _BufferPlanner(graph, find_views(graph))
    planner.find_lifetimes()
    planner.share_dying_inputs()
    byte_count = planner.pack()
    shared = {value: storage.shared for value, storage in planner.storages.items()}
    offsets = {value: storage.offset for value, storage in shared.items()}
    lives = {value: (storage.born, storage.dies) for value, storage in shared.items()}
    return BufferPlan(offsets, lives, planner.views, byte_count)
