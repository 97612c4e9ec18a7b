"""Steps that a device is given in one call: which, from which run on, and what is said of those that are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.errors import CaptureError
from mpiparallel.graph.execution.stretch import Step, Stretch
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


KINDS: dict[str, type[Operator]] = {"g": Given, "h": ByHost, "r": Reading}


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The backend of a device that is not there."""
    install(monkeypatch)
    return hidden_backend()


def steps_of(kinds: str, backend: Any, x: Any) -> list[Step]:
    """Return a step for each letter: by turns one doubles a number and one adds 1 to it."""
    xp = backend.array_module

    def kernel(place: int, kind: str) -> Callable[[], object]:
        def run() -> None:
            if kind == "r":
                backend.to_host(x)
            (xp.add if place % 2 else xp.multiply)(x, 1.0 if place % 2 else 2.0, out=x)

        return run

    return [(Node(KINDS[kind](), kind, ()), kernel(place, kind)) for place, kind in enumerate(kinds)]


def ran(stretch: Stretch, runs: int) -> list[int]:
    """Return how many graphs the device was given in each run."""
    counts = []
    for _ in range(runs):
        before = DEVICE.graphs
        stretch.run()
        counts.append(DEVICE.graphs - before)
    return counts


def computed(kinds: str, runs: int) -> float:
    value = 1.0
    for place in [*range(len(kinds))] * runs:
        value = value + 1 if place % 2 else value * 2
    return value


@pytest.mark.parametrize(
    ("kinds", "graphs"),
    [
        ("ggg", 1),
        ("gg", 1),
        ("g", 0),
        ("", 0),
        ("h", 0),
        ("hh", 0),
        ("ghg", 0),
        ("ggh", 1),
        ("hgg", 1),
        ("gghgg", 2),
        ("gghg", 1),
        ("gghhggg", 2),
        ("ggrgg", 2),
        ("rgg", 1),
        ("grg", 0),
        ("ggr", 1),
        ("rr", 0),
    ],
)
def test_neighbours_are_one_graph_from_the_second_run_on_and_one_alone_is_none(
    kinds: str, graphs: int, backend: Any
) -> None:
    x = backend.from_host(np.ones(3))
    stretch = Stretch(backend, [], steps_of(kinds, backend, x), None)
    assert ran(stretch, 4) == [0, graphs, graphs, graphs]
    assert backend.to_host(x).tolist() == [computed(kinds, 4)] * 3
    assert not stretch.proposes
    assert stretch.groups == []


def test_what_cannot_be_recorded_is_named_once_with_the_reason(backend: Any, remarks: Any) -> None:
    for _ in range(2):
        x = backend.from_host(np.ones(3))
        ran(Stretch(backend, [], steps_of("ggrghg", backend, x), None), 3)
    said = "a step is not one CUDA graph, for Reading reads the device's memory on the host"
    assert len(remarks()) == 1
    assert remarks()[0].startswith(said)
    assert remarks()[0].endswith("; the host gives it by itself")


def test_steps_that_are_too_many_for_a_graph_are_tried_by_half_as_many(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = backend.capture
    given: list[int] = []

    def of_two(work: Callable[[], object]) -> Callable[[], object]:
        before = len(given)

        def counted() -> None:
            work()
            if len(given) - before > 2:
                raise CaptureError("has no room")

        replay: Callable[[], object] = capture(counted)
        return replay

    monkeypatch.setattr(backend, "capture", of_two)
    x = backend.from_host(np.ones(3))
    steps = [
        (node, lambda kernel=kernel: (given.append(1), kernel())) for node, kernel in steps_of("gggggggg", backend, x)
    ]
    # Of eight, and then of four, two are taken. Of six that are left three are tried, then one, and so on.
    assert ran(Stretch(backend, [], steps, None), 3) == [0, 3, 3]
    assert backend.to_host(x).tolist() == [computed("gggggggg", 3)] * 3


@pytest.mark.parametrize(
    ("flags", "holds", "reads"),
    [((), True, 0), ((1,), True, 1), ((0,), False, 1), ((2, 0), False, 2), ((0, 1), False, 1), ((1, -1), True, 2)],
)
def test_a_flag_is_read_only_where_those_before_it_hold(
    flags: tuple[int, ...], holds: bool, reads: int, backend: Any
) -> None:
    stretch = Stretch(backend, [backend.from_host(np.float32(flag)) for flag in flags], [], None)
    before = DEVICE.reads
    assert stretch.holds() == holds
    assert DEVICE.reads - before == reads


def test_on_the_host_each_step_is_called_in_each_run_and_nothing_is_said_of_graphs(remarks: Any) -> None:
    x = np.ones(3)
    backend = NumpyBackend()
    stretch = Stretch(backend, [], steps_of("ggh", backend, x), None)
    for runs in range(1, 4):
        stretch.run()
        assert x.tolist() == [computed("ggh", runs)] * 3
    assert remarks() == []
