"""What of a sharded graph must be the same on all ranks, in few words."""

from __future__ import annotations

from hashlib import blake2b

from mpiparallel.parallel.sharded_graph import ShardedGraph

_DIGEST_BYTES = 6


def fingerprint_of(sharded: ShardedGraph) -> str:
    """Return words that are equal where operators, shapes, dtypes, parameters and layouts are.

    Names that operators get by being counted are left out: a rank may have made other networks before.
    """
    graph = sharded.graph
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for node in graph.nodes:
        placed = sharded.placements.get(node)
        layouts = [] if placed is None else [layout.canonical for layout in (*placed.inputs, *placed.outputs)]
        digest.update(repr((node.operator.name, [value.spec for value in node.outputs], layouts)).encode())
    for name, value in graph.parameters.items():
        digest.update(repr((name, value.spec, sharded.stored.get(name))).encode())
    inputs = ", ".join(f"{value.spec.dtype}{list(value.spec.shape)}" for value in graph.inputs)
    counts = f"{len(graph.nodes)} operators, {len(graph.parameters)} parameters"
    return f"a network of {counts} on inputs {inputs}, cut as {digest.hexdigest()}"
