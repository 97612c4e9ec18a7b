"""Stages that choose rows and their order: shuffle, repeat, take and skip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count, islice
from typing import Any

from mpiparallel.dataset.random_key import RandomKey
from mpiparallel.dataset.stage import Array, Row, Stage, check_count
from mpiparallel.errors import DatasetError

# A repeated row gets a number of its own, so that random operations after repeat differ from pass to pass.
_PASS = 1 << 40


class ShuffleStage:
    """Draws each row from a buffer of the next ``buffer_size`` rows.

    The draws are addressed by seed, place and epoch. A start in the middle replays the rows before it, because what is
    in the buffer depends on them; their arrays are not made.
    """

    def __init__(self, parent: Stage, buffer_size: int, seed: int) -> None:
        check_count("shuffle", "buffer_size", buffer_size, 1)
        self._parent = parent
        self._buffer_size = buffer_size
        self.columns = parent.columns
        self.place = parent.place + 1
        self.batch_size = parent.batch_size
        self._key = RandomKey(seed, self.place)

    def size(self) -> int | None:
        """Return the parent's rows."""
        return self._parent.size()

    def rows(self, epoch: int, start: int) -> Iterator[Row]:
        """Yield the rows of ``epoch`` in shuffled order, from ``start`` on."""
        return islice(self._shuffled(epoch), start, None)

    def _shuffled(self, epoch: int) -> Iterator[Row]:
        rows = self._parent.rows(epoch, 0)
        words = self._key.words(epoch)
        buffer = list(islice(rows, self._buffer_size))
        for row in rows:
            drawn = next(words) % len(buffer)
            yield buffer[drawn]
            buffer[drawn] = row
        while buffer:
            drawn = next(words) % len(buffer)
            buffer[drawn], buffer[-1] = buffer[-1], buffer[drawn]
            yield buffer.pop()


class RepeatStage:
    """Passes over the parent ``passes`` times in one epoch, shuffled anew each time; None repeats without end."""

    def __init__(self, parent: Stage, passes: int | None) -> None:
        if passes is not None:
            check_count("repeat", "count", passes, 1)
        self._parent = parent
        self._stride = _PASS * _passes_of(parent)
        self.passes = passes
        self.columns = parent.columns
        self.place = parent.place + 1
        self.batch_size = parent.batch_size

    def size(self) -> int | None:
        """Return the rows of all passes."""
        size = None if self.passes is None else self._parent.size()
        return None if size is None or self.passes is None else size * self.passes

    def rows(self, epoch: int, start: int) -> Iterator[Row]:
        """Yield the rows of every pass, from ``start`` on."""
        first, offset = self._position(start)
        for turn in count(first) if self.passes is None else range(first, self.passes):
            parent_epoch = (epoch << 32) + turn if self.passes is None else epoch * self.passes + turn
            empty = offset == 0
            for row in self._parent.rows(parent_epoch, offset):
                empty = False
                yield Row(row.number + turn * self._stride, partial(_values, row), row.stacked)
            if empty:
                raise DatasetError("repeat: there is no row before it to repeat; check take, skip and drop_remainder")
            offset = 0

    def _position(self, start: int) -> tuple[int, int]:
        size = self._parent.size() if start else None
        return (0, start) if size is None or size == 0 else divmod(start, size)


def _passes_of(stage: Any) -> int:
    """Return how many passes the repeats of a pipeline make together; of one without end nothing else is reached."""
    passes = 1
    while stage is not None:
        if isinstance(stage, RepeatStage) and stage.passes is not None:
            passes *= stage.passes
        stage = getattr(stage, "_parent", None)
    return passes


def _values(row: Row) -> Mapping[str, Array]:
    return row.values


class TakeStage:
    """The first ``limit`` rows of each epoch."""

    def __init__(self, parent: Stage, limit: int) -> None:
        check_count("take", "count", limit, 1)
        self._parent = parent
        self._limit = limit
        self.columns = parent.columns
        self.place = parent.place + 1
        self.batch_size = parent.batch_size

    def size(self) -> int:
        """Return the rows that are left."""
        size = self._parent.size()
        return self._limit if size is None else min(size, self._limit)

    def rows(self, epoch: int, start: int) -> Iterator[Row]:
        """Yield the rows from ``start`` up to the limit."""
        return islice(self._parent.rows(epoch, start), max(self._limit - start, 0))


class SkipStage:
    """All but the first ``passed`` rows of each epoch."""

    def __init__(self, parent: Stage, passed: int) -> None:
        check_count("skip", "count", passed, 0)
        self._parent = parent
        self._passed = passed
        self.columns = parent.columns
        self.place = parent.place + 1
        self.batch_size = parent.batch_size

    def size(self) -> int | None:
        """Return the rows that are left."""
        size = self._parent.size()
        return None if size is None else max(size - self._passed, 0)

    def rows(self, epoch: int, start: int) -> Iterator[Row]:
        """Yield the rows behind those passed."""
        return self._parent.rows(epoch, start + self._passed)
