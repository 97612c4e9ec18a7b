"""What ranks that run a program together must have in common, in few words."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from mpiparallel.compile.localise import GRADIENT_OF
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.parallel.collective_operators import Collective
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.overlap import Start
from mpiparallel.parallel.redistribution_operators import FusedRedistribution

_DIGEST_BYTES = 6


def fingerprint_of(staged: StagedGraph, local: Graph, configuration: ParallelConfiguration) -> str | None:
    """Return words that are equal on all ranks that can run the program together; None where each runs it for itself.

    Networks of global shapes have operators, shapes, dtypes, parameters and layouts in common. Some ranks may run a
    network alone if it exchanges nothing and updates nothing. Each rank may have a batch or even a network of its own.
    Then ranks have in common only what they exchange, and the parameters whose gradients they compute.
    """
    if configuration.mode == ParallelMode.STAND_ALONE:
        return None
    if configuration.mode in ParallelMode.OWN_BATCH:
        return _of_exchanges(staged.stages[0], local, configuration)
    if staged.schedule is not None:
        actions = blake2b(str(staged.schedule).encode(), digest_size=_DIGEST_BYTES).hexdigest()
        return f"schedule {staged.schedule.name}, {actions}: " + "; ".join(map(_of_network, staged.stages))
    if any(node.operator.kind == "communication" or node.operator.updates for node in local.nodes):
        return _of_network(staged.stages[0])
    return None


class _Texts(dict[object, str]):
    """Values in words: thousands of nodes have few layouts."""

    def __missing__(self, value: object) -> str:
        self[value] = text = repr(value)
        return text


def _of_network(sharded: ShardedGraph) -> str:
    """Return what tells networks apart. Names that operators get by being counted are left out: a rank may have made
    other networks before.
    """
    graph = sharded.graph
    digest, texts = blake2b(digest_size=_DIGEST_BYTES), _Texts()
    for node in graph.nodes:
        placed = sharded.placements.get(node)
        layouts = [] if placed is None else [layout.canonical for layout in (*placed.inputs, *placed.outputs)]
        told = (texts[one] for one in (node.operator.name, *(value.spec for value in node.outputs), *layouts))
        digest.update("; ".join(told).encode() + b"\n")
    for name, value in graph.parameters.items():
        stored = sharded.stored.get(name)
        kept = texts[None if stored is None else stored.canonical]
        digest.update("; ".join([repr(name), texts[value.spec], kept]).encode() + b"\n")
    inputs = ", ".join(f"{value.spec.dtype}{list(value.spec.shape)}" for value in graph.inputs)
    counts = f"{len(graph.nodes)} operators, {len(graph.parameters)} parameters"
    return f"a network of {counts} on inputs {inputs}, cut as {digest.hexdigest()}"


def _of_exchanges(sharded: ShardedGraph, local: Graph, configuration: ParallelConfiguration) -> str | None:
    exchanges = [
        (node.operator.name, [(str(value.spec.dtype), value.spec.size) for value in node.inputs], _owners(node, local))
        for node in _exchanged_by_all(sharded, local, configuration.rank)
    ]
    if not exchanges:
        return None
    elements = sum(size for _, sizes, _ in exchanges for _, size in sizes)
    digest = blake2b(repr(exchanges).encode(), digest_size=_DIGEST_BYTES)
    return f"a step that exchanges {elements} elements in {len(exchanges)} calls, {digest.hexdigest()}"


def _owners(node: Node, local: Graph) -> list[str]:
    """Return the parameters that are exchanged, or whose gradients are; other names depend on what a rank has made."""
    names = (value.name.rpartition("/")[0].removeprefix(GRADIENT_OF) for value in node.outputs)
    return [name if name in local.parameters else "" for name in names]


def _exchanged_by_all(sharded: ShardedGraph, local: Graph, rank: int) -> Iterator[Node]:
    everyone = tuple(sorted(sharded.devices.members))
    for node in local.nodes:
        operator = node.operator.operator if isinstance(node.operator, Start) else node.operator
        ranks: tuple[int, ...] = ()
        if isinstance(operator, Collective):
            ranks = operator.ranks()
        elif isinstance(operator, FusedRedistribution):
            ranks = operator.steps[0].ranks(rank)
        if tuple(sorted(ranks)) == everyone:
            yield node
