"""Layouts as JSON values: how files and messages say them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from mpiparallel.errors import LayoutError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout, Reduction


def layout_to_json(layout: Layout) -> dict[str, Any]:
    """Return ``layout`` as JSON values; what is as in most layouts is left out.

    >>> layout_to_json(Layout((8, 6), DeviceMatrix((2, 2)), ((0,), ())))["tensor_map"]
    [[0], []]
    """
    permuted = {"ranks": list(layout.devices.ranks)} if layout.devices.ranks else {}
    terms = {"partial": list(layout.partial), "reduction": layout.reduction} if layout.partial else {}
    told = {"bounds": [[list(part) for part in given] for given in layout.bounds]} if layout.bounds else {}
    return {
        "global_shape": list(layout.global_shape),
        "device_matrix": list(layout.devices.shape),
        "first_rank": layout.devices.first_rank,
        **permuted,
        "tensor_map": [list(axes) for axes in layout.tensor_map],
        **terms,
        "optimizer_axes": list(layout.optimizer_axes),
        **told,
    }


def layout_from_json(entry: Mapping[str, Any]) -> Layout:
    """Return the layout that ``layout_to_json`` wrote. Raises ``LayoutError``, ``TypeError`` or ``KeyError``."""
    (first_rank,) = integers([entry["first_rank"]])
    partial = integers(entry.get("partial", []))
    reduction: Reduction = entry["reduction"] if partial else "sum"
    if reduction not in get_args(Reduction):
        raise LayoutError(f"reduction {reduction!r} is none of {', '.join(get_args(Reduction))}")
    return Layout(
        integers(entry["global_shape"]),
        DeviceMatrix(integers(entry["device_matrix"]), first_rank, integers(entry.get("ranks", []))),
        tuple(integers(axes) for axes in entry["tensor_map"]),
        partial=partial,
        reduction=reduction,
        optimizer_axes=integers(entry["optimizer_axes"]),
        bounds=tuple(tuple(_range(part) for part in given) for given in entry.get("bounds", [])),
    )


def integers(values: Any) -> tuple[int, ...]:
    """Return a list of integers as a tuple; raise ``TypeError`` for anything else."""
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        raise TypeError(f"{values!r} is no list of integers")
    return tuple(values)


def _range(values: Any) -> tuple[int, int]:
    start, stop = integers(values)
    return start, stop
