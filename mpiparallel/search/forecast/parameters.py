"""Who holds what of each parameter."""

from __future__ import annotations

from itertools import islice, product
from math import prod

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.layout.layout import Layout
from mpiparallel.search.cost.prices import bytes_held
from mpiparallel.search.forecast.move import ranks_text
from mpiparallel.search.forecast.operators import layout_text

_MOST_PARTS = 64
_MOST_RANKS = 1 << 10


@dataclass(frozen=True)
class Held:
    """A box of a parameter, as slices, and the ranks that hold it."""

    box: str
    ranks: str


@dataclass(frozen=True)
class ParameterForecast:
    """A parameter in its ``stage``: how it is kept, how operators use it, and by whom the first parts are held."""

    name: str
    stage: int
    shape: tuple[int, ...]
    dtype: str
    trained: bool
    stored: str
    used: str
    rank_bytes: int
    part_count: int
    parts: tuple[Held, ...]


def parameters_of(stage: int, sharded: ShardedGraph) -> tuple[ParameterForecast, ...]:
    """Return the parameters of a stage."""
    known: dict[Layout, tuple[Held, ...]] = {}
    found = []
    for name, value in sharded.graph.parameters.items():
        layout = sharded.stored[name]
        if layout not in known:
            known[layout] = tuple(_parts(layout))
        found.append(
            ParameterForecast(
                name,
                stage,
                value.spec.shape,
                str(value.spec.dtype),
                value.parameter is not None and value.parameter.requires_grad,
                layout_text(layout),
                layout_text(sharded.used.get(name, layout)),
                bytes_held(layout, value.spec.dtype.itemsize),
                prod(layout.cuts),
                known[layout],
            )
        )
    return tuple(found)


def _parts(layout: Layout) -> list[Held]:
    """Return the first parts of a layout, each with the ranks that hold it."""
    found = []
    for parts in islice(product(*map(range, layout.cuts)), _MOST_PARTS):
        box = layout.box_of_parts(parts)
        copies = layout.replica_count
        ranks = [layout.rank_at(parts, copy) for copy in range(min(copies, _MOST_RANKS))]
        told = ranks_text(sorted(ranks)) + (f" and {copies - _MOST_RANKS} more" if copies > _MOST_RANKS else "")
        sides = zip(box.start, box.stop, strict=True)
        found.append(Held(f"[{', '.join(f'{start}:{stop}' for start, stop in sides)}]", told))
    return found
