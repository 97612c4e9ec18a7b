"""Recording a network as a graph."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpiparallel.errors import TraceError
from mpiparallel.graph.graph import Graph, Node, Notes, Segment, Value

if TYPE_CHECKING:
    from mpiparallel.graph.operator import Operator

_PACKAGE = str(Path(__file__).parent.parent)

Condition = Callable[[], object]


@dataclass
class Trace:
    """A graph in the making: where in the network the tracer stands.

    ``notes`` are those of the nodes that are made now; ``differentiated`` is set once a gradient has been made: what
    comes after it follows the layouts of its inputs. ``cast_parameters`` are tensors that stand for parameters, by
    name, in another type of floats.
    """

    graph: Graph = field(default_factory=Graph)
    scopes: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    differentiated: bool = False
    cast_parameters: dict[tuple[str, Any], Any] = field(default_factory=dict)
    conditions: dict[Condition, object] = field(default_factory=dict)
    """What the program depends on beside its inputs, such as whether a cell is in training, and how that was."""
    operators: dict[Operator, tuple[object, ...]] = field(default_factory=dict)
    """The operators that were applied, as the program has them, and how they were set."""
    attributes: list[Condition] = field(default_factory=list)
    """What tells the attributes of the networks that were called."""
    _within: int = 0
    _results: dict[tuple[Any, tuple[Value, ...], tuple[Value, ...]], tuple[Any, int]] = field(default_factory=dict)
    _names: Counter[str] = field(default_factory=Counter)

    def unique_name(self, operator: str) -> str:
        """Return a name for a node here, the same in every trace of the same network."""
        base = "/".join([*self.scopes, operator])
        if self.notes.origin is not None:
            base = f"gradient/{self.notes.origin.name}/{operator}"
        self._names[base] += 1
        return base if self._names[base] == 1 else f"{base}-{self._names[base] - 1}"

    def keep_result(self, function: Any, inputs: tuple[Value, ...], result: Any) -> None:
        """Remember what a function returned on these inputs, in case its gradient is asked for."""
        self._results[function, inputs, self.notes.guards] = result, len(self.graph.nodes)

    def kept_result(self, function: Any, inputs: tuple[Value, ...]) -> Any:
        """Return what a function returned on these inputs; None when it is not known, or parameters changed since."""
        result, made = self._results.get((function, inputs, self.notes.guards), (None, 0))
        return None if any(node.operator.updates for node in self.graph.nodes[made:]) else result

    def forget_casts(self, names: Collection[str]) -> None:
        """Cast parameters of these names anew where they are used next: they have been overwritten."""
        if names:
            known = self.cast_parameters.items()
            self.cast_parameters = {key: cast for key, cast in known if key[0] not in names}

    @contextmanager
    def depending_on(self, condition: Condition, attributes: Condition) -> Iterator[None]:
        """Note how a condition is now, and what tells attributes; one within another is part of the outer."""
        if not self._within:
            self.conditions.setdefault(condition, condition())
            self.attributes.append(attributes)
        self._within += 1
        try:
            yield
        finally:
            self._within -= 1

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Stand inside the cell ``name``."""
        self.scopes.append(name)
        try:
            yield
        finally:
            self.scopes.pop()

    @contextmanager
    def guarded_by(self, flag: Value) -> Iterator[None]:
        """Make nodes that run only while a 0-d parameter is other than 0."""
        with self._noting(guards=(*self.notes.guards, flag)):
            yield

    @contextmanager
    def recomputed(self, segment: Segment) -> Iterator[None]:
        """Make nodes of a segment that is recomputed for its gradient; one inside another is part of the outer."""
        with self._noting(segment=self.notes.segment or segment):
            yield

    @contextmanager
    def making(self, origin: Node | None = None, like: Value | None = None) -> Iterator[None]:
        """Make nodes of the gradient of ``origin``, or nodes laid out like a value."""
        with self._noting(origin=origin, like=like, segment=None):
            yield

    @contextmanager
    def _noting(self, **changes: Any) -> Iterator[None]:
        before = self.notes
        self.notes = replace(before, **changes)
        try:
            yield
        finally:
            self.notes = before


_ACTIVE: ContextVar[Trace | None] = ContextVar("active_trace", default=None)


def active_trace() -> Trace | None:
    """Return the trace that operators are recorded in now, if any."""
    return _ACTIVE.get()


@contextmanager
def recording(trace: Trace | None) -> Iterator[None]:
    """Record operators in ``trace``; compute them at once when it is None."""
    token = _ACTIVE.set(trace)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def user_line() -> str:
    """Return ``file:line`` of the innermost caller outside the package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refuse_data_dependence(use: str) -> TraceError:
    """Return the error for a traced network that looks at the values of a tensor."""
    return TraceError(
        f"{user_line()}: construct {use} of a tensor while the network is traced, but a graph holds no data yet; "
        "choose with ops.select or a mask, use shapes (known while tracing), or set_context(mode=PYNATIVE_MODE)"
    )
