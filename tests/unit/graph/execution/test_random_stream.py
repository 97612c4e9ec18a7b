"""Where random operators take their numbers from: a seed, a place that draws move on, and for some the rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mpiparallel.communication.threads import run_world
from mpiparallel.graph.execution.random_stream import (
    RandomStream,
    drawing_at,
    next_draw,
    next_random_state,
    put_random_stream,
    random_stream,
    rank_seed,
)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = random_stream()
    put_random_stream(RandomStream(seed=3))
    yield
    put_random_stream(before)


@pytest.mark.parametrize(
    ("stream", "draw"),
    [
        (RandomStream(1), "draw 0"),
        (RandomStream(1, 7), "draw 7"),
        (RandomStream(1, 0, step=5), 5),
        (RandomStream(1, 0, step=0), 0),
        (RandomStream(1, 1, step=5), "5 draw 1"),
    ],
)
def test_a_draw_is_named_by_its_place_and_the_only_one_of_a_step_by_the_step(stream: RandomStream, draw: Any) -> None:
    assert stream.draw == draw


def test_each_draw_moves_on_and_those_of_a_step_move_nothing_outside() -> None:
    assert [next_draw() for _ in range(2)] == ["draw 0", "draw 1"]
    for _ in range(2):
        with drawing_at(9):
            assert [next_draw() for _ in range(3)] == [9, "9 draw 1", "9 draw 2"]
            assert random_stream().seed == 3
    with pytest.raises(ZeroDivisionError), drawing_at(9):
        int(next_draw()) // 0
    assert next_draw() == "draw 2"
    assert random_stream() == RandomStream(3, 3)


def test_what_is_computed_at_once_draws_by_the_seed_and_moves_on() -> None:
    states = [next_random_state() for _ in range(2)]
    assert [(one.seed, one.draw) for one in states] == [(3, "draw 0"), (3, "draw 1")]


def drawn(communicator: Any, by_rank: bool) -> tuple[int, Any]:
    put_random_stream(RandomStream(seed=3, by_rank=by_rank))
    state = next_random_state()
    return state.seed, state.draw


def test_each_rank_has_a_seed_of_its_own_only_where_that_is_asked_for() -> None:
    assert run_world(2, drawn, False) == [(3, "draw 0")] * 2
    seeds = [(rank_seed(3, rank), "draw 0") for rank in range(2)]
    assert run_world(2, drawn, True) == seeds
    assert len({*seeds, (3, "draw 0")}) == 3


def test_without_ranks_a_stream_by_rank_is_that_of_the_seed() -> None:
    put_random_stream(RandomStream(seed=3, by_rank=True))
    assert next_random_state().seed == 3
