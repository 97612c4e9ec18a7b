"""Memory that messages take beside what they read and write, counted box by box."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.graph import Node, Value
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.ops import operations as P
from mpiparallel.parallel.border import Border, BorderOperator, EndSend, Receive, Send
from mpiparallel.parallel.overlap import Start
from mpiparallel.parallel.redistribution import redistribute
from mpiparallel.parallel.redistribution_operators import redistributing_operator
from mpiparallel.search.forecast.communication_buffers import communication_buffers, summing_buffers

FLOAT = np.dtype(np.float32)
TWO = DeviceMatrix((2,))


def on(first: int, *dims: tuple[int, ...], partial: tuple[int, ...] = ()) -> Layout:
    """A matrix of 4 x 4 on two ranks."""
    return Layout((4, 4), DeviceMatrix((2,), first), dims, partial)


ROWS, COLUMNS, WHOLE = on(0, (0,), ()), on(0, (), (0,)), on(0, (), ())
LATER_ROWS, LATER_COLUMNS, LATER_WHOLE = on(2, (0,), ()), on(2, (), (0,)), on(2, (), ())


def value(*shape: int) -> Value:
    return Value(TensorSpec(shape, FLOAT), "x")


def message(operator: type[BorderOperator], source: Layout, target: Layout) -> Node:
    made = operator(Border(7, source, target))
    node = Node(made, "message", () if operator is Receive else (value(2, 4),))
    node.outputs = (value(2, 4),)
    return node


@pytest.mark.parametrize(
    ("source", "target", "sent"),
    [
        # To each of two ranks two halves of two rows: four numbers that are not in one piece.
        (ROWS, LATER_COLUMNS, 2 * 16),
        # Rows are in one piece, and so is all that a rank has.
        (ROWS, LATER_ROWS, 0),
        (ROWS, LATER_WHOLE, 0),
        (COLUMNS, LATER_COLUMNS, 0),
        (COLUMNS, LATER_ROWS, 0),
    ],
)
def test_what_is_sent_between_stages_is_copied_where_it_is_not_in_one_piece(
    source: Layout, target: Layout, sent: int
) -> None:
    assert communication_buffers([message(Send, source, target)], 0) == sent


def test_copies_of_what_has_been_sent_are_used_again_by_their_sizes() -> None:
    send, end = (message(operator, ROWS, LATER_COLUMNS) for operator in (Send, EndSend))
    wide = Layout((8, 4), TWO, ((0,), ())), Layout((8, 4), DeviceMatrix((2,), 2), ((), (0,)))
    larger = message(Send, *wide)
    assert communication_buffers([send, send], 0) == 64
    assert communication_buffers([send, end, send], 0) == 32
    assert communication_buffers([send, end, send, send], 0) == 64
    assert communication_buffers([send, end, send, end, send], 0) == 32
    # Four rows of two are another size.
    assert communication_buffers([send, end, larger], 0) == 32 + 64


@pytest.mark.parametrize(
    ("source", "target", "landed"),
    [(COLUMNS, LATER_ROWS, 2 * 16), (ROWS, LATER_COLUMNS, 0), (ROWS, LATER_ROWS, 0), (COLUMNS, LATER_WHOLE, 2 * 32)],
)
def test_what_arrives_from_another_stage_lands_beside_where_it_fills_no_one_piece(
    source: Layout, target: Layout, landed: int
) -> None:
    assert communication_buffers([message(Receive, source, target)], 2) == landed
    assert communication_buffers([message(Receive, source, target)] * 2, 2) == 2 * landed


def moved(*pairs: tuple[Layout, Layout], rank: int = 0, starts: bool = False) -> Node:
    steps = [redistribute(*pair)[0] for pair in pairs]
    operator = redistributing_operator(steps, rank)
    node = Node(
        Start(operator) if starts else operator, "move", tuple(value(*one.source.local_shape(rank)) for one in steps)
    )
    node.outputs = tuple(value(*one.target.local_shape(rank)) for one in steps)
    return node


TERMS = on(0, (), (), partial=(0,))
ONE_ROW = Layout((1, 4), TWO, ((), (0,))), Layout((1, 4), TWO, ((), ()))


@pytest.mark.parametrize("starts", [False, True])
@pytest.mark.parametrize(
    ("pairs", "taken"),
    [
        # Blocks of the first dim lie one behind the other; others are packed and unpacked.
        ([(ROWS, WHOLE)], 0),
        ([(COLUMNS, WHOLE)], 32 + 64),
        ([ONE_ROW], 0),
        ([(ROWS, WHOLE), (ROWS, WHOLE)], 2 * (32 + 64)),
        ([(TERMS, ROWS)], 0),
        ([(TERMS, COLUMNS)], 64 + 32),
        ([(TERMS, WHOLE)], 0),
        ([(TERMS, WHOLE), (TERMS, WHOLE)], 2 * 64),
        # Two halves of rows leave, and what comes is two rows of a matrix of two columns.
        ([(ROWS, COLUMNS)], 16),
        # Two rows leave in one piece, and come to be half of two rows.
        ([(COLUMNS, ROWS)], 16),
        ([(ROWS, COLUMNS), (COLUMNS, ROWS)], 32),
    ],
)
def test_collectives_pack_what_does_not_lie_as_it_is_sent(
    pairs: list[tuple[Layout, Layout]], taken: int, starts: bool
) -> None:
    assert communication_buffers([moved(*pairs, starts=starts)], 0) == taken


def test_for_a_sum_the_library_takes_as_much_as_it_sums_and_twice_that_where_parts_stay_for_one_at_a_time() -> None:
    whole, part, both = moved((TERMS, WHOLE)), moved((TERMS, ROWS)), moved((TERMS, WHOLE), (TERMS, WHOLE), starts=True)
    assert summing_buffers([whole]) == 64
    assert summing_buffers([part]) == 128
    assert summing_buffers([both]) == 128
    assert summing_buffers([part, whole, whole]) == 128
    assert summing_buffers([moved((ROWS, WHOLE)), Node(P.ReLU(), "relu", (value(99),))]) == 0
