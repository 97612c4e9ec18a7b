"""The memory of a rank by kind: what it holds between steps, and what fills its arena when that is fullest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from mpiparallel.compile.localise import GRADIENT_OF
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.buffer_plan import BufferPlan, plan_buffers
from mpiparallel.graph.graph import Graph, Value
from mpiparallel.search.cost.prices import bytes_held
from mpiparallel.search.cost.scratch import kernel_memory
from mpiparallel.search.forecast.communication_buffers import communication_buffers, summing_buffers
from mpiparallel.search.forecast.move import Owners

_ACTIVATIONS: Final = "activations"
_GRADIENTS: Final = "gradients"
_BUFFERS: Final = "communication buffers"
_WORKING: Final = "working memory"
_SCRATCH: Final = "scratch"
_LIBRARIES: Final = "libraries"
_STATES: Final = "optimizer states"
_OF_ARENA: Final = (_GRADIENTS, _ACTIVATIONS, _BUFFERS, _WORKING)
KINDS: Final = ("weights", _STATES, "inputs", *_OF_ARENA, _SCRATCH, "gaps", _LIBRARIES)
"""Kinds of memory. Working memory is what gradients and updates need for a while, scratch what kernels keep for when
they run, gaps what the plan leaves unused. Libraries are those that compile and run kernels, where their size is known,
with what they keep of each.
"""
_LOOP: Final = 70_000
"""Bytes that LLVM keeps of a loop that it has loaded: measured on ten loops, each of one to eleven terms."""
_NODE: Final = 10_000
"""Bytes of the Python objects of a node that is bound: measured on small networks of 462 and 912 nodes."""


@dataclass(frozen=True)
class MemoryForecast:
    """Bytes of a rank by ``KINDS``; those of the arena are as at the node ``fullest_at``, where it is fullest."""

    kinds: Mapping[str, int]
    arena: int
    fullest_at: str

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.kinds.values())


def memory_of(sharded: ShardedGraph, local: Graph, libraries: float = 0.0) -> MemoryForecast:
    """Return the memory of the first rank, which runs the graph ``local``.

    ``libraries`` are the bytes of what compiles and runs its kernels, before there are any; 0 where that is not known.
    """
    kinds = {**dict.fromkeys(KINDS, 0), **_kept(sharded)}
    arrays = {value: value.constant for node in local.nodes for value in node.inputs}
    constants = sum(array.nbytes for array in arrays.values() if array is not None)
    kinds["inputs"] = sum(value.spec.byte_count for value in local.inputs) + constants
    plan = plan_buffers(local)
    fullest, filled = _fullest(local, plan, sharded)
    for kind, count in filled.items():
        kinds[kind] += count
    kernels = kernel_memory(local)
    kinds[_SCRATCH] = kernels.scratch
    if libraries:
        kinds[_LIBRARIES] = int(libraries) + kernels.loops * _LOOP + len(local.nodes) * _NODE
    kinds["gaps"] = plan.byte_count - sum(filled.values())
    kinds[_BUFFERS] += communication_buffers(local.nodes, sharded.devices.first_rank) + summing_buffers(local.nodes)
    return MemoryForecast(kinds, plan.byte_count, fullest)


def _kept(sharded: ShardedGraph) -> dict[str, int]:
    """Return what is there between steps: all that is trained, and what is not."""
    found = {"weights": 0, _STATES: 0}
    for name, value in sharded.graph.parameters.items():
        trained = value.parameter is not None and value.parameter.requires_grad
        held = bytes_held(sharded.stored[name], value.spec.dtype.itemsize)
        found["weights" if trained else _STATES] += held
    return found


def _fullest(local: Graph, plan: BufferPlan, sharded: ShardedGraph) -> tuple[str, dict[str, int]]:
    """Return the node at which most of the arena is in use, and the bytes of each kind then."""
    storages: dict[tuple[int, tuple[int, int]], list[Value]] = {}
    for value, offset in plan.offsets.items():
        storages.setdefault((offset, plan.lives[value]), []).append(value)
    if not storages:
        return "", {}
    owners, gradients = Owners(sharded), {value.name for value in sharded.graph.gradients}
    changes = {kind: np.zeros(len(local.nodes) + 2, np.int64) for kind in _OF_ARENA}
    for (_, (born, dies)), values in storages.items():
        size = max(value.spec.byte_count for value in values)
        change = changes[_kind(values[0], owners, gradients)]
        change[born] += size
        change[dies + 1] -= size
    held = {kind: change.cumsum() for kind, change in changes.items()}
    step = int(np.sum(list(held.values()), axis=0).argmax())
    return local.nodes[min(step, len(local.nodes) - 1)].name, {kind: int(sizes[step]) for kind, sizes in held.items()}


def _kind(value: Value, owners: Owners, gradients: Collection[str]) -> str:
    """Return the kind of a local value, which has the name of that of the whole graph or of what moves it."""
    if value.name.startswith(GRADIENT_OF) or value.name in gradients:
        return _GRADIENTS
    name = value.name.rpartition(":")[0]
    if not owners.knows(name):
        # What the network computes stays that in another layout.
        made = name.rpartition("/")[0].rpartition(":")[0]
        return _ACTIVATIONS if owners.is_forward(made) else _BUFFERS
    return _ACTIVATIONS if owners.is_forward(name) else _WORKING
