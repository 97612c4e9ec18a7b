"""The layout of a stored parameter, whose global shape may have to be found from its slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem
from mpiparallel.errors import LayoutError, StrategyFileError, TransformError
from mpiparallel.layout.layout import Layout, bounds_of

Shape = tuple[int, ...]


def stored_layout(item: LayoutItem, shape: Shape | None = None, first_rank: int = 0) -> Layout:
    """Return the layout of a parameter of global ``shape`` on ranks from ``first_rank``, also where bounds cut it.

    Raises ``StrategyFileError`` as ``LayoutItem.layout`` does, and where the bounds do not fit the shape.

    >>> table = LayoutItem((2,), ((0,), ()), param_split_shape=(1, 7), tensor_shape=(8, 3))
    >>> stored_layout(table).box(1)
    Box(start=(1, 0), stop=(8, 3))
    """
    if item.field or not item.param_split_shape:
        return item.layout(shape, first_rank)
    layout = _frame(item, shape, first_rank)
    if not layout.global_shape or sum(item.param_split_shape) != layout.global_shape[0]:
        raise StrategyFileError(
            f"param_split_shape {list(item.param_split_shape)} does not fit shape {layout.global_shape}; use the file "
            "of this network"
        )
    try:
        return layout.with_bounds([bounds_of(item.param_split_shape), *(() for _ in layout.global_shape[1:])])
    except LayoutError as error:
        raise StrategyFileError(f"{error}; use the file of this network") from error


def global_shape(item: LayoutItem, slices: Mapping[int, Shape], first_rank: int = 0) -> Shape:
    """Return the global shape of a parameter from the shapes of the ``slices`` that ranks have.

    Strategy files in protobuf do not say it. Each dim is as long as its parts together. Where not all parts are there,
    they are taken to be as long as those that are. Raises ``TransformError`` where the slices contradict each other.

    >>> global_shape(LayoutItem((2, 2), ((0,), (1,))), {0: (3, 4), 1: (3, 3), 2: (2, 4)})
    (5, 7)
    """
    if item.tensor_shape is not None:
        return item.tensor_shape
    dims = len(item.tensor_map)
    frame = _frame(item, (0,) * dims, first_rank)
    extents: list[dict[int, tuple[int, int]]] = [{} for _ in range(dims)]
    for rank, shape in slices.items():
        if len(shape) != dims:
            raise TransformError(
                f"it has {len(shape)} dims on rank {rank}, {dims} in the strategy; use the strategy file of this state"
            )
        for dim, (part, extent) in enumerate(zip(frame.parts(rank), shape, strict=True)):
            other, known = extents[dim].setdefault(part, (rank, extent))
            if known != extent:
                raise TransformError(
                    f"ranks {other} and {rank} have the same part of dim {dim}, but {known} and {extent} elements of "
                    "it; use the strategy file of this state, and files of one step"
                )
    return tuple(
        _extent([extent for _, extent in known.values()], frame.cuts[dim], dim) for dim, known in enumerate(extents)
    )


def cuts_of(item: LayoutItem) -> tuple[int, ...]:
    """Return into how many parts each dim of a parameter is cut.

    >>> cuts_of(LayoutItem((2, 4), ((0,), (1,))))
    (2, 4)
    """
    return _frame(item, (0,) * len(item.tensor_map), 0).cuts


def _extent(known: list[int], parts: int, dim: int) -> int:
    if len(known) == parts:
        return sum(known)
    if len(set(known)) != 1:
        raise TransformError(
            f"{len(known)} of {parts} parts of dim {dim} are there, of {sorted(set(known))} elements, so how long it "
            "is cannot be told; give the files of all ranks, or a .json strategy file, which has the shapes"
        )
    return known[0] * parts


def _frame(item: LayoutItem, shape: Shape | None, first_rank: int) -> Layout:
    return replace(item, param_split_shape=(), indices_offset=()).layout(shape, first_rank)
