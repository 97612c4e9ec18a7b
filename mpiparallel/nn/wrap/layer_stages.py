"""The layers of a network put into the stages of a pipeline: by counts, by names, or by what they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from math import inf
from typing import Any, Final, NamedTuple

from mpiparallel.compile.staging.place_stages import must_have_stages
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.containers import CellList, SequentialCell
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.pipeline.partition import partition
from mpiparallel.pipeline.registry import SCHEDULES, make_schedule
from mpiparallel.pipeline.report import check
from mpiparallel.pipeline.schedule import Schedule

NamedCells = Sequence[tuple[str, Cell]]

_OPERATIONS_A_BYTE: Final = 4
"""How many operations a processor core does while it reads or writes a byte, roughly."""
_COPIES: Final = 4
"""Of each trained parameter: its value, its gradient, and two moments."""


class LayerCost(NamedTuple):
    """What a layer costs: time in operations, bytes of its parameters, bytes of a micro-batch's activations."""

    time: float
    weights: int
    activations: int


def layers_of(network: Cell) -> NamedCells:
    """Return the layers of a network by name: its cells, in place of a list of cells those in it.

    >>> from mpiparallel import nn
    >>> [name for name, _ in layers_of(nn.SequentialCell(nn.Dense(2, 2), nn.SequentialCell(nn.ReLU(), nn.Dense(2, 2))))]
    ['0', '1.0', '1.1']
    """
    opened: NamedCells = list(chain.from_iterable(_opened(*child) for child in network.name_cells().items()))
    if len(opened) == 1 and len(opened[0][1].name_cells()) > 1:
        (outer, cell) = opened[0]
        return [(f"{outer}.{name}", layer) for name, layer in layers_of(cell)]
    return opened


def _opened(name: str, cell: Cell) -> NamedCells:
    if not isinstance(cell, (CellList, SequentialCell)):
        return [(name, cell)]
    return list(chain.from_iterable(_opened(f"{name}.{inner}", one) for inner, one in cell.name_cells().items()))


def put_by_counts(network: Cell, counts: Sequence[int]) -> None:
    """Put the first ``counts[0]`` layers into stage 0, the next into stage 1, and so on."""
    layers = layers_of(network)
    if any(isinstance(count, bool) or count < 1 for count in counts) or sum(counts) != len(layers):
        raise ConfigurationError(
            f"PipelineCell: stages {list(counts)} are {sum(counts)} layers, and the network has {len(layers)}: "
            f"{_named(layers)}; give each stage at least one, and all of them together {len(layers)}"
        )
    _put(layers, [stage for stage, count in enumerate(counts) for _ in range(count)])


def put_by_names(network: Cell, patterns: Sequence[Sequence[str]]) -> None:
    """Put the cells whose names match one of ``patterns[0]`` into stage 0, and so on; ``*`` stands for any letters."""
    cells = [(name, cell) for name, cell in network.cells_and_names() if name]
    found: dict[str, int] = {}
    for stage, of_stage in enumerate(patterns):
        for pattern in of_stage:
            matching = [(name, cell) for name, cell in cells if fnmatchcase(name, pattern)]
            if not matching:
                raise ConfigurationError(
                    f"PipelineCell: no cell of the network has a name like {pattern!r} of stage {stage}; there are "
                    f"{_named(cells)}"
                )
            for name, cell in matching:
                if found.setdefault(name, stage) != stage:
                    raise ConfigurationError(
                        f"PipelineCell: {name!r} is in stage {found[name]} and, by {pattern!r}, in stage {stage}; let "
                        "each cell match the patterns of one stage"
                    )
                cell.pipeline_stage = stage


def put_by_cost(
    network: Cell,
    call: Callable[..., Any],
    pieces: Sequence[Any],
    micro_size: int,
    memory: float,
    configuration: ParallelConfiguration,
) -> None:
    """Put layers into stages so that the slowest takes the least time and none needs more ``memory`` for a rank.

    What they cost is read off a trace of ``call`` on the ``pieces`` of a micro-batch, so all ranks find the same.
    """
    layers, stages = layers_of(network), configuration.pipeline_stages
    if len(layers) < stages:
        raise ConfigurationError(
            f"PipelineCell: the network has {len(layers)} layers, {_named(layers)}, for {stages} stages; take at most "
            f"{len(layers)} stages, or put smaller cells into stages by name"
        )
    asked = configuration.pipeline_schedule or ("zb_v" if len(layers) >= 2 * stages <= micro_size + 1 else "zb_h1")
    if isinstance(asked, Schedule):
        must_have_stages(asked, stages)
        places = asked.placement.stages
    else:
        places = SCHEDULES[asked].place(stages, SCHEDULES[asked].chunks or 2).stages
    costs = _costs(layers, call, pieces)
    ranks = [len(configuration.ranks_of_stages[stage]) for stage in places]
    chunks = len(places) // stages
    held = _held(asked, stages, micro_size) if memory < inf else [0.0] * stages

    def needed(part: int, first: int, end: int) -> float:
        of_layers = (_COPIES * one.weights + held[places[part]] * one.activations for one in costs[first:end])
        return chunks * sum(of_layers) / ranks[part]

    ends = partition([one.time for one in costs], ranks, lambda *part: needed(*part) <= memory)
    if not ends:
        least = min(needed(part, place, place + 1) for part in range(len(places)) for place in range(len(costs)))
        raise ConfigurationError(
            f"PipelineCell: the {len(layers)} layers cannot be cut into the {len(places)} parts of the schedule "
            f"under stage_memory {memory:g}, where the smallest layer needs {least:g} bytes; allow more, or take more "
            "ranks or fewer stages"
        )
    _put(
        layers, [stage for stage, first, end in zip(places, [0, *ends], ends, strict=False) for _ in range(first, end)]
    )


def _held(asked: str | Schedule, stages: int, micro_size: int) -> Sequence[float]:
    """Return of how many micro-batches each stage holds activations, with the gradients that wait, at most."""
    return check(asked if isinstance(asked, Schedule) else make_schedule(asked, stages, micro_size)).with_gradients


def _costs(layers: NamedCells, call: Callable[..., Any], pieces: Sequence[Any]) -> list[LayerCost]:
    """Return what each layer costs; what is in none, such as a loss, counts with the one before."""
    _put(layers, range(len(layers)))
    trace = Trace()
    given = [
        Tensor.of_value(trace.graph.add_input(f"input{place}", piece.spec)) if isinstance(piece, Tensor) else piece
        for place, piece in enumerate(pieces)
    ]
    with recording(trace), trace.of_micro_batch(0):
        call(*given)
    return _summed(trace.graph, len(layers))


def _summed(graph: Graph, count: int) -> list[LayerCost]:
    costs, seen, layer = [LayerCost(0.0, 0, 0)] * count, set(), 0
    for node in graph.nodes:
        layer = layer if node.notes.stage is None else node.notes.stage
        of = node.operator.cost([value.spec for value in node.inputs], [value.spec for value in node.outputs])
        new = [value for value in node.inputs if value.parameter is not None and value not in seen]
        seen.update(new)
        time, weights, activations = costs[layer]
        costs[layer] = LayerCost(
            time + of.operations + _OPERATIONS_A_BYTE * (of.bytes_read + of.bytes_written),
            weights + sum(value.spec.byte_count for value in new),
            activations + (0 if node.operator.is_view else sum(value.spec.byte_count for value in node.outputs)),
        )
    return costs


def _put(layers: NamedCells, stages: Sequence[int]) -> None:
    for (_, cell), stage in zip(layers, stages, strict=True):
        cell.pipeline_stage = stage


def _named(layers: NamedCells) -> str:
    names = [name for name, _ in layers]
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
