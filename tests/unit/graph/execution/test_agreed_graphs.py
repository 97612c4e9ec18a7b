"""Ranks agree on graphs with collectives in them: after which runs, and on all of them or on none."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.graph.execution.agreed_graphs import AgreedGraphs

Words = tuple[Any, ...]


@dataclass
class Proposal:
    """It stands for a stretch of steps that has recorded these calls of these ranks."""

    groups: list[Communicator]
    calls: list[tuple[tuple[int, ...], Words]]
    told: list[str] = field(default_factory=list)

    @property
    def proposes(self) -> bool:
        """Whether nobody has agreed yet."""
        return bool(self.calls) and not self.told

    @property
    def proposed_calls(self) -> list[Any]:
        """What was recorded."""
        return [SimpleNamespace(ranks=ranks, words=words) for ranks, words in self.calls]

    def take(self) -> None:
        """Note that it is replayed."""
        self.told.append("taken")

    def give_up(self) -> None:
        """Note that it is recorded anew."""
        self.told.append("given up")


def told(communicator: Communicator, calls: list[list[tuple[tuple[int, ...], Words]]], runs: int) -> list[str]:
    groups = [communicator, communicator.group((0, 1) if communicator.rank < 2 else (2, 3))]
    made = Proposal(groups, calls[communicator.rank])
    agreed = AgreedGraphs(communicator, [made, Proposal(groups, [])])
    for _ in range(runs):
        agreed.count_run()
    return made.told


ALL, LEFT, RIGHT = (0, 1, 2, 3), (0, 1), (2, 3)
SUM, GATHER = ("all_reduce", 4), ("all_gather", 4)


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([[(ALL, SUM)]] * 4, "taken"),
        ([[(ALL, SUM), (ALL, GATHER)]] * 4, "taken"),
        # Groups may do different things, and the calls of one may come between those of another.
        ([[(ALL, SUM), (LEFT, SUM)]] * 2 + [[(RIGHT, GATHER), (ALL, SUM)]] * 2, "taken"),
        ([[(ALL, SUM)]] * 3 + [[(ALL, GATHER)]], "given up"),
        ([[(ALL, SUM), (ALL, GATHER)]] * 3 + [[(ALL, GATHER), (ALL, SUM)]], "given up"),
        ([[(ALL, SUM), (LEFT, SUM)], [(ALL, SUM)], [(ALL, SUM)], [(ALL, SUM)]], "given up"),
        ([[(ALL, SUM)]] + [[(ALL, GATHER)]] * 3, "given up"),
    ],
)
def test_they_are_taken_where_the_members_of_each_group_have_recorded_the_same_calls_of_it(
    calls: list[list[tuple[tuple[int, ...], Words]]], said: str, remarks: Any
) -> None:
    assert run_world(4, told, calls, 2) == [[said]] * 4
    reason = "a step is not one CUDA graph, for not all ranks can record the same collectives"
    assert {*remarks()} == ({reason} if said == "given up" else set())


def test_who_has_recorded_nothing_keeps_the_others_from_it() -> None:
    assert run_world(4, told, [[(ALL, SUM)]] * 3 + [[]], 2) == [["given up"]] * 3 + [[]]


class Counted:
    """It stands for a stretch that proposes anew before each agreement."""

    def __init__(self, communicator: Communicator) -> None:
        self.groups = [communicator]
        self.proposed_calls: list[Any] = []
        self.proposes = True
        self.runs, self.taken = 0, list[int]()

    def take(self) -> None:
        """Note after which run it is replayed."""
        self.taken.append(self.runs)

    give_up = take


def agreements(communicator: Communicator, runs: int) -> list[int]:
    made: Any = Counted(communicator)
    agreed = AgreedGraphs(communicator, [made])
    for made.runs in range(1, runs + 1):
        agreed.count_run()
    return [*made.taken]


def test_they_agree_after_the_second_run_the_fourth_the_eighth_and_so_on() -> None:
    assert run_world(2, agreements, 40) == [[2, 4, 8, 16, 32]] * 2


def test_a_program_that_is_not_run_by_all_ranks_together_agrees_on_nothing() -> None:
    made = Proposal([], [(ALL, SUM)])
    agreed = AgreedGraphs(None, [made])  # type: ignore[list-item]
    for _ in range(4):
        agreed.count_run()
    assert made.told == []
