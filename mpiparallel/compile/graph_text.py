"""Graphs as text, for those who want to see what was made of their network: ``save_graphs`` of the context.

Four files lead from the network to the memory of one rank. They say

1. which operators the network became, on whole tensors;
2. how each value is cut, and where it must move;
3. what this rank runs, with its collectives and who takes part in each;
4. what lies where in its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

from mpiparallel.checkpoint.files.output_path import check_output
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.buffer_plan import plan_buffers
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.parallel.collective_operators import Collective
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.overlap import Start
from mpiparallel.parallel.redistribution import redistribute
from mpiparallel.parallel.redistribution_operators import FusedRedistribution

_KINDS: Final = (("traced", 1), ("layouts", 2), ("local", 2), ("memory", 3))
_DIGEST_BYTES: Final = 3


def save_graphs(sharded: ShardedGraph, local: Graph, configuration: ParallelConfiguration) -> list[Path]:
    """Write the graphs that the configuration asks for, and return where.

    They are ``rank_<r>/<network>.<kind>.txt`` below ``save_graphs_path``: of level 1 the kind ``traced``, from 2 on
    ``layouts`` and ``local`` too, of 3 also ``memory``. The same network has the same names when it is compiled again.
    Raises ConfigurationError where they cannot be written.
    """
    folder = Path(configuration.save_graphs_path) / f"rank_{configuration.rank}"
    traced = "\n".join(traced_lines(sharded.graph))
    name = _name_of(sharded.graph, traced)
    written = []
    for kind, level in _KINDS:
        if configuration.save_graphs < level:
            continue
        text = traced if kind == "traced" else "\n".join(_lines(kind, sharded, local, configuration.rank))
        path = folder / f"{name}.{kind}.txt"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            check_output(path)
            path.write_text(f"{text}\n")
        except OSError as error:
            raise ConfigurationError(
                f"set_context: save_graphs_path: {path} cannot be written ({error}); name another folder"
            ) from error
        written.append(path)
    return written


def _lines(kind: str, sharded: ShardedGraph, local: Graph, rank: int) -> Iterable[str]:
    if kind == "layouts":
        return layout_lines(sharded)
    return local_lines(local, rank) if kind == "local" else memory_lines(local)


def _name_of(graph: Graph, text: str) -> str:
    """Return the name of a network's files: whether it trains, the shapes of its inputs, and a digest."""
    kind = "training" if any(node.operator.updates for node in graph.nodes) else "forward"
    shapes = "_".join("x".join(map(str, value.spec.shape)) or "scalar" for value in graph.inputs[:3])
    return f"{kind}_{shapes}_{blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def traced_lines(graph: Graph) -> Iterator[str]:
    """Yield the graph as it was traced, on whole tensors, with the strategies that operators were given."""
    yield f"traced: {len(graph.nodes)} operators on whole tensors, {len(graph.parameters)} parameters"
    for value in graph.inputs:
        yield f"input {value}"
    for value in graph.parameters.values():
        yield f"parameter {value}"
    for node in graph.nodes:
        strategy = "" if node.operator.strategy is None else f"  strategy {node.operator.strategy}"
        yield f"{_call(node)}{strategy}{_origin(node)}"
    yield f"outputs {', '.join(map(str, graph.outputs))}"


def layout_lines(sharded: ShardedGraph) -> Iterator[str]:
    """Yield the layout of each value, and under each operator what moves before it can run."""
    yield f"layouts over {sharded.devices.size} ranks: of a dim cut in parts stands extent/parts"
    for value in sharded.graph.inputs:
        yield f"input {value}: {sharded.layouts[value]}"
    for name, value in sharded.graph.parameters.items():
        stored, used = sharded.stored[name], sharded.used.get(name)
        differs = used is not None and used.canonical != stored.canonical
        yield f"parameter {value}: {stored}" + (f", used as {used}" if differs else "")
    for node in sharded.graph.nodes:
        placement = sharded.placements[node]
        for value, wanted in zip(node.inputs, placement.inputs, strict=True):
            for step in redistribute(sharded.layouts[value], wanted):
                yield f"    {step.kind} {value.name}: {step.source} -> {step.target}"
        yield f"{_call(node)}: {', '.join(map(str, placement.outputs)) or 'updates'}{_origin(node)}"
    for value in sharded.graph.outputs:
        yield f"output {value}: {sharded.output_layout(value)}"


def local_lines(local: Graph, rank: int) -> Iterator[str]:
    """Yield what one rank runs, in order, on its parts; of collectives who takes part, and how many bytes go in."""
    shared = [node for node in local.nodes if _ranks(node, rank)]
    nbytes = sum(value.spec.byte_count for node in shared for value in node.inputs)
    yield f"rank {rank} runs {len(local.nodes)} operators; {len(shared)} collectives take {nbytes} bytes of its own"
    for value in (*local.inputs, *local.parameters.values()):
        yield f"{'input' if value in local.inputs else 'parameter'} {value}"
    for node in local.nodes:
        ranks = _ranks(node, rank)
        taken = sum(value.spec.byte_count for value in node.inputs)
        yield _call(node) + (f"  among ranks {list(ranks)}, {taken} bytes" if ranks else "")
    yield f"outputs {', '.join(map(str, local.outputs))}"


def memory_lines(local: Graph) -> Iterator[str]:
    """Yield where in the memory of a rank each value lies, and how much there is."""
    plan = plan_buffers(local)
    kept = sum(value.spec.byte_count for value in local.parameters.values())
    yield f"memory: {plan.byte_count} bytes for what is computed, {kept} bytes of parameters"
    for value, start in sorted(plan.offsets.items(), key=lambda item: (item[1], item[0].name)):
        yield f"{start:>12} to {start + value.spec.byte_count:>12}  {value}"


def _ranks(node: Node, rank: int) -> tuple[int, ...]:
    """Return who takes part in a collective; nobody in another operator."""
    operator = node.operator.operator if isinstance(node.operator, Start) else node.operator
    if isinstance(operator, Collective):
        return operator.ranks()
    return operator.steps[0].ranks(rank) if isinstance(operator, FusedRedistribution) else ()


def _call(node: Node) -> str:
    outputs = ", ".join(map(str, node.outputs))
    return f"{outputs}{' = ' if outputs else ''}{node.operator.name}({_named(node.inputs)})  at {node.name}"


def _origin(node: Node) -> str:
    return "" if node.notes.origin is None else f"  gradient of {node.notes.origin.name}"


def _named(values: Iterable[Value]) -> str:
    return ", ".join(value.name for value in values)
