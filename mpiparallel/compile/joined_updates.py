"""Updates of many small parameters by one rule, run as one: each alone costs more in calls than in arithmetic."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import accumulate, repeat
from operator import setitem

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.cuda.many_arrays import many_arrays_kernel
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.loop_kernel import is_worth_a_loop
from mpiparallel.graph.expression.term import operand, widened
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import OperatorSettings

_FULL = 1 << 16
"""Elements with which updates run, though more might join them: what they are copied to is to stay in cache."""
_SETTINGS = frozenset((*vars(OperatorSettings), "scope", "step_of"))
"""What tells operators apart that compute the same."""


class JoinedUpdates(Operator):
    """Updates of several parameters by one rule and the same scalars.

    Its inputs are those of the updates: for each input of the rule that of every update, but of a scalar one for all.
    They are copied side by side, updated there, and copied back.
    """

    def __init__(self, rule: Operator, counts: Sequence[int]) -> None:
        self._rule = rule
        ends = [*accumulate(counts)]
        self._places = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
        updated = [self._places[position] for position in rule.updates]
        self.updates = tuple(index for place in updated for index in range(place.start, place.stop))  # type: ignore[misc]

    @property
    def name(self) -> str:
        """The name of the rule, by which a profile counts it."""
        return self._rule.name

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        columns = [inputs[place] for place in self._places]
        launch = self._launch(runtime, columns)
        if launch is not None:
            return launch
        packs = [
            _Pack(runtime, inputs[place], position) if inputs[place.start].ndim else inputs[place.start]
            for position, place in enumerate(self._places)
        ]
        arrays = [one.array if isinstance(one, _Pack) else one for one in packs]
        operands = (operand(position, one.shape, one.dtype) for position, one in enumerate(arrays))
        terms = self._rule.expression(*map(widened, operands)) or ()
        targets = [arrays[position] for position in self._rule.updates]
        roots = [term.astype(target.dtype) for term, target in zip(terms, targets, strict=True)]
        # As each alone is computed, to the bit.
        update = expression_kernel(runtime, roots, arrays, targets, compiles=False)
        collected = [one for one in packs if isinstance(one, _Pack)]
        returned = [packs[position] for position in self._rule.updates]

        def run() -> None:
            for pack in collected:
                pack.collect()
            update()
            for pack in returned:
                pack.hand_back()

        return run

    def _launch(self, runtime: Runtime, columns: Sequence[Sequence[Array]]) -> Kernel | None:
        """Return one launch for all where the device compiles it: nothing is copied there."""
        shown = [
            operand(place, (2,) if column[0].ndim else (), column[0].dtype) for place, column in enumerate(columns)
        ]
        terms = self._rule.expression(*map(widened, shown)) or ()
        updated = self._rule.updates
        roots = [term.astype(columns[place][0].dtype) for term, place in zip(terms, updated, strict=True)]
        return many_arrays_kernel(runtime, roots, columns, updated)


class _Pack:
    """Arrays, and memory in which their elements are side by side while a kernel runs."""

    def __init__(self, runtime: Runtime, arrays: Sequence[Array], position: int) -> None:
        sizes = [one.size for one in arrays]
        # The slots from 0 on are those of the kernel that computes with the packs.
        self.array = runtime.scratch((sum(sizes),), arrays[0].dtype, -1 - position)
        self._arrays = arrays
        ends = accumulate(sizes)
        self._parts = [
            self.array[end - one.size : end].reshape(one.shape) for one, end in zip(arrays, ends, strict=True)
        ]
        is_flat = all(one.flags.c_contiguous for one in arrays)
        self._flat = [one.reshape(-1) for one in arrays] if is_flat else None
        self._concatenate = runtime.array_module.concatenate

    def collect(self) -> None:
        """Copy the arrays side by side."""
        if self._flat is None:
            _copy(self._arrays, self._parts)
        else:
            self._concatenate(self._flat, out=self.array)

    def hand_back(self) -> None:
        """Copy what is side by side back to the arrays."""
        _copy(self._parts, self._arrays)


def _copy(sources: Iterable[Array], targets: Iterable[Array]) -> None:
    # Without a statement for each: these are thousands.
    deque(map(setitem, targets, repeat(...), sources), maxlen=0)


@dataclass
class _UpdateGroup:
    """Updates that wait to run as one."""

    nodes: list[Node] = field(default_factory=list)
    elements: int = 0


def join_updates(graph: Graph, of_any_size: bool = False) -> None:
    """Let updates of small parameters by one rule, with the same scalars and guards, run as one.

    On a device that computes them where they are, those ``of_any_size`` do.

    They wait for each other until somebody reads what they update, or overwrites what they read. All other nodes keep
    their order, so all ranks' collectives do.
    """
    _Joining(graph, of_any_size).run()


class _Joining:
    def __init__(self, graph: Graph, of_any_size: bool) -> None:
        self._graph = graph
        self._of_any_size = of_any_size
        self._nodes: list[Node] = []
        self._waiting: dict[object, _UpdateGroup] = {}
        self._readers: dict[Value, dict[object, None]] = {}
        self._updaters: dict[Value, object] = {}

    def run(self) -> None:
        for node in self._graph.nodes:
            self._run_those_before(node)
            key = _what_it_shares(node) if self._of_any_size or _is_small(node) else None
            if key is None:
                self._nodes.append(node)
            else:
                self._wait(node, key)
        for key in list(self._waiting):
            self._run_group(key)
        self._graph.nodes = self._nodes

    def _run_those_before(self, node: Node) -> None:
        """Run the groups that update what a node reads, or read what it updates."""
        for value in (*node.inputs, *node.notes.guards):
            if value in self._updaters:
                self._run_group(self._updaters[value])
        for index in node.operator.updates:
            for key in list(self._readers.get(node.inputs[index], ())):
                self._run_group(key)

    def _wait(self, node: Node, key: object) -> None:
        elements = node.inputs[0].spec.size
        is_full = key in self._waiting and self._waiting[key].elements + elements > _FULL
        if is_full and not self._of_any_size:
            self._run_group(key)
        group = self._waiting.setdefault(key, _UpdateGroup())
        group.nodes.append(node)
        group.elements += elements
        for value in (*node.inputs, *node.notes.guards):
            self._readers.setdefault(value, {})[key] = None
        self._updaters.update((node.inputs[index], key) for index in node.operator.updates)

    def _run_group(self, key: object) -> None:
        group = self._waiting.pop(key)
        for node in group.nodes:
            for value in (*node.inputs, *node.notes.guards):
                self._readers[value].pop(key, None)
            for index in node.operator.updates:
                self._updaters.pop(node.inputs[index])
        self._nodes.append(_joined(group.nodes))


def _is_small(node: Node) -> bool:
    """Return whether a node costs more in calls than in arithmetic."""
    return not node.operator.joins or not is_worth_a_loop(node.inputs[0].spec.size)


def _what_it_shares(node: Node) -> object | None:
    """Return what updates that run as one have in common; None for a node that is run alone."""
    operator = node.operator
    if not operator.joins or not node.inputs[0].spec.size or not node.inputs[0].spec.shape:
        return None
    kinds = tuple(value.spec.dtype if value.spec.shape else _scalar(value) for value in node.inputs)
    return _settings(operator), kinds, node.notes.guards


def _settings(operator: Operator) -> object:
    """Return the kind of an operator and how it is configured, by other operators too."""
    shown = ((name, value) for name, value in sorted(vars(operator).items()) if name not in _SETTINGS)
    return type(operator), tuple(
        (name, _settings(value) if isinstance(value, Operator) else value) for name, value in shown
    )


def _scalar(value: Value) -> object:
    """Return what tells a scalar from others: equal constants are one."""
    return value if value.constant is None else (value.spec.dtype, value.constant.tobytes())


def _joined(nodes: Sequence[Node]) -> Node:
    """Return the node that stands for updates that share all but their arrays."""
    first = nodes[0]
    if len(nodes) == 1:
        return first
    columns: list[tuple[Value, ...]] = [
        column if column[0].spec.shape else column[:1] for column in zip(*(node.inputs for node in nodes), strict=True)
    ]
    operator = JoinedUpdates(first.operator, [len(column) for column in columns])
    operator.scope = first.operator.scope
    name = f"{first.name} and {len(nodes) - 1} more"
    inputs = tuple(value for column in columns for value in column)
    return Node(operator, name, inputs, notes=first.notes, members=tuple(nodes))
