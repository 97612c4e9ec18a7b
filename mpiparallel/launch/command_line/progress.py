"""What says how far a command is, or that it is at work: on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from mpiparallel.launch.plan.report import amount

Progress = Callable[[int, int], None]

_REDRAW_SECONDS = 0.1


@contextmanager
def progress_bar(title: str, shown: Callable[[int], str] = amount) -> Iterator[Progress | None]:
    """Give what is to be told of how much is done and how much there is in all; None where nobody watches.

    Until it is told, it says only that the command is at work. ``shown`` puts a number into words: by default one of
    bytes. The bar is on stderr and is gone afterwards. It is drawn by rich where that is installed (extra ``ui``).
    """
    if not sys.stderr.isatty():
        yield None
    elif find_spec("rich") is not None:
        with _rich_bar(title, shown) as told:
            yield told
    else:
        line = _Line(title, shown)
        try:
            yield line
        finally:
            line.clear()


@contextmanager
def _rich_bar(title: str, shown: Callable[[int], str]) -> Iterator[Progress]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn(escape(title)),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, told="")

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, told=f"{shown(done)} of {shown(total)}")

        yield tell


class _Line:
    """A line that is written over again and again."""

    def __init__(self, title: str, shown: Callable[[int], str]) -> None:
        self._title, self._shown, self._drawn, self._width = title, shown, 0.0, 0
        self._draw(f"{title} ...")

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._drawn < _REDRAW_SECONDS:
            return
        self._drawn = now
        self._draw(f"{self._title} {done / max(total, 1):4.0%} of {self._shown(total)}")

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)

    def _draw(self, text: str) -> None:
        print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = len(text)
