"""The placement of an operator some of whose inputs are laid out already, over other axes than it would choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from mpiparallel.graph.operator import Strategy
from mpiparallel.layout.device_matrix import DeviceMatrix, common_refinement, refined_axes
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.operator_placement import (
    Operands,
    OperatorPlacement,
    axis_extents,
    axis_order,
    lay_out,
    on_common_devices,
    read_strategy,
)

AxesByLabel = dict[str, tuple[int, ...]]


def place_beside(operands: Operands, strategy: Strategy, held: Mapping[int, Layout]) -> OperatorPlacement | None:
    """Return the placement by a strategy that has the inputs ``held`` in these layouts; None where there is none.

    Their labels take the axes that cut them. The other cuts and repeated calculation take the axes that are left, in
    the order that they have in ``place_by_strategy``.
    """
    cuts = read_strategy(operands, strategy)
    matrix, layouts = on_common_devices(list(held.values()))
    if any(layout.canonical != wanted.canonical for layout, wanted in zip(layouts, held.values(), strict=True)):
        return None
    axes = _held_axes(operands, cuts, dict(zip(held, layouts, strict=True)))
    if axes is None:
        return None
    taken = {axis for cutting in axes.values() for axis in cutting}
    free = tuple(extent for axis, extent in enumerate(matrix.shape) if axis not in taken)
    order = [label for label in axis_order(operands.equation, cuts) if label not in axes]
    extents = axis_extents(order, cuts, prod(free))
    finer = common_refinement(free, extents)
    if finer is None:
        return None
    matrix, places = _split_axes(matrix, taken, finer, refined_axes(free, finer))
    spare = [place for axis, pieces in enumerate(places) if axis not in taken for place in pieces]
    found = {label: tuple(place for axis in cutting for place in places[axis]) for label, cutting in axes.items()}
    for label, pieces in zip(order, refined_axes(extents, finer), strict=True):
        if label is not None:
            found[label] = tuple(spare[piece] for piece in pieces)
    return replace(lay_out(operands.rule, found, matrix), strategy=strategy)


def _held_axes(operands: Operands, cuts: Mapping[str, int], held: Mapping[int, Layout]) -> AxesByLabel | None:
    """Return the axes that cut the labels of the held inputs; None where a strategy cuts these otherwise."""
    axes: AxesByLabel = {}
    for position, layout in held.items():
        for label, cutting, parts in zip(
            operands.equation.inputs[position], layout.tensor_map, layout.cuts, strict=True
        ):
            if parts != cuts.get(label or "", 1) or (label and axes.setdefault(label, cutting) != cutting):
                return None
    taken = [axis for cutting in axes.values() for axis in cutting]
    return {label: cutting for label, cutting in axes.items() if cutting} if len(taken) == len(set(taken)) else None


def _split_axes(
    matrix: DeviceMatrix, taken: set[int], finer: tuple[int, ...], pieces: tuple[tuple[int, ...], ...]
) -> tuple[DeviceMatrix, list[tuple[int, ...]]]:
    """Return the device matrix with its free axes, those not ``taken``, in pieces, and the axes that each has become.

    ``pieces`` has for each free axis the indices of its pieces in ``finer``.
    """
    shape: list[int] = []
    places = []
    free = iter(pieces)
    for axis, extent in enumerate(matrix.shape):
        extents = [extent] if axis in taken else [finer[piece] for piece in next(free)]
        places.append(tuple(range(len(shape), len(shape) + len(extents))))
        shape += extents
    return matrix.reshaped(tuple(shape)), places
