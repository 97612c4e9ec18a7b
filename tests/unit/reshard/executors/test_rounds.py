"""The rounds of a move through windows: what travels as it is, what is packed, and how much memory that needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.reshard.bound_plan import BoundPlan, PeerPieces
from mpiparallel.reshard.executors.rounds import Round, Rounds

WHOLE = np.arange(40, dtype=np.uint8)
STRIDED = np.arange(40, dtype=np.uint8)[::2]
PAIR = (np.array([1, 2, 3], np.uint8), np.array([[4, 5]], np.int16))


def bound(outgoing: dict[int, tuple[Any, ...]], incoming: dict[int, tuple[Any, ...]] | None = None) -> BoundPlan:
    sides = (outgoing, incoming or {})
    out, into = (
        tuple(PeerPieces(member, tuple(f"{member}{n}" for n in range(len(own))), own) for member, own in side.items())
        for side in sides
    )
    return BoundPlan(out, into, ())


class Memory:
    """Makes memory, and notes how much was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, count: int) -> Any:
        self.asked.append(count)
        return np.zeros(count, np.uint8)


def sent(rounds: Rounds) -> list[dict[int, list[int]]]:
    """Return what each member gets in each round, as bytes."""
    found = []
    for step in rounds.steps:
        for window, piece in step.packing:
            np.copyto(window, piece, casting="no")
        found.append({member: content.tolist() for member, content in step.sends.items()})
    return found


def test_a_contiguous_piece_travels_as_it_is_and_others_are_packed() -> None:
    memory = Memory()
    rounds = Rounds(bound({1: (WHOLE,), 3: (STRIDED,), 4: PAIR}), 1.0, memory)
    # 20 bytes rounded up to 32, then 3 bytes, one that is skipped and 4 bytes, rounded up to 16.
    assert memory.asked == [48, 0]
    assert len(rounds.steps) == 1
    assert np.shares_memory(rounds.steps[0].sends[1], WHOLE)
    assert not np.shares_memory(rounds.steps[0].sends[3], STRIDED)
    assert sent(rounds) == [{1: WHOLE.tolist(), 3: STRIDED.tolist(), 4: [1, 2, 3, 0, 4, 0, 5, 0]}]


def test_a_buffer_may_be_asked_to_have_all_of_a_round_at_a_given_alignment() -> None:
    memory = Memory()
    rounds = Rounds(bound({1: (WHOLE,), 4: PAIR}), 1.0, memory, all_of_it=True, alignment=8)
    assert memory.asked == [48 + 16, 0]
    assert sent(rounds) == [{1: WHOLE.tolist(), 4: [1, 2, 3, 0, 0, 0, 0, 0, 4, 0, 5, 0]}]
    assert rounds.sent[:40].tolist() == WHOLE.tolist()
    assert rounds.sent[48:52].tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("share", "lengths", "room"),
    [
        # Of 48 and 32 bytes, as streams count when they are rounded up.
        (0.5, [(16, 16), (16, 4), (8, None)], 16),
        (0.7, [(32, 16), (8, 4)], 16),
        (0.01, [(16, 16), (16, 4), (8, None)], 16),
        (1.0, [(40, 20)], 32),
    ],
)
def test_each_round_has_the_same_share_of_each_stream(
    share: float, lengths: list[tuple[int | None, int | None]], room: int
) -> None:
    memory = Memory()
    rounds = Rounds(bound({1: (WHOLE,), 3: (STRIDED,)}), share, memory)
    steps = sent(rounds)
    assert [tuple(len(step[member]) if member in step else None for member in (1, 3)) for step in steps] == lengths
    assert memory.asked == [room, 0]
    for member, piece in ((1, WHOLE), (3, STRIDED)):
        assert [byte for step in steps for byte in step.get(member, [])] == piece.tolist()


def test_what_arrives_is_unpacked_where_it_belongs_and_known_by_its_tensors() -> None:
    targets = np.zeros(40, np.uint8)[::2], np.zeros(2, np.uint8), np.zeros(3, np.uint8)
    memory = Memory()
    rounds = Rounds(bound({}, {2: targets}), 1.0, memory)
    assert memory.asked == [0, 32]
    (step,) = rounds.steps
    step.receives[2][:] = np.arange(25)
    for piece, window in step.unpacking:
        np.copyto(piece, window, casting="no")
    assert [piece.tolist() for piece in targets] == [list(range(20)), [20, 21], [22, 23, 24]]
    assert rounds.tensors == {2: [("20", "21", "22")]}
    # 32 + 16 + 16 bytes, half of which are a round.
    assert Rounds(bound({}, {2: targets}), 0.5, Memory()).tensors == {2: [("20",), ("21", "22")]}


def test_all_ranks_have_as_many_rounds_as_the_one_with_most() -> None:
    def agree(communicator: Communicator) -> list[int]:
        rounds = Rounds(bound({1: (WHOLE,)} if communicator.rank == 0 else {}), 0.5, Memory())
        rounds.agree(communicator)
        steps = list(rounds.steps)
        rounds.forget()
        assert rounds.steps == []
        assert communicator.rank == 0 or steps == [Round([], {}, {}, [])] * 3
        return [len(step.sends) for step in steps]

    assert run_world(2, agree) == [[1, 1, 1], [0, 0, 0]]
