"""What every communicator must do, against NumPy.

A claim takes ``run(size, function)``, which calls ``function(communicator)`` on that many ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator, Reduction
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CommunicationError

Run = Callable[[int, Callable[[Communicator], object]], object]
Claim = Callable[[Run], None]

SIZES = (1, 2, 3, 4)
SHAPES = ((), (0,), (1,), (7,), (3, 5))
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS = ("f2", "f4", "f8")
COMPLEX = ("c8", "c16")
DTYPES = ("?", *INTEGERS, *FLOATS, *COMPLEX)
UFUNCS: dict[Reduction, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def made(rank: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Small whole numbers, so that every order of a reduction gives the same result."""
    places = np.arange(math.prod(shape)).reshape(shape)
    array = np.asarray((places * 2654435761 + rank * 40503 >> 7) % 4).astype(dtype)
    return np.asarray(array * array.dtype.type(1 + 1j)) if array.dtype.kind == "c" else array


def reduced(arrays: list[NDArray[Any]], operation: Reduction) -> NDArray[Any]:
    result = arrays[0].copy()
    for array in arrays[1:]:
        result = np.asarray(UFUNCS[operation](result, array))
    return result


def reductions() -> Iterator[tuple[str, Reduction, tuple[int, ...]]]:
    for dtype in DTYPES:
        for operation in UFUNCS:
            if dtype not in COMPLEX or operation in ("sum", "prod"):
                yield from ((dtype, operation, shape) for shape in SHAPES)


def a_communicator_knows_its_members(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        assert len(communicator.ranks) == communicator.size
        assert list(communicator.ranks) == sorted(set(communicator.ranks))
        gathered = np.empty(communicator.size, np.int64)
        communicator.all_gather(np.array(communicator.rank), gathered)
        assert_array_equal(gathered, np.arange(communicator.size))
        assert communicator.ranks[communicator.rank] in communicator.host_ranks
        assert set(communicator.host_ranks) <= set(communicator.ranks)
        communicator.barrier()

    for size in SIZES:
        run(size, check)


def all_reduce_equals_numpy(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        for dtype, operation, shape in reductions():
            array = made(communicator.rank, dtype, shape)
            communicator.all_reduce(array, operation)
            expected = reduced([made(rank, dtype, shape) for rank in range(communicator.size)], operation)
            assert_array_equal(array, expected, strict=True)

    for size in SIZES:
        run(size, check)


def all_reduce_gives_equal_bits_on_all_ranks(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        generator = np.random.default_rng(communicator.rank)
        for dtype in FLOATS:
            for length in (1, 33, 300):
                numbers = generator.normal(size=length).astype(dtype)
                for operation in UFUNCS:
                    array = numbers.copy()
                    communicator.all_reduce(array, operation)
                    assert_equal_bits(communicator, array)

    for size in SIZES:
        run(size, check)


def nan_wins_and_signed_zeros_agree_in_max_and_min(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        corners = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5]
        pairs = np.array([(a, b) for a in corners for b in corners])
        for dtype in FLOATS:
            for operation in ("max", "min"):
                array = pairs[:, communicator.rank].astype(dtype)
                communicator.all_reduce(array, operation)
                assert_array_equal(array, UFUNCS[operation](pairs[:, 0], pairs[:, 1]).astype(dtype))
                assert_equal_bits(communicator, array)

    run(2, check)


def assert_equal_bits(communicator: Communicator, array: NDArray[Any]) -> None:
    bits = array.view(np.uint8)
    gathered = np.empty((communicator.size, bits.size), np.uint8)
    communicator.all_gather(bits, gathered)
    assert (gathered == gathered[0]).all(), "ranks hold different bits"


def half_precision_sums_are_rounded_once(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        # In float16, 2048 + 1 + 1 is 2048 when every step is rounded; in bfloat16, 256 + 1 + 1 is 256.
        for dtype, large, beyond in ((np.float16, 2048.0, 60000.0), (bfloat16, 256.0, 3e38)):
            array = np.array([large if communicator.rank == 0 else 1.0, beyond], dtype)
            communicator.all_reduce(array)
            assert_array_equal(array, np.array([large + 2, np.inf], dtype))

    run(3, check)


def all_gather_joins_blocks_member_after_member(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        for dtype in DTYPES:
            for shape in SHAPES:
                target = np.empty((communicator.size, *shape), dtype)
                communicator.all_gather(made(communicator.rank, dtype, shape), target)
                expected = np.stack([made(rank, dtype, shape) for rank in range(communicator.size)])
                assert_array_equal(target, expected, strict=True)

    for size in SIZES:
        run(size, check)


def reduce_scatter_leaves_one_reduced_block_a_member(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        for dtype, operation, shape in reductions():
            whole = (communicator.size, *shape)
            source = made(communicator.rank, dtype, whole)
            target = np.empty(shape, dtype)
            communicator.reduce_scatter(source, target, operation)
            expected = reduced([made(rank, dtype, whole) for rank in range(communicator.size)], operation)
            assert_array_equal(target, expected[communicator.rank, ...], strict=True)
            assert_array_equal(source, made(communicator.rank, dtype, whole), strict=True)

    for size in SIZES:
        run(size, check)


def all_to_all_transposes_blocks(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        for dtype in DTYPES:
            for shape in SHAPES:
                whole = (communicator.size, *shape)
                target = np.empty(whole, dtype)
                communicator.all_to_all(made(communicator.rank, dtype, whole), target)
                sent = [made(rank, dtype, whole)[communicator.rank, ...] for rank in range(communicator.size)]
                assert_array_equal(target, np.stack(sent), strict=True)

    for size in SIZES:
        run(size, check)


def all_to_all_v_moves_uneven_and_empty_blocks(run: Run) -> None:
    _check_all_to_all_v(run, (0, 1, 29))


def all_to_all_v_moves_blocks_counted_in_larger_elements(run: Run) -> None:
    _check_all_to_all_v(run, (64,))


def _check_all_to_all_v(run: Run, factors: Sequence[int]) -> None:
    def check(communicator: Communicator) -> None:
        for factor in factors:
            members = range(communicator.size)
            counts = [[factor * ((3 * source + 2 * target) % 4) for target in members] for source in members]
            blocks = [
                [made(source, "u1", (count,)) + target for target, count in enumerate(row)]
                for source, row in enumerate(counts)
            ]
            source_counts = counts[communicator.rank]
            target_counts = [counts[source][communicator.rank] for source in members]
            target = np.empty(sum(target_counts), np.uint8)
            communicator.all_to_all_v(
                np.concatenate(blocks[communicator.rank]).astype(np.uint8), source_counts, target, target_counts
            )
            assert_array_equal(target, np.concatenate([blocks[source][communicator.rank] for source in members]))

    for size in SIZES:
        run(size, check)


def broadcast_copies_the_root(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        for root in range(communicator.size):
            for dtype in DTYPES:
                for shape in SHAPES:
                    array = made(communicator.rank, dtype, shape)
                    communicator.broadcast(array, root)
                    assert_array_equal(array, made(root, dtype, shape), strict=True)

    for size in SIZES:
        run(size, check)


def reduce_changes_only_the_root(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        for root in range(communicator.size):
            for dtype, operation, shape in reductions():
                array = made(communicator.rank, dtype, shape)
                communicator.reduce(array, root, operation)
                arrays = [made(rank, dtype, shape) for rank in range(communicator.size)]
                expected = reduced(arrays, operation) if communicator.rank == root else arrays[communicator.rank]
                assert_array_equal(array, expected, strict=True)

    for size in SIZES:
        run(size, check)


def messages_arrive_by_tag_and_in_order(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        if communicator.rank == 0:
            for target in range(1, communicator.size):
                for tag in (0, 5):
                    for number, shape in enumerate(SHAPES):
                        communicator.send(made(number + tag, "f8", shape), target, tag)
        else:
            for tag in (0, 5):
                for number, shape in enumerate(SHAPES):
                    array = np.empty(shape)
                    communicator.receive(array, 0, tag)
                    assert_array_equal(array, made(number + tag, "f8", shape), strict=True)

    for size in SIZES:
        run(size, check)


def messages_fill_in_the_order_in_which_they_were_wanted(run: Run) -> None:
    _messages_cross(run, (5, 3), 3)


def messages_of_any_length_cross_without_waiting(run: Run) -> None:
    _messages_cross(run, (300, 300), 1)


def _messages_cross(run: Run, shape: tuple[int, ...], times: int) -> None:
    def check(communicator: Communicator) -> None:
        peers = [peer for peer in range(communicator.size) if peer != communicator.rank]
        # All send first, and receive under the tags in another order: with calls that wait, nobody would come on.
        keys = [(peer, tag, number) for peer in peers for tag in (0, 5) for number in (0, 1)]
        sent = {key: np.empty(shape) for key in keys}
        sends = [communicator.message_to(array, peer, tag) for (peer, tag, _), array in sent.items()]
        arrays = {(peer, tag, number): np.empty(shape) for peer in peers for tag in (5, 0) for number in (0, 1)}
        receives = [communicator.message_from(array, peer, tag) for (peer, tag, _), array in arrays.items()]
        for time in range(times):
            for (_, tag, number), array in sent.items():
                array[...] = made(communicator.rank + tag + number + time, "f8", shape)
            for message in (*sends, *receives):
                message.start()
            for message in (*reversed(receives), *sends):
                message.end()
            for (peer, tag, number), array in arrays.items():
                assert_array_equal(array, made(peer + tag + number + time, "f8", shape), strict=True)

    for size in SIZES:
        run(size, check)


def message_cannot_be_started_before_it_has_ended(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        if communicator.size == 1:
            return
        if communicator.rank == 0:
            message = communicator.message_from(np.empty(3), 1, 3)
            message.start()
            with pytest.raises(CommunicationError, match="start"):
                message.start()
            communicator.barrier()
            message.end()
        else:
            communicator.barrier()
            communicator.send(np.empty(3), 0, 3)

    run(2, check)


def message_that_was_let_go_of_takes_nothing_that_is_sent_later(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        first, second = np.full(3, np.nan), np.empty(3)
        if communicator.size == 1:
            return
        if communicator.rank == 0:
            message = communicator.message_from(first, 1, 4)
            message.start()
            del message
            communicator.barrier()
            communicator.receive(second, 1, 4)
            assert_array_equal(second, np.arange(3.0))
            assert np.isnan(first).all()
        else:
            communicator.barrier()
            communicator.send(np.arange(3.0), 0, 4)

    run(2, check)


def moved_bits_are_kept(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        bits = np.random.default_rng(communicator.rank).integers(0, 256, 96, np.uint8)
        first = np.random.default_rng(0).integers(0, 256, 96, np.uint8)
        for dtype in ("f2", "f8", "c16", ">i4", "M8[s]", "V3"):
            array = bits.copy().view(dtype)
            communicator.broadcast(array, 0)
            assert_array_equal(array.view(np.uint8), first)

    run(2, check)


def collectives_have_their_adjoints(run: Run) -> None:
    """For linear maps, ``<F x, y> == <x, F* y>``, summed over the ranks; exact, as the numbers are small integers."""

    def inner(communicator: Communicator, left: NDArray[Any], right: NDArray[Any]) -> float:
        total = np.array(np.vdot(left, right))
        communicator.all_reduce(total)
        return float(total)

    def check(communicator: Communicator) -> None:
        size, seed = communicator.size, communicator.rank
        block, other = made(seed, "f8", (5,)), made(seed + 10, "f8", (5,))
        whole, another = made(seed + 20, "f8", (size, 5)), made(seed + 30, "f8", (size, 5))

        gathered, scattered = np.empty((size, 5)), np.empty(5)
        communicator.all_gather(block, gathered)
        communicator.reduce_scatter(whole, scattered)
        assert inner(communicator, gathered, whole) == inner(communicator, block, scattered)

        summed, adjoint = block.copy(), other.copy()
        communicator.all_reduce(summed)
        communicator.all_reduce(adjoint)
        assert inner(communicator, summed, other) == inner(communicator, block, adjoint)

        exchanged, back = np.empty((size, 5)), np.empty((size, 5))
        communicator.all_to_all(whole, exchanged)
        communicator.all_to_all(another, back)
        assert inner(communicator, exchanged, another) == inner(communicator, whole, back)

        root = size - 1
        copied, collected = block.copy(), other.copy()
        communicator.broadcast(copied, root)
        communicator.reduce(collected, root)
        at_root = collected if communicator.rank == root else np.zeros(5)
        assert inner(communicator, copied, other) == inner(communicator, block, at_root)

    for size in SIZES:
        run(size, check)


def groups_are_made_once_from_world_ranks(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        assert communicator.group(communicator.ranks) is communicator
        own = communicator.ranks[communicator.rank]
        halves = [communicator.ranks[0::2], communicator.ranks[1::2]]
        half = halves[communicator.rank % 2]
        group = communicator.group(half[::-1])
        assert group.ranks == half
        assert group.ranks[group.rank] == own
        assert communicator.group(list(half)) is group
        assert group.group([own]).size == 1
        total = np.array(own)
        group.all_reduce(total)
        assert total == sum(half)

    for size in SIZES:
        run(size, check)


def a_freed_group_can_be_made_again(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        if communicator.rank < 2:
            ranks = communicator.ranks[:2]
            communicator.group(ranks).free()
            total = np.array(1)
            communicator.group(ranks).all_reduce(total)
            assert total == 2

    run(3, check)


def any_true_asks_all_ranks(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        assert communicator.any_true(communicator.rank == communicator.size - 1)
        assert not communicator.any_true(False)

    for size in SIZES:
        run(size, check)


def wrong_arguments_are_refused(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        c, size, own = communicator, communicator.size, communicator.ranks[communicator.rank]
        frozen = np.zeros(2)
        frozen.flags.writeable = False
        data = np.zeros(2 * size, np.uint8)
        wrong: list[tuple[str, Callable[[], object]]] = [
            ("not a NumPy array", lambda: c.all_reduce(np.float32(1.0))),  # type: ignore[arg-type]
            ("Python objects", lambda: c.broadcast(np.array([None]), 0)),
            ("not C-contiguous", lambda: c.all_reduce(np.zeros((3, 4)).T)),
            ("read-only", lambda: c.broadcast(frozen, 0)),
            ("no order", lambda: c.all_reduce(np.zeros(2, complex), "max")),
            ("cannot be reduced", lambda: c.all_reduce(np.zeros(2, "M8[s]"))),
            ("byte order", lambda: c.all_reduce(np.zeros(2, ">f4"))),
            ('"mean" is not known', lambda: c.all_reduce(np.zeros(2), "mean")),  # type: ignore[arg-type]
            ("one dtype", lambda: c.all_gather(np.zeros(2), np.zeros(2 * size, np.float32))),
            (f"need {2 * size}, got 1", lambda: c.all_gather(np.zeros(2), np.zeros(1))),
            (f"need {2 * size}, got 1", lambda: c.reduce_scatter(np.zeros(1), np.zeros(2))),
            ("must be alike", lambda: c.all_to_all(np.zeros(size), np.zeros(2 * size))),
            ("equal blocks", lambda: c.all_to_all(np.zeros(size + 1), np.zeros(size + 1))),
            ("pass bytes", lambda: c.all_to_all_v(np.zeros(2), [2], np.zeros(2), [2])),  # type: ignore[arg-type]
            ("entries for", lambda: c.all_to_all_v(data, [2] * (size + 1), data, [2] * size)),
            ("do not sum", lambda: c.all_to_all_v(data.copy(), [2] * size, data, [3] * size)),
            ("no member", lambda: c.broadcast(np.zeros(2), size)),
            ("no member", lambda: c.reduce(np.zeros(2), -1)),
            ("no member", lambda: c.send(np.zeros(2), size)),
            ("names itself", lambda: c.receive(np.zeros(2), c.rank)),
            ("tag 99999", lambda: c.send(np.zeros(2), (c.rank + 1) % size, 99999)),
            ("name a rank twice", lambda: c.group([own, own])),
            ("are not among", lambda: c.group([own, 1000])),
            ("only members", lambda: c.group([rank for rank in c.ranks if rank != own])),
        ]
        for words, call in wrong:
            with pytest.raises(CommunicationError, match=words):
                call()
        c.barrier()

    for size in (2, 3):
        run(size, check)


def started_collectives_end_with_what_blocking_ones_give(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        rank, size = communicator.rank, communicator.size
        for dtype, operation, shape in reductions():
            whole = (size, *shape)
            alone, total, block = made(rank, dtype, shape), made(rank, dtype, shape), np.empty(shape, dtype)
            gathered, scattered = np.empty(whole, dtype), made(rank, dtype, whole)
            communicator.all_reduce(alone, operation)
            endings = [
                communicator.start_reduce_scatter(scattered, block, operation),
                communicator.start_all_gather(made(rank, dtype, shape), gathered),
                communicator.start_all_reduce(total, operation),
            ]
            between = made(rank, dtype, shape)
            communicator.all_reduce(between, operation)
            for end in reversed(endings):
                end()
            assert_array_equal(between, alone, strict=True)
            assert_array_equal(total, reduced([made(member, dtype, shape) for member in range(size)], operation))
            assert_array_equal(gathered, np.stack([made(member, dtype, shape) for member in range(size)]))
            wholes = reduced([made(member, dtype, whole) for member in range(size)], operation)
            assert_array_equal(block, wholes[rank, ...], strict=True)

    for size in SIZES:
        run(size, check)


CLAIMS: tuple[Claim, ...] = (
    a_communicator_knows_its_members,
    all_reduce_equals_numpy,
    all_reduce_gives_equal_bits_on_all_ranks,
    nan_wins_and_signed_zeros_agree_in_max_and_min,
    half_precision_sums_are_rounded_once,
    all_gather_joins_blocks_member_after_member,
    reduce_scatter_leaves_one_reduced_block_a_member,
    all_to_all_transposes_blocks,
    all_to_all_v_moves_uneven_and_empty_blocks,
    all_to_all_v_moves_blocks_counted_in_larger_elements,
    broadcast_copies_the_root,
    reduce_changes_only_the_root,
    messages_arrive_by_tag_and_in_order,
    messages_fill_in_the_order_in_which_they_were_wanted,
    messages_of_any_length_cross_without_waiting,
    message_cannot_be_started_before_it_has_ended,
    message_that_was_let_go_of_takes_nothing_that_is_sent_later,
    moved_bits_are_kept,
    collectives_have_their_adjoints,
    groups_are_made_once_from_world_ranks,
    a_freed_group_can_be_made_again,
    any_true_asks_all_ranks,
    started_collectives_end_with_what_blocking_ones_give,
    wrong_arguments_are_refused,
)
