"""A forecast as text: what a step takes and what bounds it, memory, communication, strategies."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from mpiparallel.dataclass import dataclass
from mpiparallel.launch.plan.report import amount, duration
from mpiparallel.search.forecast.forecast import Forecast, StageForecast
from mpiparallel.search.forecast.operators import OperatorForecast

TableRow = TypeVar("TableRow")

_MOST_COLLECTIVES = 12
_NUMBER = re.compile(r"(?<![^/.])\d+(?=[/.])")


def report(forecast: Forecast, name: str) -> str:
    """Return what a terminal shows of the forecast of a script."""
    several = len(forecast.stages) > 1
    blocks = [list(head(forecast, name))]
    for number, stage in enumerate(forecast.stages):
        title = f"stage {number}, ranks {stage.ranks}: " if several else ""
        blocks.append([*_memory(stage, title), "", *_collectives(stage, title)])
        blocks.append([*_strategies(stage, title)])
    return "\n\n".join("\n".join(block) for block in blocks)


def head(forecast: Forecast, name: str) -> Iterator[str]:
    """Yield what is said of a forecast first: ranks, step, memory, pipeline."""
    what = "a training step" if forecast.trains else "a run"
    samples = f" of {forecast.samples:,} samples" if forecast.samples else ""
    ranks, hosts = several(forecast.ranks, "rank"), several(forecast.hosts, "host")
    yield f"{name}: {what}{samples} on {ranks}, {hosts} of {forecast.machine.ranks_per_host}, {forecast.mode}"
    if forecast.hosts > forecast.machine.hosts > 1:
        yield f"  (the cluster file has {several(forecast.machine.hosts, 'host')}; more of the same are assumed)"
    bound, part = forecast.bound
    rate = f", {forecast.samples / forecast.seconds:,.4g} samples/s" if forecast.samples else ""
    yield f"step    {duration(forecast.seconds):>8}{rate}; most of it ({_percent(part)}) is {bound}"
    yield f"        {_parts(forecast)}"
    again = max(stage.recomputing for stage in forecast.stages)
    if again:
        yield f"        {duration(again)} of it computes once more what is not kept, to save memory"
    memory = forecast.fullest.memory
    yield f"memory  {amount(memory.total):>8} a rank{fit(forecast)}"
    yield "        " + ", ".join(f"{amount(size)} {kind}" for kind, size in memory.kinds.items() if size)
    if len(forecast.stages) > 1:
        yield (
            f"stages  {len(forecast.stages):>8} by {forecast.schedule}; they are idle for "
            f"{_percent(forecast.bubble)} of the step"
        )


def fit(forecast: Forecast) -> str:
    """Return how the memory of a rank compares with what the machine has; nothing where that is not known."""
    if forecast.machine.memory == float("inf"):
        return ""
    has, missing = amount(int(forecast.machine.memory)), forecast.missing_memory
    return f": does not fit, {amount(int(missing))} more than the {has} it has" if missing > 0 else f" of {has}"


def several(count: int, noun: str) -> str:
    """Return a number of things.

    >>> several(1, "rank"), several(4096, "rank")
    ('1 rank', '4,096 ranks')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _percent(part: float) -> str:
    return f"{part * 100:.0f} %"


def _parts(forecast: Forecast) -> str:
    slowest = forecast.slowest
    parts = {**slowest.parts, "waiting": forecast.seconds - slowest.time.busy}
    return ", ".join(f"{duration(seconds)} {name}" for name, seconds in parts.items() if seconds > 0)


def _memory(stage: StageForecast, title: str) -> Iterator[str]:
    if title:
        yield (
            f"{title}{duration(stage.time.busy)} at work, {duration(stage.time.waiting)} waiting, "
            f"{amount(stage.memory.total)} a rank"
        )
    yield f"memory is fullest at {stage.memory.fullest_at}, with {amount(stage.memory.arena)} of what a step makes"


def _collectives(stage: StageForecast, title: str) -> Iterator[str]:
    if not stage.collectives:
        yield f"{title}no communication"
        return
    rows = [("communication of the first rank", "ranks", "hosts", "count", "bytes", "seconds", "which ranks; for what")]
    for one in stage.collectives[:_MOST_COLLECTIVES]:
        phases = ", ".join(f"{count} {phase}" for phase, count in one.phases.items())
        numbers = (f"{one.group.size:,}", f"{one.group.hosts:,}", f"{one.count:,}", amount(one.byte_count))
        rows.append((f"  {one.kind}", *numbers, duration(one.seconds), f"{one.group.ranks}; {phases}"))
    yield from table(rows, "<>>>>><")
    left = len(stage.collectives) - _MOST_COLLECTIVES
    if left > 0:
        yield f"  and {several(left, 'other group')}; --json has all"


def _strategies(stage: StageForecast, title: str) -> Iterator[str]:
    rows = [("strategies: how each input is cut", "cuts", "output", "computes", "moves", "decided by")]
    for folded in fold(stage.operators, lambda one: one.name, _seen):
        first = folded.rows[0]
        computing, moved = sum(one.computing for one in folded.rows), sum(one.moved_bytes for one in folded.rows)
        told = (duration(computing) if computing else "", amount(moved) if moved else "")
        rows.append((f"  {folded.title}", cuts_text(first.cuts), first.output, *told, first.rule))
    yield from table(rows, "<<<>><")


def _seen(operator: OperatorForecast) -> tuple[object, ...]:
    return operator.operator, operator.cuts, operator.output, operator.rule


def cuts_text(cuts: Iterable[Iterable[int]]) -> str:
    """Return a strategy as users write it, but in short.

    >>> cuts_text(((8, 1), (1, 2), ()))
    '(8,1) (1,2) ()'
    """
    return " ".join(f"({','.join(map(str, one))})" for one in cuts)


def table(rows: Sequence[Sequence[str]], sides: str) -> Iterator[str]:
    """Yield rows in columns, each to its side: < or >.

    >>> list(table([("a", "1"), ("bc", "23")], "<>"))
    ['a    1', 'bc  23']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, sides, strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, width, side in cells).rstrip()


@dataclass(frozen=True)
class Folded(Generic[TableRow]):
    """Rows that differ by the numbers of their layers alone: their common name, with stars as numbers, and all."""

    name: str
    rows: tuple[TableRow, ...]

    @property
    def title(self) -> str:
        """The name, and how many there are."""
        return self.name if len(self.rows) == 1 else f"{self.name}  x{len(self.rows)}"


def fold(
    rows: Iterable[TableRow], name: Callable[[TableRow], str], alike: Callable[[TableRow], Hashable]
) -> list[Folded[TableRow]]:
    """Return rows of equal names, but for numbers of layers, that are ``alike``, in the order of the first of each.

    >>> [one.title for one in fold(["net/0/MatMul", "net/1/MatMul", "net/Add-1"], str, lambda row: 0)]
    ['net/*/MatMul  x2', 'net/Add-1']
    """
    found: dict[tuple[str, Hashable], list[TableRow]] = {}
    for row in rows:
        found.setdefault((_NUMBER.sub("*", name(row)), alike(row)), []).append(row)
    return [Folded(pattern if len(some) > 1 else name(some[0]), tuple(some)) for (pattern, _), some in found.items()]
