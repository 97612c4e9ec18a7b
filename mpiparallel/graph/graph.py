"""The traced program: values, nodes and the graph that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any
from weakref import ref

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import TraceError
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.parameter import Parameter
from mpiparallel.pipeline.action import Action


class Value:
    """A tensor of the program: an input, a parameter, a constant, or output number ``index`` of ``node``.

    It does not keep its node, which has it among its outputs. So a graph that nobody has any more is freed at once, and
    the parameters that it reads. Whoever asks for the node holds a graph that has it.
    """

    def __init__(
        self,
        spec: TensorSpec,
        name: str,
        node: Node | None = None,
        index: int = 0,
        parameter: Parameter | None = None,
        constant: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self.spec = spec
        self.name = name
        self.index = index
        self.parameter = parameter
        self.constant = constant
        self.node = node

    @property
    def node(self) -> Node | None:
        """What computes it, if anything does."""
        if self._node is None:
            return None
        node = self._node()
        if node is None:
            raise TraceError(f"the graph that computed {self} is gone")
        return node

    @node.setter
    def node(self, node: Node | None) -> None:
        self._node = None if node is None else ref(node)

    def __repr__(self) -> str:
        return f"{self.name}{list(self.spec.shape)}:{self.spec.dtype}"


@dataclass(frozen=True)
class Notes:
    """What is known of a node beside what it computes; where a node is made of another, they are copied as a whole.

    ``origin`` is the node whose gradient it helps to compute. All its inputs take the layout of the value ``like``.
    ``follows`` says that it takes the layouts of its inputs where it has no strategy. It runs only while all of its
    ``guards``, 0-d parameters, are other than 0; they are read in order, just before it. What the nodes of one
    ``segment`` compute is not kept for the gradient, but computed once more. ``stage`` is the stage of a pipeline into
    which the user has put its cell. ``micro_batch`` is the number of the piece of the batch that it works on. Nodes of
    a rank's own graph have an ``action``: what the stage does by them.
    """

    origin: Node | None = None
    like: Value | None = None
    follows: bool = False
    guards: tuple[Value, ...] = ()
    segment: Segment | None = None
    stage: int | None = None
    micro_batch: int | None = None
    action: Action | None = None


@dataclass(eq=False)
class Node:
    """One application of an operator; its ``name`` is the same in every trace of the same network.

    ``members`` are the nodes that it stands for, where it is made of several.
    """

    operator: Operator
    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...] = ()
    notes: Notes = Notes()
    members: tuple[Node, ...] = ()

    @property
    def is_forward(self) -> bool:
        """Whether it is of the network itself: no part of a gradient, and no update."""
        return self.notes.origin is None and self.notes.like is None and not self.operator.updates

    @cached_property
    def equation(self) -> Equation:
        """Which dims of its inputs and outputs are cut together."""
        return self.operator.equation(*(value.spec for value in self.inputs))

    def __repr__(self) -> str:
        return f"{list(self.outputs)} = {self.name}({', '.join(value.name for value in self.inputs)})"


@dataclass(eq=False)
class Graph:
    """Nodes in an order in which they can run.

    ``cotangents[node]`` are the gradients of the outputs of ``node``, from which its own gradient is made.
    ``gradients[value]`` is the parameter of which ``value`` is the finished gradient. ``actions`` are those of a stage
    of a pipeline to which its nodes belong. ``channels_last`` are images (n, channels, height, width) whose channels
    are last in memory.
    """

    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    parameters: dict[str, Value] = field(default_factory=dict)
    cotangents: dict[Node, tuple[Value | None, ...]] = field(default_factory=dict)
    gradients: dict[Value, Value] = field(default_factory=dict)
    actions: Mapping[Node, Action] = field(default_factory=dict)
    channels_last: frozenset[Value] = frozenset()

    def add_input(self, name: str, spec: TensorSpec) -> Value:
        """Add a value that is given anew at each run."""
        value = Value(spec, name)
        self.inputs.append(value)
        return value

    def add_parameter(self, parameter: Parameter, spec: TensorSpec) -> Value:
        """Return the value of a parameter, added when it is new."""
        found = self.parameters.get(parameter.name)
        if found is None:
            found = self.parameters[parameter.name] = Value(spec, parameter.name, parameter=parameter)
        if found.parameter is not parameter:
            raise TraceError(f"two parameters are named {parameter.name!r}; give each its own name")
        return found

    def add_constant(self, array: np.ndarray[Any, Any]) -> Value:
        """Return a value that is ``array`` in every run."""
        return Value(TensorSpec(array.shape, array.dtype), "constant", constant=array)

    def add_node(
        self,
        operator: Operator,
        name: str,
        inputs: Sequence[Value],
        specs: Iterable[TensorSpec],
        notes: Notes | None = None,
    ) -> Node:
        """Append a node with outputs of these specs."""
        node = Node(operator, name, tuple(inputs), (), notes or Notes())
        node.outputs = tuple(Value(spec, f"{name}:{index}", node, index) for index, spec in enumerate(specs))
        self.nodes.append(node)
        return node

    def remove_dead_nodes(self) -> None:
        """Drop the nodes that no output needs, no update of a parameter, and nothing that is only done."""
        needed = set(self.outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if node.operator.updates or not node.outputs or not needed.isdisjoint(node.outputs):
                needed.update(node.inputs)
                kept.append(node)
        self.nodes = kept[::-1]

    def __str__(self) -> str:
        return "\n".join([f"inputs {self.inputs}", *map(repr, self.nodes), f"outputs {self.outputs}"])
