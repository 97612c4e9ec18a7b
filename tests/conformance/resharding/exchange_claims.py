"""What every communicator must do between pairs of members, in shared memory and in worlds inside it, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError
from tests.conformance.communicator import SIZES, Claim, Run, made

Views = dict[int, list[NDArray[Any]]]

# Around multiples of the small message of the MPI ranks.
LENGTHS = (0, 1, 18, 19, 20, 38, 39, 300)
FORMS = (
    ((), "f8"),
    ((0, 3), "f4"),
    ((5,), "?"),
    ((7,), "i1"),
    ((4, 3), "f2"),
    ((2, 3, 4), "c16"),
    ((3, 1, 5), "i4"),
    ((40, 30), "u2"),
    ((2, 2), "V3"),
    ((3, 2), "M8[us]"),
    ((6,), ">i8"),
)


def hosts_are_named_by_their_lowest_rank(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        own = communicator.hosts[communicator.rank]
        here = [rank for rank, host in zip(communicator.ranks, communicator.hosts, strict=True) if host == own]
        assert communicator.host_ranks == tuple(here)
        assert all(host <= rank for rank, host in zip(communicator.ranks, communicator.hosts, strict=True))
        gathered = np.empty((communicator.size, communicator.size), np.int64)
        communicator.all_gather(np.array(communicator.hosts), gathered)
        assert (gathered == communicator.hosts).all()
        assert communicator.library

    for size in SIZES:
        run(size, check)


def lengths_of(turn: int, size: int) -> dict[tuple[int, int], int]:
    """Return how many bytes pass between which members; many pairs have no traffic, and some members none."""
    generator = np.random.default_rng(turn)
    pairs = [(source, target) for source in range(size) for target in range(size)]
    return {pair: int(generator.choice(LENGTHS)) for pair in pairs if generator.random() < 0.6}


def exchange_moves_bytes_between_those_that_name_each_other(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        own = communicator.rank
        for turn in range(8):
            lengths = lengths_of(turn, communicator.size)
            content = {
                (source, target): np.random.default_rng((turn, source, target)).integers(0, 256, length, np.uint8)
                for (source, target), length in lengths.items()
            }
            receives = {
                source: np.zeros(length, np.uint8) for (source, target), length in lengths.items() if target == own
            }
            communicator.exchange(
                {target: sent for (source, target), sent in content.items() if source == own}, receives
            )
            for source, received in receives.items():
                assert_array_equal(received, content[source, own])

    for size in SIZES:
        run(size, check)


def strided(generator: np.random.Generator, form: tuple[tuple[int, ...], str]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return an array and a view of this form in it: cut, stepped, with its dims in another order or backward."""
    shape, dtype = form
    order = generator.permutation(len(shape))
    before, after = generator.integers(0, 3, (2, len(shape)))
    steps = generator.integers(1, 3, len(shape))
    cuts = [slice(before[dim], before[dim] + max(0, (shape[dim] - 1) * steps[dim] + 1), steps[dim]) for dim in order]
    whole = [before[dim] + max(0, (shape[dim] - 1) * steps[dim] + 1) + after[dim] for dim in order]
    array = np.zeros(whole, dtype)
    ways = tuple(slice(None, None, way) for way in generator.choice([1, 1, 1, -1], len(shape)))
    view = np.transpose(array[(*cuts, ...)], np.argsort(order))[(*ways, ...)]
    assert view.shape == shape
    return array, view


def filled(form: tuple[tuple[int, ...], str], seed: int) -> NDArray[Any]:
    shape, dtype = form
    if np.dtype(dtype).kind in "VM" or dtype[0] == ">":
        nbytes = np.dtype(dtype).itemsize * int(np.prod(shape))
        return np.random.default_rng(seed).integers(0, 100, nbytes, np.uint8).view(dtype).reshape(shape)
    return made(seed, dtype, shape)


def strided_exchange_fills_the_views_and_nothing_else(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        own, size = communicator.rank, communicator.size
        for turn in range(5):
            generator = np.random.default_rng((turn, own))
            drawn = np.random.default_rng(turn)
            forms = {pair: [FORMS[at] for at in drawn.integers(0, len(FORMS), 3)] for pair in lengths_of(turn, size)}
            sent = {pair: [strided(generator, form) for form in some] for pair, some in forms.items() if pair[0] == own}
            taken = {
                pair: [strided(generator, form) for form in some] for pair, some in forms.items() if pair[1] == own
            }
            exchange = communicator.strided_exchange(
                {target: [view for _, view in some] for (_, target), some in sent.items()},
                {source: [view for _, view in some] for (source, _), some in taken.items()},
            )
            for time in range(2):
                for (source, target), some in sent.items():
                    for at, (_, view) in enumerate(some):
                        view[...] = filled(forms[source, target][at], 100 * time + 10 * source + target + at)
                exchange.run()
                communicator.barrier()
                for (source, target), some in taken.items():
                    for at, (array, view) in enumerate(some):
                        expected = filled(forms[source, target][at], 100 * time + 10 * source + target + at)
                        assert_array_equal(view.copy().reshape(-1).view("V1"), expected.reshape(-1).view("V1"))
                        view[...] = np.zeros((), view.dtype)
                        assert not array.reshape(-1).view(np.uint8).any(), "bytes beside the view have changed"
                communicator.barrier()
            exchange.free()

    for size in SIZES:
        run(size, check)


def strided_exchange_sends_neighbours_and_columns_of_one_array(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        own, size = communicator.rank, communicator.size
        rows = np.arange(12 * size, dtype="f4").reshape(4, 3 * size) + 1000 * own
        columns = np.zeros((4 * size, 3), "f4")
        sends = {peer: [rows[:, 3 * peer : 3 * peer + 3]] for peer in range(size)}
        receives = {peer: [columns[4 * peer : 4 * peer + 4]] for peer in range(size)}
        exchange = communicator.strided_exchange(sends, receives)
        exchange.run()
        exchange.free()
        everything = np.arange(12 * size, dtype="f4").reshape(4, 3 * size)[:, 3 * own : 3 * own + 3]
        assert_array_equal(columns, np.concatenate([everything + 1000 * peer for peer in range(size)]))
        single = np.zeros((6, 8), "i4")
        apart = communicator.strided_exchange(
            {own: [single[0, :4], single[0, 4:], single[1:3]]}, {own: [single[3, :4], single[3, 4:], single[4:]]}
        )
        single[:3] = np.arange(24).reshape(3, 8)
        apart.run()
        assert_array_equal(single[3:], single[:3])
        apart.free()
        with pytest.raises(CommunicationError, match="it was freed"):
            apart.run()

    for size in SIZES:
        run(size, check)


def unlike_ends_are_refused_and_the_world_goes_on(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        own, size = communicator.rank, communicator.size
        after, before = (own + 1) % size, (own - 1) % size
        pairs: list[tuple[Any, Any]] = [
            ([np.zeros(3)], [np.zeros(4)]),
            ([np.zeros(3)], [np.zeros(3, "f4")]),
            ([np.zeros(3), np.zeros(2)], [np.zeros(2), np.zeros(3)]),
            ([np.zeros(3)], []),
            ([], [np.zeros(3)]),
        ]
        for sent, taken in pairs:
            with pytest.raises(CommunicationError, match="both must list equal shapes and dtypes"):
                communicator.strided_exchange({after: sent if own == 0 else []}, {before: taken if own == 1 else []})
        for sent_length, taken_length in ((5, 8), (8, 5), (0, 7), (7, 0), (19, 38), (57, 19), (9000, 3), (3, 9000)):
            sends = {after: np.zeros(sent_length, np.uint8)}
            with pytest.raises(CommunicationError, match=f"sends {sent_length} bytes .* expects {taken_length} bytes"):
                communicator.exchange(sends, {before: np.zeros(taken_length, np.uint8)})
            with pytest.raises(CommunicationError, match=f"sends {sent_length} bytes .* expects {taken_length} bytes"):
                communicator.exchange({own: sends[after]}, {own: np.zeros(taken_length, np.uint8)})
            received = np.zeros(40, np.uint8)
            communicator.exchange({after: np.full(40, own + 1, np.uint8)}, {before: received})
            assert (received == before + 1).all()

    for size in (2, 3):
        run(size, check)


def members_of_a_host_see_each_others_memory(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        if not communicator.can_share:
            return
        own, size = communicator.rank, communicator.size
        here = [communicator.ranks.index(rank) for rank in communicator.host_ranks]
        memory = communicator.share(4096 * own)
        memory.own[:] = own
        communicator.barrier()
        for member in here:
            block = memory.of(member)
            assert block.dtype == np.uint8
            assert block.shape == (4096 * member,)
            assert (block == member).all()
        communicator.barrier()
        neighbour = here[(here.index(own) + 1) % len(here)]
        memory.of(neighbour)[:1] = 100 + own
        communicator.barrier()
        if own:
            assert memory.own[0] == 100 + here[here.index(own) - 1]
        kept = memory.of(neighbour)
        memory.release()
        for member in range(size):
            with pytest.raises(CommunicationError, match=f"memory of member {member} is not seen"):
                memory.of(member)
        del memory
        communicator.barrier()
        assert (kept[1:] == neighbour).all()
        floats = communicator.share(80).own.view("f8")
        floats[:] = np.arange(10)
        assert floats.sum() == 45

    for size in SIZES:
        run(size, check)


def a_world_of_ranks_has_them_in_the_order_that_was_asked_for(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        own, ranks = communicator.ranks[communicator.rank], communicator.ranks
        orders = [ranks[::-1], ranks[1:] + ranks[:1], ranks[:1], ranks[::2][::-1], ranks]
        for order in orders * 2:
            if own not in order:
                continue
            world = communicator.world_of(list(order))
            assert (world.rank, world.size) == (order.index(own), len(order))
            assert world.ranks == tuple(range(len(order)))
            assert set(world.host_ranks) == {order.index(rank) for rank in communicator.host_ranks if rank in order}
            assert world.can_share == communicator.can_share
            gathered = np.empty(world.size, np.int64)
            world.all_gather(np.array(own), gathered)
            assert tuple(gathered.tolist()) == order
            received = np.zeros(3, np.uint8)
            last = world.size - 1
            world.exchange({last - world.rank: np.full(3, world.rank, np.uint8)}, {last - world.rank: received})
            assert (received == last - world.rank).all()
            inner = world.world_of(world.ranks[::-1])
            inner.all_gather(np.array(own), gathered)
            assert tuple(gathered.tolist()) == order[::-1]
            assert inner.group([inner.rank]).size == 1
            inner.free()
            world.free()

    for size in SIZES:
        run(size, check)


def wrong_ends_are_refused(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        c, size, own = communicator, communicator.size, communicator.ranks[communicator.rank]
        frozen = np.zeros(2, np.uint8)
        frozen.flags.writeable = False
        nothing: Mapping[int, Any] = {}
        wrong: list[tuple[str, Callable[[], object]]] = [
            ("no member", lambda: c.exchange({size: np.zeros(1, np.uint8)}, nothing)),
            ("pass bytes", lambda: c.exchange({c.rank: np.zeros(1)}, {c.rank: np.zeros(1)})),  # type: ignore[dict-item]
            ("pass bytes", lambda: c.exchange({0: np.zeros((2, 2), np.uint8)}, nothing)),
            ("pass bytes", lambda: c.exchange({0: np.zeros(4, np.uint8)[::2]}, nothing)),
            ("read-only", lambda: c.exchange(nothing, {0: frozen})),
            ("no member", lambda: c.strided_exchange({-1: []}, nothing)),
            ("not a NumPy array", lambda: c.strided_exchange({0: [1.0]}, nothing)),  # type: ignore[list-item]
            ("Python objects", lambda: c.strided_exchange({0: [np.array([None])]}, nothing)),
            ("read-only", lambda: c.strided_exchange(nothing, {0: [frozen]})),
            ("cannot have -1 bytes", lambda: c.share(-1)),
            ("name a rank twice", lambda: c.world_of([own, own])),
            ("are not among", lambda: c.world_of([own, 1000])),
            ("only members", lambda: c.world_of([rank for rank in c.ranks if rank != own])),
        ]
        for words, call in wrong:
            with pytest.raises(CommunicationError, match=words):
                call()
        c.barrier()

    for size in (2, 3):
        run(size, check)


EXCHANGE_CLAIMS: tuple[Claim, ...] = (
    hosts_are_named_by_their_lowest_rank,
    exchange_moves_bytes_between_those_that_name_each_other,
    strided_exchange_fills_the_views_and_nothing_else,
    strided_exchange_sends_neighbours_and_columns_of_one_array,
    unlike_ends_are_refused_and_the_world_goes_on,
    members_of_a_host_see_each_others_memory,
    a_world_of_ranks_has_them_in_the_order_that_was_asked_for,
    wrong_ends_are_refused,
)
