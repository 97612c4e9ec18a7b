"""Collectives among the steps of a device: which may be in graphs, who has to agree, and what is said of the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from mpiparallel.graph.execution.stretch import Stretch
from mpiparallel.graph.graph import Node
from mpiparallel.graph.operator import Operator
from tests.conformance.hidden_arrays.backend import hidden_backend, install
from tests.conformance.hidden_arrays.stream import DEVICE


class Given(Operator):
    """What a graph may hold."""


class ByHost(Operator):
    """What the host has a part in, as it says itself."""

    replays = False


class Reading(Operator):
    """What reads the device's memory on the host, and does not say so."""


class Summing(Operator):
    """It stands for a collective."""

    kind = "communication"
    replays = False


KINDS: dict[str, type[Operator]] = {"g": Given, "h": ByHost, "r": Reading, "c": Summing, "s": Summing, "w": Summing}


class Flight:
    """It stands for the calls of a rank that are on their way: it counts what is recorded and replayed."""

    def __init__(self) -> None:
        self.recorded: list[str] = []
        self.replayed: list[int] = []

    @contextmanager
    def recording(self) -> Iterator[list[str]]:
        """Return where the calls of a graph are written down."""
        calls: list[str] = []
        self.recorded = calls
        yield calls
        self.recorded = []

    def replay(self, calls: list[str], launch: Any, _record: Any) -> None:
        """Launch a graph that has these calls in it."""
        self.replayed.append(len(calls))
        launch()


class Way:
    """How one collective travels."""

    def __init__(self, name: str, flight: Flight | None) -> None:
        self.name = name
        self.flight = flight
        self.communicator = object()

    def graph_calls(self) -> Flight | None:
        """Return what records calls; None where the host has a part in them."""
        return self.flight


class Made:
    """A stretch of steps by letters: by turns one doubles a number and one adds 1 to it."""

    def __init__(self, kinds: str, way: str = "nccl") -> None:
        self.backend = hidden_backend()
        self.x = self.backend.from_host(np.ones(2))
        self.kinds = kinds
        self.flight = Flight()
        self.nodes = [Node(KINDS[kind](), kind, ()) for kind in kinds]
        both = Way(way, self.flight)
        self.ways: dict[Node, list[Any]] = {}
        for node in self.nodes:
            if isinstance(node.operator, Summing):
                # What begins and what ends are two nodes with one way.
                self.ways[node] = [both if node.name in "sw" else Way(way, None if way == "staging" else self.flight)]
        steps = [(node, self.kernel(place)) for place, node in enumerate(self.nodes)]
        self.stretch = Stretch(self.backend, [], steps, None, self.ways)
        self.runs = 0

    def kernel(self, place: int) -> Any:
        """Return the kernel of a step."""
        xp, kind = self.backend.array_module, self.kinds[place]

        def run() -> None:
            if kind == "r":
                self.backend.to_host(self.x)
            if kind in "csw":
                self.flight.recorded.append("call")
            (xp.add if place % 2 else xp.multiply)(self.x, 1.0 if place % 2 else 2.0, out=self.x)

        return run

    def run(self) -> int:
        """Run once, and return how many graphs the device was given."""
        before = DEVICE.graphs
        self.stretch.run()
        self.runs += 1
        value = 1.0
        for place in [*range(len(self.kinds))] * self.runs:
            value = value + 1 if place % 2 else value * 2
        assert self.backend.to_host(self.x).tolist() == [value] * 2
        return DEVICE.graphs - before


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


@pytest.mark.parametrize(
    ("kinds", "graphs", "calls"),
    [
        ("gcg", 1, [1]),
        ("cc", 1, [2]),
        ("gcghgg", 2, [1]),
        ("gchgc", 2, [1, 1]),
        ("ggsgwg", 1, [2]),
        ("gcrg", 1, [1]),
        ("gghcg", 2, [1]),
    ],
)
def test_graphs_with_collectives_are_proposed_in_the_second_run_and_replayed_once_all_agree(
    kinds: str, graphs: int, calls: list[int]
) -> None:
    made = Made(kinds)
    assert (made.run(), made.stretch.proposes) == (0, False)
    assert (made.run(), made.stretch.proposes) == (0, True)
    assert len(made.stretch.proposed_calls) == sum(calls)
    assert made.run() == 0
    made.stretch.take()
    assert not made.stretch.proposes
    for _ in range(2):
        made.flight.replayed.clear()
        assert (made.run(), made.flight.replayed) == (graphs, calls)


@pytest.mark.parametrize(
    ("kinds", "graphs"),
    [
        # One alone is no graph, and neither is one beside what cannot be recorded.
        ("gghchgg", 2),
        ("crgg", 1),
        # The other half would be in another graph.
        ("ggsgghggwgg", 4),
        ("gghsgghww", 2),
    ],
)
def test_what_would_be_alone_or_apart_from_its_other_half_is_given_by_the_host(kinds: str, graphs: int) -> None:
    made = Made(kinds)
    assert [made.run() for _ in range(4)] == [0, graphs, graphs, graphs]
    assert not made.stretch.proposes
    assert made.flight.replayed == []


def test_where_ranks_do_not_agree_the_next_run_is_recorded_without_collectives() -> None:
    made = Made("ggcgg")
    for _ in range(2):
        made.run()
    made.stretch.give_up()
    assert (made.stretch.proposes, made.stretch.proposed_calls) == (False, [])
    assert [made.run() for _ in range(3)] == [2, 2, 2]
    assert made.flight.replayed == []


def test_a_way_in_which_the_host_has_a_part_is_named_and_its_group_need_not_agree(remarks: Any) -> None:
    made = Made("ggcgg", "staging")
    assert made.stretch.groups == []
    assert [made.run() for _ in range(3)] == [0, 2, 2]
    said = "a step is not one CUDA graph, for Summing travels by staging; the host gives it by itself"
    assert remarks() == [said]


def test_all_groups_of_collectives_that_might_be_in_graphs_are_asked() -> None:
    made = Made("gcghc")
    assert made.stretch.groups == [ways[0].communicator for ways in made.ways.values()]
