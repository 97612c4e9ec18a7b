"""A bar that says how far a subcommand is: on a terminal only."""

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
def progress_bar(title: str) -> Iterator[Progress | None]:
    """Give what is to be told of bytes done and bytes in all; None where nobody watches.

    The bar is on stderr and is gone afterwards. It is drawn by rich where that is installed (extra ``ui``).
    """
    if not sys.stderr.isatty():
        yield None
    elif find_spec("rich") is not None:
        with _rich_bar(title) as told:
            yield told
    else:
        line = _Line(title)
        try:
            yield line
        finally:
            line.clear()


@contextmanager
def _rich_bar(title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(title), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _Line:
    """A line that is written over again and again."""

    def __init__(self, title: str) -> None:
        self._title, self._drawn, self._width = title, 0.0, 0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._drawn < _REDRAW_SECONDS:
            return
        self._drawn = now
        text = f"{self._title} {done / max(total, 1):4.0%} of {amount(total)}"
        print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
