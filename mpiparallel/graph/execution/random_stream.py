"""Where random operators take their numbers from: a seed, and a place that each draw moves on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from mpiparallel.backend.counter_random import stream_key
from mpiparallel.communication import world
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import RandomState


@dataclass(frozen=True)
class RandomStream:
    """The ``seed``, and how many draws have been made since it was set: ``place``.

    A draw is one run of a program with random operators, or one random operator that is computed at once. Within a
    ``step`` of a training places are counted from 0. ``by_rank`` says that each rank has a stream of its own.
    """

    seed: int = 0
    place: int = 0
    by_rank: bool = False
    step: int | None = None

    @property
    def draw(self) -> int | str:
        """What names the next draw; the only one of a step is named by the step alone."""
        if self.step is None:
            return f"draw {self.place}"
        return f"{self.step} draw {self.place}" if self.place else self.step


_STREAM: ContextVar[RandomStream] = ContextVar("random_stream")


def random_stream() -> RandomStream:
    """Return where random operators take their numbers from now."""
    return _STREAM.get(RandomStream())


def put_random_stream(stream: RandomStream) -> None:
    """Let random operators take their numbers from there."""
    _STREAM.set(stream)


def next_draw() -> int | str:
    """Return what names the next draw, and move on."""
    stream = random_stream()
    put_random_stream(replace(stream, place=stream.place + 1))
    return stream.draw


def next_random_state() -> RandomState:
    """Return the state of an operator that is computed at once, and move on."""
    seed, of_each = random_stream().seed, random_stream().by_rank and world.initialised()
    return RandomState(rank_seed(seed, world.current().rank) if of_each else seed, next_draw())


def rank_seed(seed: int, rank: int) -> int:
    """Return the seed of a rank that has random numbers of its own."""
    return stream_key(seed, "rank", rank)


@contextmanager
def drawing_at(step: int) -> Iterator[None]:
    """Draw what a step of a training draws, whatever has been drawn before; what is drawn outside goes on after it."""
    outside = random_stream()
    put_random_stream(replace(outside, step=step, place=0))
    try:
        yield
    finally:
        put_random_stream(outside)
