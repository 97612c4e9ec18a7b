"""Random moves of a state, drawn by whatever draws: hypothesis, which shrinks them, or a seeded random generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Protocol, TypeVar

import ml_dtypes  # noqa: F401  # tells NumPy what bfloat16 is
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

Arrays = dict[str, NDArray[Any]]
Option = TypeVar("Option")

MOST_RANKS = 12
# V7 and S3 have items that no machine type aligns.
DTYPES = (
    "?",
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "f2",
    "f4",
    "f8",
    "bfloat16",
    "F",
    "D",
    "u2",
    "u8",
    ">f4",
    ">i8",
    "g",
    "V7",
    "S3",
)
# Primes, ones and empty dims; fewer elements a dim where there are more dims.
EXTENTS = {
    0: (0,),
    1: (7, 0, 1, 2, 13, 64, 97, 401, 1009, 2999),
    2: (6, 0, 1, 2, 3, 7, 13, 24, 31, 64, 97),
    3: (4, 0, 1, 2, 3, 5, 7, 11, 13, 16, 24),
    4: (3, 0, 1, 2, 2, 4, 5, 5, 7, 9),
}
# Few ranks are the quicker, and not the simpler for it.
RANK_COUNTS = (2, 1, 3, 4, 5, 6, 2, 3, 4, 5, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12)
DIMS = (1, 2, 2, 2, 3, 4, 0)
SHAPES_OF = {
    size: [shape for dims in range(5) for shape in product(range(1, size + 1), repeat=dims) if prod(shape) == size]
    for size in range(1, MOST_RANKS + 1)
}
SCRATCH = (64 << 20, 4096, 4096, 5000, 20000)
WAVES = (64 << 20, 1, 500, 5000, 50000)
MODES = ("safe", "bounded")
EXECUTORS = ("packed", "datatypes", "shared")


class Draw(Protocol):
    """Draws numbers; the smallest is the simplest."""

    def between(self, least: int, most: int) -> int:
        """Return an integer from ``least`` to ``most``, both included."""


class Seeded:
    """Draws that a seed decides, so that ranks draw the same without communication."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def between(self, least: int, most: int) -> int:
        return self._random.randint(least, most)


class Shrinking:
    """Draws of hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def between(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))


@dataclass(frozen=True)
class Tensor:
    """A tensor that moves; ``memory`` names a function of ``MEMORY``, by which its source arrays lie."""

    dtype: str
    source: Layout
    target: Layout
    memory: str
    seed: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.global_shape

    @cached_property
    def whole(self) -> NDArray[Any]:
        """The whole tensor, of any bits at all: NaN payloads and negative zeros must survive as well."""
        dtype = np.dtype(self.dtype)
        top = 2 if dtype.kind == "b" else 256
        content = np.random.default_rng(self.seed).integers(0, top, prod(self.shape) * dtype.itemsize, np.uint8)
        return content.view(dtype).reshape(self.shape)


@dataclass(frozen=True)
class Case:
    """One move: tensors, the ranks of each host, and the options of ``reshard``."""

    tensors: Mapping[str, Tensor]
    ranks_per_host: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def size(self) -> int:
        """How many ranks the move needs."""
        sides = [layout for tensor in self.tensors.values() for layout in (tensor.source, tensor.target)]
        return 1 + max(max(ranks_of(layout)) for layout in sides)

    @property
    def hosts(self) -> tuple[int, ...]:
        """The lowest rank on the host of each rank."""
        return tuple(rank - rank % self.ranks_per_host for rank in range(self.size))

    @property
    def source(self) -> dict[str, Layout]:
        return {name: tensor.source for name, tensor in self.tensors.items()}

    @property
    def target(self) -> dict[str, Layout]:
        return {name: tensor.target for name, tensor in self.tensors.items()}

    @property
    def pairs(self) -> dict[str, tuple[Layout, Layout]]:
        return {name: (tensor.source, tensor.target) for name, tensor in self.tensors.items()}

    @property
    def itemsizes(self) -> dict[str, int]:
        return {name: tensor.whole.itemsize for name, tensor in self.tensors.items()}

    def given(self, rank: int) -> Arrays:
        """Return new arrays of what ``rank`` holds before, in the memory order of each tensor."""
        parts = self.expected(rank, self.source)
        return {name: MEMORY[self.tensors[name].memory](part) for name, part in parts.items()}

    def expected(self, rank: int, layouts: Mapping[str, Layout] | None = None) -> Arrays:
        """Return what NumPy gives ``rank`` under ``layouts``, by default those after the move."""
        held = {name: layout for name, layout in (layouts or self.target).items() if rank in layout.devices}
        return {name: part_of(self.tensors[name].whole, layout, rank) for name, layout in held.items()}


def part_of(whole: NDArray[Any], layout: Layout, rank: int) -> NDArray[Any]:
    """Return the view that ``rank`` holds of a whole tensor."""
    part: NDArray[Any] = whole[(*layout.box(rank).within(Box.whole(whole.shape)), ...)]
    return part


def ranks_of(layout: Layout) -> list[int]:
    """Return the ranks of a layout, by asking for every place of its device matrix."""
    return [layout.devices.rank_at(place) for place in product(*map(range, layout.devices.shape))]


def any_case(draw: Draw, most_ranks: int = MOST_RANKS, **fixed: Any) -> Case:
    """Draw a move among at most ``most_ranks`` ranks; ``fixed`` are options that are not drawn."""
    before, after = (_any_range(draw, most_ranks) for _ in range(2))
    tensors = {f"t{index}": _any_tensor(draw, before, after) for index in range(draw.between(1, 5))}
    options = {
        "mode": among(draw, MODES),
        "executor": "auto",
        "scratch_bytes": among(draw, SCRATCH),
        "wave_bytes": among(draw, WAVES),
        "verify": not draw.between(0, 1),
        "digest": bool(draw.between(0, 1)),
    }
    options |= fixed
    return Case(tensors, among(draw, (MOST_RANKS, 1, 2, 3, 5)), options)


def storable(case: Case) -> Case:
    """Return the case with dtypes that files have."""
    others = {"g": "f8", ">f4": "f4", ">i8": "i8", "V7": "i1", "S3": "u1"}
    tensors = {name: replace(one, dtype=others.get(one.dtype, one.dtype)) for name, one in case.tensors.items()}
    return replace(case, tensors=tensors)


def among(draw: Draw, options: Sequence[Option]) -> Option:
    """Draw one of ``options``; the first is the simplest."""
    return options[draw.between(0, len(options) - 1)]


def _any_range(draw: Draw, most_ranks: int) -> range:
    count = among(draw, [count for count in RANK_COUNTS if count <= most_ranks])
    first = draw.between(0, min(3, most_ranks - count))
    return range(first, first + count)


def _any_tensor(draw: Draw, before: range, after: range) -> Tensor:
    dims = among(draw, DIMS)
    shape = tuple(among(draw, EXTENTS[dims]) for _ in range(dims))
    source = _any_layout(draw, shape, before)
    # A tensor that stays where it is must not be copied.
    target = source if draw.between(0, 7) == 7 else _any_layout(draw, shape, after)
    return Tensor(among(draw, DTYPES), source, target, among(draw, tuple(MEMORY)), draw.between(0, 99))


def _any_layout(draw: Draw, shape: tuple[int, ...], ranks: range) -> Layout:
    """Draw a layout on all of ``ranks``, on a stage of them, or on some of them in any order."""
    where = draw.between(0, 3)
    count = len(ranks) if where < 2 else draw.between(1, len(ranks))
    first = ranks.start + (0 if where < 2 else draw.between(0, len(ranks) - count))
    axes = among(draw, SHAPES_OF[count])
    roles: dict[object, list[int]] = {role: [] for role in (*range(len(shape)), "replica", "optimizer")}
    allowed = tuple(role for role in roles if role != "optimizer" or shape)
    for axis in range(len(axes)):
        axes_of_role = roles[among(draw, allowed)]
        axes_of_role.insert(draw.between(0, len(axes_of_role)), axis)
    tensor_map = tuple(tuple(roles[dim]) for dim in range(len(shape)))
    layout = Layout(shape, DeviceMatrix(axes, first), tensor_map, optimizer_axes=tuple(roles["optimizer"]))
    if where != 3:
        return layout
    return layout.on_ranks(random.Random(draw.between(0, 99)).sample(ranks, count))


def _strided(part: NDArray[Any]) -> NDArray[Any]:
    wide = np.zeros([2 * extent + 1 for extent in part.shape], part.dtype)
    return _filled(wide[(*(slice(1, 2 * extent + 1, 2) for extent in part.shape), ...)], part)


def _reversed(part: NDArray[Any]) -> NDArray[Any]:
    return _filled(np.empty(part.shape, part.dtype)[(*(slice(None, None, -1) for _ in part.shape), ...)], part)


def _unaligned(part: NDArray[Any]) -> NDArray[Any]:
    return _filled(np.zeros(part.nbytes + 1, np.uint8)[1:].view(part.dtype).reshape(part.shape), part)


def _read_only(part: NDArray[Any]) -> NDArray[Any]:
    array = part.copy()
    array.flags.writeable = False
    return array


def _filled(array: NDArray[Any], part: NDArray[Any]) -> NDArray[Any]:
    array[...] = part
    return array


MEMORY: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "C": lambda part: part.copy("C"),
    "F": lambda part: part.copy("F"),
    "strided": _strided,
    "reversed": _reversed,
    "unaligned": _unaligned,
    "read-only": _read_only,
}


@st.composite
def cases(draw: st.DrawFn, most_ranks: int = MOST_RANKS, **fixed: Any) -> Case:
    """The strategy that draws moves, with these options fixed."""
    return any_case(Shrinking(draw), most_ranks, **fixed)
