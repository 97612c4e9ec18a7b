"""Comparing what several ranks hold of the same parameter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.files.array_file import ArrayFile, fill_box
from mpiparallel.checkpoint.transform.source_state import SourceState
from mpiparallel.errors import TransformError
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout

_COMPARED_BYTES: Final = 1 << 22
_DIFFERENCES_SHOWN: Final = 8
_MEND: Final = (
    'give the src_strategy_file that names it, the files of all ranks, or missing="replicated" to take the first copy'
)


def check_unnamed(source: SourceState) -> None:
    """Raise ``TransformError`` unless each parameter that no strategy names is the same on all ranks that have it.

    Of one rank's copy among several nothing can be said, unless it has a single element.
    """
    for name in sorted(source.unnamed):
        layout = source.tensors[name].layout
        size = Box.whole(layout.global_shape).size
        if source.rank_count > 1 and layout.replica_count == 1 and size > 1:
            raise TransformError(
                f'parameter "{name}": is in no source strategy, and only the file of rank {layout.devices.first_rank} '
                f"has it, so whether it is a slice is not known; {_MEND}"
            )
    differing = list(differences(source, sorted(source.unnamed)))
    if differing:
        raise TransformError(f"{_shown(differing)}: no source strategy names it, and its copies differ; {_MEND}")


def check_copies(source: SourceState, names: Iterable[str]) -> None:
    """Raise a ``TransformError`` if copies of a slice differ from the ones that are read; it names their ranks."""
    differing = list(differences(source, names))
    if differing:
        raise TransformError(
            f"{_shown(differing)}: the copies of a slice differ, so they are not of one step or one is damaged; "
            "remove the wrong file, and a replica stands in for it"
        )


def differences(source: SourceState, names: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """Yield each parameter, the rank of a copy that differs, and the rank whose slice is read instead."""
    for name in names:
        layouts = [source.tensors[name].layout, *source.others.get(name, ())]
        for layout in layouts:
            for rank in layout.devices.members:
                if source.has(rank, name):
                    first = _differs(source, name, layout, rank)
                    if first is not None:
                        yield name, rank, first


def _differs(source: SourceState, name: str, layout: Layout, rank: int) -> int | None:
    """Return whose slice is read where that of ``rank`` differs from it, else None."""
    held = layout.box(rank)
    read = source.tensors[name].layout
    for parts in read.parts_over(held):
        present = source.present(name, parts)
        if not present or present[0] == rank:
            continue
        shared = read.box_of_parts(parts).intersection(held)
        if shared is not None and _boxes_differ(source, name, layout, rank, shared):
            return present[0]
    return None


def _boxes_differ(source: SourceState, name: str, layout: Layout, rank: int, box: Box) -> bool:
    dtype = source.tensors[name].dtype
    held = layout.box(rank)
    with source.open(rank) as file:
        for portion in portions(box, max(1, _COMPARED_BYTES // dtype.itemsize)):
            here = _read(file, name, held, portion, dtype)
            there = source.state.read_box(name, portion)
            if here.tobytes() != there.tobytes():
                return True
    return False


def _read(file: ArrayFile, name: str, held: Box, box: Box, dtype: np.dtype[Any]) -> NDArray[Any]:
    target = np.empty(box.shape, dtype)
    within = box.within(held)
    local = Box(tuple(part.start for part in within), tuple(part.stop for part in within))
    fill_box(file, name, held.shape, local, target)
    return target


def portions(box: Box, most: int) -> Iterator[Box]:
    """Yield boxes of at most ``most`` elements that are ``box`` together, in C order of their first elements.

    >>> [portion.stop for portion in portions(Box((0, 0), (2, 4)), 2)]
    [(1, 2), (1, 4), (2, 2), (2, 4)]
    """
    if box.size <= most:
        yield box
        return
    dim = next(dim for dim, extent in enumerate(box.shape) if extent > 1)
    middle = (box.start[dim] + box.stop[dim]) // 2
    before, after = list(box.stop), list(box.start)
    before[dim] = after[dim] = middle
    yield from portions(Box(box.start, tuple(before)), most)
    yield from portions(Box(tuple(after), box.stop), most)


def _shown(differing: list[tuple[str, int, int]]) -> str:
    told = [f'"{name}" of rank {rank} and of rank {first}' for name, rank, first in differing[:_DIFFERENCES_SHOWN]]
    more = f" and {len(differing) - len(told)} more" if len(differing) > len(told) else ""
    return f"parameter {', '.join(told)}{more}"
