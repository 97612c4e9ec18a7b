"""What an operator whose windows reach over the cuts reads of its inputs, part after part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.backend.tensor_spec import Part
from mpiparallel.graph.operator import Operator
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.halo import parts_of, read_layouts
from mpiparallel.parallel.operator_placement import OperatorPlacement

# Rows over two ranks, columns over three.
DEVICES = DeviceMatrix((2, 3))
IMAGE = Layout((4, 9), DEVICES, ((0,), (1,)))
WEIGHT = Layout((3,), DEVICES, ((),))


class Window(Operator):
    """Reads one more element to the left of its part of the output and two to the right, of the first input."""

    reads_beyond = (1,)

    def reads(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> tuple[Box, ...]:
        box = outputs[0].box
        columns = max(box.start[1] - 1, 0), min(box.stop[1] + 2, 9)
        return Box((box.start[0], columns[0]), (box.stop[0], columns[1])), *(part.box for part in inputs[1:])


class InBothDims(Window):
    reads_beyond = (0, 1)

    def reads(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> tuple[Box, ...]:
        first, *others = super().reads(inputs, outputs)
        rows = max(first.start[0] - 1, 0), min(first.stop[0] + 1, 4)
        return Box((rows[0], first.start[1]), (rows[1], first.stop[1])), *others


def boxes(layout: Layout) -> list[Box]:
    return [layout.box(rank) for rank in range(6)]


def test_parts_reach_over_the_cut_along_the_dim_of_the_window_alone() -> None:
    (read,) = read_layouts(Window(), OperatorPlacement((IMAGE,), (IMAGE,)))
    columns = (0, 5), (2, 8), (5, 9)
    assert boxes(read) == [Box((row, first), (row + 2, stop)) for row in (0, 2) for first, stop in columns]


def test_parts_reach_over_the_cuts_of_all_dims_that_windows_have() -> None:
    (read,) = read_layouts(InBothDims(), OperatorPlacement((IMAGE,), (IMAGE,)))
    rows, columns = ((0, 3), (1, 4)), ((0, 5), (2, 8), (5, 9))
    assert boxes(read) == [Box((top, first), (bottom, stop)) for top, bottom in rows for first, stop in columns]


def test_where_nothing_is_cut_along_the_window_all_is_read_as_it_lies() -> None:
    uncut = Layout((4, 9), DEVICES, ((0,), ()))
    placement = OperatorPlacement((uncut, WEIGHT), (uncut,))
    assert read_layouts(Window(), placement) == (uncut, WEIGHT)


def test_the_cut_may_be_that_of_an_output_alone_or_of_a_later_input() -> None:
    uncut = Layout((4, 9), DEVICES, ((0,), ()))
    assert read_layouts(Window(), OperatorPlacement((uncut,), (IMAGE,))) == (uncut,)

    class OfTheSecond(Operator):
        reads_beyond = (0,)

        def reads(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> tuple[Box, ...]:
            box = inputs[1].box
            return inputs[0].box, Box((max(box.start[0] - 1, 0), 0), (box.stop[0], 9))

    whole = Layout((3,), DEVICES, ((),))
    rows = Layout((4, 9), DEVICES, ((0,), ()))
    first, second = read_layouts(OfTheSecond(), OperatorPlacement((whole, rows), (rows,)))
    assert first == whole
    assert boxes(second) == [Box((0, 0), (2, 9))] * 3 + [Box((1, 0), (4, 9))] * 3


def test_an_operator_without_a_window_reads_its_own_parts() -> None:
    placement = OperatorPlacement((IMAGE, WEIGHT), (IMAGE,))
    assert read_layouts(Operator(), placement) is placement.inputs


def test_a_rank_has_one_part_of_each_tensor() -> None:
    found: list[Any] = parts_of((IMAGE, WEIGHT), 4)
    assert found == [Part((4, 9), Box((2, 3), (4, 6))), Part((3,), Box((0,), (3,)))]
