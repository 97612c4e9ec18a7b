"""What is moved: tensors with a layout before and one after, for any number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

Shape = tuple[int, ...]
Layouts = dict[str, tuple[Layout, Layout]]
FLOAT_BYTES = 4


@dataclass(frozen=True)
class Case:
    """float32 tensors and their layouts on so many ranks, each extent divided by ``shrink``.

    ``resident`` says that all methods can hold their arrays at the same time; else each makes them anew every round.
    """

    meaning: str
    layouts: Callable[[int, int], Layouts]
    ranks: tuple[int, ...] = ()
    resident: bool = True

    def total_bytes(self, ranks: int, shrink: int) -> int:
        """Return the bytes that all ranks hold before and after, together."""
        held = 0
        for pair in self.layouts(ranks, shrink).values():
            for layout in pair:
                held += sum(layout.box(rank).size for rank in range(ranks) if rank in layout.devices)
        return held * FLOAT_BYTES


def rows(shape: Shape, ranks: int, first: int = 0) -> Layout:
    """Return the layout that cuts dim 0 over ``ranks`` ranks from ``first`` on."""
    return Layout(shape, DeviceMatrix((ranks,), first), ((0,), *((),) * (len(shape) - 1)))


def columns(shape: Shape, ranks: int) -> Layout:
    """Return the layout that cuts dim 1."""
    return Layout(shape, DeviceMatrix((ranks,)), ((), (0,)))


def whole(shape: Shape, ranks: int, first: int = 0) -> Layout:
    """Return the layout that gives each of the ranks all of it."""
    return Layout.replicated(shape, DeviceMatrix((ranks,), first))


def transpose(ranks: int, shrink: int) -> Layouts:
    """Return one matrix from rows to columns."""
    shape = (4096 // shrink, 4096 // shrink)
    return {"weight": (rows(shape, ranks), columns(shape, ranks))}


def optimizer(ranks: int, shrink: int) -> Layouts:
    """Return parameters and two moments of a Transformer: matrices from rows to columns, vectors gathered."""
    width, layers = 256 // shrink, 8
    matrices = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    vectors = [(width,)] * 5 + [(4 * width,)]
    found: Layouts = {}
    for part in ("parameter", "moment1", "moment2"):
        for layer in range(layers):
            for index, matrix in enumerate(matrices):
                found[f"{part}.{layer}.matrix{index}"] = rows(matrix, ranks), columns(matrix, ranks)
            for index, vector in enumerate(vectors):
                found[f"{part}.{layer}.vector{index}"] = rows(vector, ranks), whole(vector, ranks)
    return found


def small(ranks: int, shrink: int) -> Layouts:
    """Return 2,000 matrices of 6 KiB from rows to columns."""
    shape = (32, 48)
    return {f"tensor{index:04}": (rows(shape, ranks), columns(shape, ranks)) for index in range(2000 // shrink)}


def uneven(ranks: int, shrink: int) -> Layouts:
    """Return 24 matrices that go to three quarters of the ranks, half of them as rows, half as columns."""
    fewer = max(1, ranks * 3 // 4)
    shape = (1021 // shrink, 1024 // shrink)
    targets = rows(shape, fewer), columns(shape, fewer)
    return {f"matrix{index:02}": (rows(shape, ranks), targets[index % 2]) for index in range(24)}


def replicas(ranks: int, shrink: int) -> Layouts:
    """Return one matrix that every rank has, from then on cut by rows."""
    shape = (4096 // shrink, 4096 // shrink)
    return {"weight": (whole(shape, ranks), rows(shape, ranks))}


def skewed(ranks: int, shrink: int) -> Layouts:
    """Return one matrix that goes from the first rank to the last, and 16 small ones from rows to columns."""
    large, little = (4096 // shrink, 4096 // shrink), (128 // shrink, 128 // shrink)
    found = {"large": (whole(large, 1), whole(large, 1, ranks - 1))}
    return found | {f"small{index:02}": (rows(little, ranks), columns(little, ranks)) for index in range(16)}


def huge(ranks: int, shrink: int) -> Layouts:
    """Return one matrix from rows to columns, of which each of two ranks holds 2.25 GiB."""
    shape = (24576 // shrink, 49152 // shrink)
    return {"weight": (rows(shape, ranks), columns(shape, ranks))}


CASES: Mapping[str, Case] = {
    "transpose": Case("4096 x 4096, rows to columns", transpose),
    "optimizer": Case("288 tensors of an optimizer state, 72 MiB", optimizer),
    "small": Case("2,000 tensors of 6 KiB, rows to columns", small),
    "uneven": Case("24 tensors of 1021 x 1024, P to 3/4 P ranks", uneven),
    "replicas": Case("4096 x 4096, replicated to rows", replicas),
    "skewed": Case("4096 x 4096 from the first rank to the last, and 16 small tensors", skewed),
    "huge": Case("24576 x 49152, rows to columns: displacements above 2 GiB", huge, ranks=(2,), resident=False),
}
