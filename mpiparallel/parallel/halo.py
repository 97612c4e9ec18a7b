"""Halos: what operators read of their inputs beyond their own parts, where windows reach over the cuts."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel.backend.tensor_spec import Part
from mpiparallel.graph.operator import Operator
from mpiparallel.layout.layout import Bounds, Layout
from mpiparallel.parallel.operator_placement import OperatorPlacement


def read_layouts(operator: Operator, placement: OperatorPlacement) -> tuple[Layout, ...]:
    """Return the layouts in which an operator reads its inputs; their parts may overlap.

    They follow from the placement alone, so all ranks find the same.
    """
    if not operator.reads_beyond:
        return placement.inputs
    bounds: list[list[Bounds]] = [[() for _ in layout.global_shape] for layout in placement.inputs]
    for dim in operator.reads_beyond:
        along = _bounds_along(operator, placement, dim)
        for told, layout, given in zip(bounds, placement.inputs, along, strict=True):
            if given and layout.cuts[dim] > 1:
                told[dim] = given
    return tuple(
        layout.with_bounds(told) if any(told) else layout for layout, told in zip(placement.inputs, bounds, strict=True)
    )


def _bounds_along(operator: Operator, placement: OperatorPlacement, dim: int) -> Sequence[Bounds]:
    """Return the bounds along a dim of what is read of each input, part after part; () where the dim is not cut."""
    cut = next((layout for layout in (*placement.inputs, *placement.outputs) if _cuts(layout, dim) > 1), None)
    if cut is None:
        return [()] * len(placement.inputs)
    places = [tuple(part if other == dim else 0 for other in range(len(cut.cuts))) for part in range(cut.cuts[dim])]
    boxes = []
    for rank in map(cut.rank_at, places):
        inputs, outputs = parts_of(placement.inputs, rank), parts_of(placement.outputs, rank)
        boxes.append(operator.reads(inputs, outputs))
    return [tuple((box.start[dim], box.stop[dim]) for box in of_input) for of_input in zip(*boxes, strict=True)]


def _cuts(layout: Layout, dim: int) -> int:
    return layout.cuts[dim] if dim < len(layout.cuts) else 1


def parts_of(layouts: Sequence[Layout], rank: int) -> list[Part]:
    """Return which part of each tensor a rank has."""
    return [Part(layout.global_shape, layout.box(rank)) for layout in layouts]
