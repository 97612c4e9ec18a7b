"""When the collectives of a local graph run, and which of them in one message."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import field
from math import prod

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.parallel.overlap import Start, Wait
from mpiparallel.parallel.redistribution import Redistribution
from mpiparallel.parallel.redistribution_operators import redistributing_operator
from mpiparallel.pipeline.action import REDUCE

_LARGEST = 1 << 16
"""Elements above which a tensor travels alone: copying it into a common message costs more than a message saves."""
_FULL = 1 << 20
"""Elements with which a common message leaves, though more might join it."""
_STARTABLE = ("reduce", "reduce_scatter", "gather")


def schedule_collectives(
    graph: Graph, steps: Mapping[Node, Redistribution], rank: int, overlaps: bool
) -> dict[Node, tuple[Node, ...]]:
    """Let each collective run as soon as its input is there; small ones that are alike wait for each other.

    Returns the steps that each collective does, by the node that does them.

    ``steps`` says which nodes redistribute, and how. Small tensors gather in a bucket, which leaves in one message when
    it is full or one of them is needed. Collectives under guards, or of parameters, stay near where they are needed.
    With ``overlaps``, the next large parameter is fetched while the one before it is used. Collectives then end only
    where their results are needed.

    What happens when follows from layouts and the order of the nodes alone, so all ranks decide alike.
    """
    return _Scheduler(graph, steps, rank, overlaps).run()


@dataclass(eq=False)
class _Bucket:
    """Steps that travel in one message: ``node`` once it has left, ``start`` while it is under way."""

    steps: list[Node] = field(default_factory=list)
    elements: int = 0
    node: Node | None = None
    start: Start | None = None


class _Scheduler:
    def __init__(self, graph: Graph, steps: Mapping[Node, Redistribution], rank: int, overlaps: bool) -> None:
        self._graph, self._steps, self._rank, self._overlaps = graph, steps, rank, overlaps
        self._scheduled: list[Node] = []
        self._open: dict[object, _Bucket] = {}
        self._buckets: dict[Node, _Bucket] = {}
        self._waiting: dict[Node, list[Node]] = defaultdict(list)
        self._guarded: dict[tuple[Value, ...], list[tuple[Node, Node | None]]] = defaultdict(list)
        self._reading: dict[Value, list[Node]] = defaultdict(list)
        self._fetched: deque[Node] = deque()

    def run(self) -> dict[Node, tuple[Node, ...]]:
        for node in self._sort_steps():
            self._let_in(node)
        self._fetch()
        for node in self._graph.nodes:
            if self._is_step(node):
                self._reach(node)
                continue
            self._need(node.inputs)
            for index in node.operator.updates:
                for reader in self._reading.pop(node.inputs[index], []):
                    self._need(reader.outputs)
            self._scheduled.append(node)
            self._let_in_after(node)
        self._need(self._graph.outputs)
        self._graph.nodes = self._scheduled
        return {node: tuple(bucket.steps) for node, bucket in self._buckets.items() if bucket.node is node}

    def _is_step(self, node: Node) -> bool:
        return node in self._steps and self._steps[node].kind != "slice"

    def _is_startable(self, node: Node) -> bool:
        return self._overlaps and not node.notes.guards and self._steps[node].kind in _STARTABLE

    def _sort_steps(self) -> list[Node]:
        """Note what each step waits for; return those that wait for nothing: small parameters, to travel together."""
        free = []
        updated: dict[Value, Node] = {}
        for node in self._graph.nodes:
            updated.update((node.inputs[index], node) for index in node.operator.updates)
            if not self._is_step(node):
                continue
            value = node.inputs[0]
            before = value.node or updated.get(value)
            if node.notes.guards:
                self._guarded[node.notes.guards].append((node, before))
            elif before is not None:
                self._waiting[before].append(node)
            elif _is_small(self._steps[node]):
                free.append(node)
            elif self._is_startable(node):
                self._fetched.append(node)
        return free

    def _reach(self, node: Node) -> None:
        """Come to where a step stood: under guards, it and others whose inputs are there may go from here on."""
        self._reading[node.inputs[0]].append(node)
        if node.notes.guards:
            ran = set(self._scheduled)
            for step, before in self._guarded[node.notes.guards]:
                if before is None or before in ran or step is node:
                    self._let_in(step)

    def _let_in_after(self, node: Node) -> None:
        """Let in what waited for a node that has run."""
        for step in self._waiting.pop(node, []):
            self._let_in(step)

    def _let_in(self, step: Node) -> None:
        """Put a step whose input is there into a bucket; send that off when it is full."""
        if step in self._buckets:
            return
        kind = self._steps[step]
        bucket = self._open.setdefault(_key(step, kind), _Bucket()) if _is_small(kind) else _Bucket()
        bucket.steps.append(step)
        bucket.elements += _largest_part(kind)
        self._buckets[step] = bucket
        if not _is_small(kind) or bucket.elements >= _FULL:
            self._send(bucket)

    def _send(self, bucket: _Bucket) -> None:
        if bucket.node is not None:
            return
        first = bucket.steps[0]
        key = _key(first, self._steps[first])
        if self._open.get(key) is bucket:
            del self._open[key]
        for step in bucket.steps:
            self._need(step.inputs)
        bucket.node = self._joined(bucket.steps)
        self._buckets[bucket.node] = bucket
        self._scheduled.append(bucket.node)
        if self._is_startable(first):
            bucket.start = Start(bucket.node.operator)
            bucket.node.operator, bucket.node.name = bucket.start, bucket.start.name
        else:
            self._let_in_readers(bucket)

    def _let_in_readers(self, bucket: _Bucket) -> None:
        for step in bucket.steps:
            self._let_in_after(step)

    def _joined(self, steps: list[Node]) -> Node:
        """Return the node that stands for steps and has their outputs."""
        if len(steps) == 1:
            return steps[0]
        operator = redistributing_operator([self._steps[step] for step in steps], self._rank)
        operator = operator.configured(scope=f"{steps[0].operator.scope} and {len(steps) - 1} more")
        inputs = tuple(value for step in steps for value in step.inputs)
        outputs = tuple(value for step in steps for value in step.outputs)
        # Gradients among others make it the sum of gradients of a stage.
        of = next((step for step in steps if step.notes.action == REDUCE), steps[0])
        joined = Node(operator, steps[0].name, inputs, outputs, of.notes)
        for index, value in enumerate(outputs):
            value.node, value.index = joined, index
        return joined

    def _need(self, values: Iterable[Value]) -> None:
        """See to it that values are there."""
        for value in values:
            node = value.node
            if node is None or not (node in self._buckets or self._is_step(node)):
                continue
            if node not in self._buckets:
                self._need(node.inputs)
                self._let_in(node)
            self._send(self._buckets[node])
            self._end(self._buckets[node])

    def _end(self, bucket: _Bucket) -> None:
        """End what was started, unless that is done; then fetch the next parameter."""
        start, node = bucket.start, bucket.node
        if start is None or node is None:
            return
        bucket.start = None
        if node is self._scheduled[-1]:
            node.operator, node.name = start.operator, start.operator.name
        else:
            end = Wait(start)
            self._scheduled.append(Node(end, end.name, (*node.inputs, *node.outputs)))
        self._let_in_readers(bucket)
        if bucket.steps[0] in self._fetched:
            self._fetched.remove(bucket.steps[0])
            self._fetch()

    def _fetch(self) -> None:
        """Start to fetch the next large parameter."""
        if self._fetched:
            self._let_in(self._fetched[0])


def _largest_part(step: Redistribution) -> int:
    return max(prod(layout.local_shape(layout.devices.first_rank)) for layout in (step.source, step.target))


def _is_small(step: Redistribution) -> bool:
    return _largest_part(step) <= _LARGEST


def _key(node: Node, step: Redistribution) -> object:
    """Return what collectives that travel together have in common: also when they run at all."""
    dtype, guards = node.inputs[0].spec.dtype, node.notes.guards
    return step.kind, step.source.reduction, step.source.devices, step.axes, dtype, guards
