"""Recording a network as a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ShapeError, TraceError
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import RECORDER, Operator
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.user_line import user_line

Condition = Callable[[], object]


@dataclass
class Trace:
    """A graph in the making: where in the network the tracer stands.

    ``notes`` are those of the nodes that are made now. ``differentiated`` is set once a gradient has been made: what
    comes after it follows the layouts of its inputs. ``cast_parameters`` are tensors that stand for parameters, by
    name, in another type of floats.
    """

    graph: Graph = field(default_factory=Graph)
    scopes: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    differentiated: bool = False
    cast_parameters: dict[str, dict[Any, Any]] = field(default_factory=dict)
    conditions: dict[Condition, object] = field(default_factory=dict)
    """What the program depends on beside its inputs, such as whether a cell is in training, and how that was."""
    operators: dict[Operator, tuple[object, ...]] = field(default_factory=dict)
    """The operators that were applied, as the program has them, and how they were set."""
    attributes: list[Condition] = field(default_factory=list)
    """What tells the attributes of the networks that were called."""
    _within: int = 0
    _results: dict[tuple[Any, tuple[Value, ...], tuple[Value, ...]], tuple[Any, int]] = field(default_factory=dict)
    _names: Counter[tuple[int | None, str]] = field(default_factory=Counter)

    def record(self, operator: Operator, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Add a node that applies ``operator``, and return tensors that stand for its outputs.

        Raises ShapeError with the user's line when the inputs do not fit, and TraceError when the operator overwrites
        one that is no parameter.
        """
        values = [self.value_of(tensor) for tensor in tensors]
        try:
            specs = operator.infer(*(value.spec for value in values))
        except ShapeError as error:
            raise ShapeError(f"{user_line()}: {'/'.join([*self.scopes, operator.name])}: {error}") from None
        if operator.updates and any(values[index].parameter is None for index in operator.updates):
            raise TraceError(f"{operator.name}: inputs {operator.updates} are overwritten and must be parameters")
        for applied in (operator, operator.step_of):
            if applied is not None:
                self.operators[applied] = applied.settings
        name = self.unique_name(operator.name)
        operator = operator.configured(scope=name)
        node = self.graph.add_node(operator, name, values, specs, self._notes_of(operator))
        self.forget_casts({values[index].name for index in operator.updates})
        return tuple(Tensor.of_value(output) for output in node.outputs)

    def _notes_of(self, operator: Operator) -> Notes:
        """Return the notes of a node that is made now; nodes of which as much is known share them."""
        notes = self.notes
        follows, segment = self.differentiated or operator.follows, notes.segment or operator.segment
        is_known = follows == notes.follows and segment is notes.segment
        return notes if is_known else replace(notes, follows=follows, segment=segment)

    def value_of(self, tensor: Tensor) -> Value:
        """Return the value that stands for ``tensor`` in the traced program."""
        if isinstance(tensor, Parameter):
            return self.graph.add_parameter(tensor, tensor.spec)
        if isinstance(tensor.value, Value):
            return tensor.value
        return self.graph.add_constant(tensor.asnumpy())

    def unique_name(self, operator: str) -> str:
        """Return a name for a node here, the same in every trace of the same network, and in all micro-batches."""
        base = "/".join([*self.scopes, operator])
        if self.notes.origin is not None:
            base = f"gradient/{self.notes.origin.name}/{operator}"
        count = self._names[self.notes.micro_batch, base] = self._names[self.notes.micro_batch, base] + 1
        return base if count == 1 else f"{base}-{count - 1}"

    def keep_result(self, function: Any, inputs: tuple[Value, ...], result: Any) -> None:
        """Remember what a function returned on these inputs, in case its gradient is asked for."""
        self._results[function, inputs, self.notes.guards] = result, len(self.graph.nodes)

    def kept_result(self, function: Any, inputs: tuple[Value, ...]) -> Any:
        """Return what a function returned on these inputs; None when it is not known, or parameters changed since."""
        result, made = self._results.get((function, inputs, self.notes.guards), (None, 0))
        return None if any(node.operator.updates for node in self.graph.nodes[made:]) else result

    def forget_casts(self, names: Collection[str]) -> None:
        """Cast parameters of these names anew where they are used next: they have been overwritten."""
        for name in names:
            self.cast_parameters.pop(name, None)

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
    def in_stage(self, stage: int) -> Iterator[None]:
        """Make nodes of a cell that is in a stage of a pipeline; of one inside another, the inner says which."""
        with self._noting(stage=stage):
            yield

    @contextmanager
    def of_micro_batch(self, number: int) -> Iterator[None]:
        """Make nodes that work on one piece of the batch."""
        with self._noting(micro_batch=number):
            yield

    @contextmanager
    def making(self, origin: Node | None = None, like: Value | None = None) -> Iterator[None]:
        """Make nodes of the gradient of ``origin``, or nodes laid out like a value; they are where these are."""
        source = like.node if like is not None else origin
        of = Notes() if source is None else source.notes
        with self._noting(origin=origin, like=like, segment=None, stage=of.stage, micro_batch=of.micro_batch):
            yield

    @contextmanager
    def _noting(self, **changes: Any) -> Iterator[None]:
        before = self.notes
        self.notes = replace(before, **changes)
        try:
            yield
        finally:
            self.notes = before


def active_trace() -> Trace | None:
    """Return the trace that operators are recorded in now, if any."""
    recorder = RECORDER.get()
    return recorder if isinstance(recorder, Trace) else None


@contextmanager
def recording(trace: Trace | None) -> Iterator[None]:
    """Record operators in ``trace``; compute them at once when it is None."""
    token = RECORDER.set(trace)
    try:
        yield
    finally:
        RECORDER.reset(token)
