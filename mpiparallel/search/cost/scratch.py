"""What the kernels of a rank take beside their arrays: each kind is bound once, to memory that nobody touches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import OperatorSettings

_NO_SETTINGS: Final = frozenset((*vars(OperatorSettings), "scope", "step_of"))
"""What tells operators apart that take the same memory."""
_Request = tuple[int, int]
"""A slot of scratch memory, and the bytes that a kernel wants there."""


@dataclass(frozen=True)
class KernelMemory:
    """What the kernels of a program take: bytes of ``scratch`` memory, and how many ``loops`` are compiled for them."""

    scratch: int
    loops: int


def kernel_memory(graph: Graph) -> KernelMemory:
    """Return what the kernels of a program of this graph take.

    A kernel keeps the memory that it was bound to. So if a later kernel needs more of a slot, both blocks stay.
    """
    backend = _CountingBackend()
    runtime, known, loops = Runtime(backend), dict[Hashable, list[_Request]](), set[str]()
    for node in graph.nodes:
        if node.operator.is_view or node.operator.kind == "communication":
            continue
        key = _key(node)
        requests = known.get(key)
        if requests is None:
            requests = known[key] = _requests(node, loops)
        for slot, size in requests:
            runtime.scratch((size,), np.uint8, slot)
    return KernelMemory(backend.taken, len(loops))


def nodes_with_scratch(graph: Graph) -> list[Node]:
    """Return the nodes whose kernels take scratch memory."""
    known: dict[Hashable, bool] = {}
    found = []
    for node in graph.nodes:
        if not node.operator.is_view and node.operator.kind != "communication":
            key = _key(node)
            if key not in known:
                known[key] = bool(_requests(node, set()))
            if known[key]:
                found.append(node)
    return found


@dataclass
class _CountingBackend(NumpyBackend):
    """Counts the bytes that it gives; nobody touches them, so that the system has none to find."""

    taken: int = 0

    def empty(self, byte_count: int, holder: str = "") -> np.ndarray[Any, Any]:
        self.taken += byte_count
        return np.zeros(byte_count, np.uint8)


@dataclass
class _Rehearsal(Runtime):
    """Writes down the scratch memory that kernels ask for while they are bound."""

    requests: list[_Request] = field(default_factory=list)

    def scratch(self, shape: tuple[int, ...], dtype: Any, slot: int = 0) -> Array:
        found = np.zeros(shape, dtype)
        self.requests.append((slot, found.nbytes))
        return found


def _requests(node: Node, loops: set[str]) -> list[_Request]:
    runtime = _Rehearsal(rehearsed=loops)
    inputs, outputs = (_arrays([value.spec for value in side]) for side in (node.inputs, node.outputs))
    for place, value in enumerate(node.inputs):
        if value.constant is not None:
            inputs[place] = value.constant
    node.operator.kernel(runtime, inputs, outputs)
    return runtime.requests


def _arrays(specs: Sequence[TensorSpec]) -> list[np.ndarray[Any, Any]]:
    return [np.zeros(spec.shape, spec.dtype) for spec in specs]


def _key(node: Node) -> Hashable:
    """Return what nodes have in common whose kernels take the same memory."""
    specs = tuple((value.spec.shape, value.spec.dtype) for value in (*node.inputs, *node.outputs))
    return len(node.inputs), specs, _operator_key(node.operator)


def _operator_key(operator: Operator) -> Hashable:
    settings = [(name, vars(operator)[name]) for name in sorted(vars(operator)) if name not in _NO_SETTINGS]
    return type(operator), operator.name, tuple((name, _setting_key(value)) for name, value in settings)


def _setting_key(value: object) -> Hashable:
    """Return what tells a setting from others; terms that are fused are told by their functions."""
    if isinstance(value, tuple):
        return tuple(map(_setting_key, value))
    if isinstance(value, Term):
        return value.function
    if isinstance(value, Operator):
        return _operator_key(value)
    return value if isinstance(value, Hashable) else id(value)
