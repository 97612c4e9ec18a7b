"""Checksums of what was sent and of what has arrived: each difference is told on every rank, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.verification import Checked, verify

CHECKSUMS = (0, 1, 2, (1 << 31) + 1, (1 << 32) - 1, 1 << 63, (1 << 63) - 1, (1 << 63) + 1, (1 << 64) - 1)


def verdict(sent: Sequence[int], arrived: Sequence[int]) -> list[str | None]:
    """Return what each of two ranks says where windows of these checksums went from the first to the second."""

    def on_each_rank(communicator: Communicator) -> str | None:
        names = [(f"window {place}",) for place in range(len(arrived))]
        mine = Checked({1: list(sent)}) if communicator.rank == 0 else Checked({}, {0: list(arrived)}, {0: names})
        try:
            verify(mine, communicator)
        except ReshardError as error:
            return str(error)
        return None

    return run_world(2, on_each_rank)


@pytest.mark.parametrize(("sent", "arrived"), list(combinations(CHECKSUMS, 2)))
def test_two_checksums_are_never_taken_for_one_another(sent: int, arrived: int) -> None:
    for told in verdict([7, sent], [7, arrived]) + verdict([sent, 7], [arrived, 7]) + verdict([sent], [arrived]):
        assert told is not None
        assert "bytes arrived damaged" in told


@pytest.mark.parametrize(("first", "second"), list(combinations(CHECKSUMS, 2)))
def test_windows_that_change_places_are_damaged_and_those_in_their_places_are_not(first: int, second: int) -> None:
    assert verdict([first, second], [first, second]) == [None, None]
    for told in verdict([first, second], [second, first]):
        assert told == "rank 1: bytes arrived damaged: window 0 from rank 0; window 1 from rank 0"


@pytest.mark.parametrize(
    ("tensors", "told"),
    [
        (("w",), "w"),
        (("w", "w", "w"), "w"),
        (("w", "b"), "w and 1 more tensors"),
        (("b", "w", "b", "v"), "b and 2 more tensors"),
    ],
)
def test_a_damaged_window_is_told_by_its_first_tensor_and_the_number_of_others(
    tensors: tuple[str, ...], told: str
) -> None:
    def on_each_rank(communicator: Communicator) -> str:
        own = Checked({2: [1, 2]}) if communicator.rank == 1 else Checked()
        if communicator.rank == 2:
            own.add(Checked({}, {1: [1, 3]}, {1: [("fine",), tensors]}))
        with pytest.raises(ReshardError) as caught:
            verify(own, communicator)
        return str(caught.value)

    assert run_world(3, on_each_rank) == [f"rank 2: bytes arrived damaged: {told} from rank 1"] * 3
