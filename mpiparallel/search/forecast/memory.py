"""The memory of a rank by kind: what it holds between steps, and what fills its arena when that is fullest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from mpiparallel.compile.localise import GRADIENT_OF
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.execution.buffer_plan import BufferPlan, plan_buffers
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.parallel.overlap import Start
from mpiparallel.parallel.redistribution_operators import FusedAllReduce, FusedRedistribution
from mpiparallel.search.cost.prices import bytes_held
from mpiparallel.search.forecast.move import Owners

_ACTIVATIONS: Final = "activations"
_GRADIENTS: Final = "gradients"
_BUFFERS: Final = "communication buffers"
_WORKING: Final = "working memory"
KINDS: Final = ("weights", "optimizer states", "inputs", _GRADIENTS, _ACTIVATIONS, _BUFFERS, _WORKING, "gaps")
"""Kinds of memory. Working memory is what gradients and updates need for a while, gaps what the plan leaves unused."""


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


def memory_of(sharded: ShardedGraph, overlaps: bool) -> MemoryForecast:
    """Return the memory of the first rank; ``overlaps`` says that collectives are started early."""
    local = local_graph(sharded, sharded.devices.first_rank, overlaps)
    kinds = {**dict.fromkeys(KINDS, 0), **_kept(sharded)}
    arrays = {value: value.constant for node in local.nodes for value in node.inputs}
    constants = sum(array.nbytes for array in arrays.values() if array is not None)
    kinds["inputs"] = sum(value.spec.byte_count for value in local.inputs) + constants
    plan = plan_buffers(local)
    fullest, filled = _fullest(local, plan, sharded)
    for kind, count in filled.items():
        kinds[kind] += count
    kinds["gaps"] = plan.byte_count - sum(filled.values())
    kinds[_BUFFERS] += sum(map(_staging_bytes, local.nodes))
    return MemoryForecast(kinds, plan.byte_count, fullest)


def _kept(sharded: ShardedGraph) -> dict[str, int]:
    """Return what is there between steps: all that is trained, and what is not."""
    found = {"weights": 0, "optimizer states": 0}
    for name, value in sharded.graph.parameters.items():
        trained = value.parameter is not None and value.parameter.requires_grad
        held = bytes_held(sharded.stored[name], value.spec.dtype.itemsize)
        found["weights" if trained else "optimizer states"] += held
    return found


def _fullest(local: Graph, plan: BufferPlan, sharded: ShardedGraph) -> tuple[str, dict[str, int]]:
    """Return the node at which most of the arena is in use, and the bytes of each kind then."""
    storages: dict[tuple[int, tuple[int, int]], list[Value]] = {}
    for value, offset in plan.offsets.items():
        storages.setdefault((offset, plan.lives[value]), []).append(value)
    if not storages:
        return "", {}
    owners, gradients = Owners(sharded), {value.name for value in sharded.graph.gradients}
    changes = {
        kind: np.zeros(len(local.nodes) + 2, np.int64) for kind in (_ACTIVATIONS, _GRADIENTS, _BUFFERS, _WORKING)
    }
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


def _staging_bytes(node: Node) -> int:
    """Return the bytes into which a collective copies what it sends or gets, where that is not in one piece."""
    operator = node.operator.operator if isinstance(node.operator, Start) else node.operator
    if isinstance(operator, FusedAllReduce):
        return sum(value.spec.byte_count for value in node.inputs)
    if not isinstance(operator, FusedRedistribution) or operator.steps[0].kind not in ("gather", "reduce_scatter"):
        return 0
    sides = [node.inputs, node.outputs]
    wholes = node.outputs if operator.steps[0].kind == "gather" else node.inputs
    if len(wholes) == 1 and prod(wholes[0].spec.shape[: operator.steps[0].blocked_dim]) == 1:
        return 0
    return sum(value.spec.byte_count for side in sides for value in side)
