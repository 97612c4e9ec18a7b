"""The plan of a reshard as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mpiparallel.launch.plan.forecast import MoveForecast, Relabeled, Spread
from mpiparallel.launch.plan.heat_map import heat_map

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_FEWEST_RANKS_TOLD = 16


def report(forecast: MoveForecast, encoding: str, picture: Path | None = None) -> str:
    """Return what a terminal of ``encoding`` shows of ``forecast``."""
    lines = [*_head(forecast), "", *_table(forecast), "", *_moves(forecast), *_largest(forecast), ""]
    plain = not encoding.lower().replace("-", "").startswith("utf")
    lines += _map(forecast, plain)
    if picture is not None:
        lines.append(f"picture: {picture}")
    text = "\n".join(lines)
    return text.encode(encoding, "replace").decode(encoding) if plain else text


def amount(count: int) -> str:
    """Return bytes as a person reads them.

    >>> amount(999), amount(1_234_567), amount(10**21)
    ('999 B', '1.23 MB', '1000 EB')
    """
    value, unit = float(count), 0
    while value >= 999.5 and unit + 1 < len(_UNITS):
        value, unit = value / 1000, unit + 1
    return f"{value:.{max(0, 3 - len(str(int(value))))}f} {_UNITS[unit]}" if unit else f"{count} B"


def _head(forecast: MoveForecast) -> Iterator[str]:
    yield f"{forecast.source} -> {forecast.target}"
    yield (
        f"{forecast.source_ranks} -> {forecast.target_ranks} ranks on {_several(forecast.hosts, 'host')}, "
        f"{_several(forecast.tensors, 'tensor')}, {amount(forecast.state)} without replicas"
    )


def _table(forecast: MoveForecast) -> Iterator[str]:
    yield f"{'of a rank':<22}{'least':>10}{'median':>10}{'most':>10}"
    for name, spread in forecast.per_rank.items():
        yield f"  {title(name):<20}{_row(spread, name)}"
    yield f"  (peaks with {amount(forecast.scratch)} of scratch)"


def title(name: str) -> str:
    """Return how a reader is told the ``name`` of what ranks hold, send and need.

    >>> title("sends_to_ranks")
    'sends to ranks'
    """
    return name.replace("_", " ")


def _row(spread: Spread, name: str) -> str:
    tell = str if name.endswith("ranks") else amount
    return "".join(f"{tell(value):>10}" for value in (spread.least, spread.median, spread.most))


def _moves(forecast: MoveForecast) -> Iterator[str]:
    whole = max(forecast.moved + forecast.stays, 1)
    yield f"stays   {amount(forecast.stays):>8}  {_share(forecast.stays, whole)} of what the ranks hold after"
    yield (
        f"moves   {amount(forecast.moved):>8}  {_share(forecast.moved, whole)}, in "
        f"{_several(forecast.messages, 'message')}: {amount(forecast.within_hosts)} within hosts, "
        f"{amount(forecast.between_hosts)} between hosts"
    )
    seconds = forecast.seconds
    yield (
        f"takes   {duration(seconds.total):>8}  about: {duration(seconds.within)} within hosts, copied twice at "
        f"{seconds.memory_rate / 1e9:.1f} GB/s (measured now, here),"
    )
    origin = "--bandwidth" if seconds.link_is_given else "assumed; say yours with --bandwidth"
    rate = f"{seconds.link_rate / 1e9:g} GB/s a host ({origin})"
    yield f"{'':>18}and {duration(seconds.between)} between hosts at {rate}"
    if forecast.relabeled is not None:
        yield from _relabeled(forecast.relabeled, forecast.moved)


def _relabeled(found: Relabeled, moved: int) -> Iterator[str]:
    if not found.ranks:
        yield f"relabel         no: other ranks for the target's places would save at most {found.threshold:.0%}"
        return
    saved = found.moved_before - moved
    told = " ".join(map(str, found.ranks[:_FEWEST_RANKS_TOLD]))
    more = " ..." if len(found.ranks) > _FEWEST_RANKS_TOLD else ""
    share = _share(saved, found.moved_before)
    yield f"relabel {amount(saved):>8}  {share} saved, in all of the above, by ranks {told}{more}"


def _largest(forecast: MoveForecast) -> Iterator[str]:
    if not forecast.largest:
        yield "no tensor moves"
        return
    yield f"largest of the {_several(forecast.tensors - forecast.still, 'tensor')} that move, {forecast.still} stay:"
    width = max(len(tensor.name) for tensor in forecast.largest)
    for tensor in forecast.largest:
        yield f"  {tensor.name:<{width}}  {amount(tensor.moved):>8}  {tensor.source} -> {tensor.target}"


def _map(forecast: MoveForecast, plain: bool) -> Iterator[str]:
    if not forecast.moved:
        return
    lines, most = heat_map(forecast.matrix, forecast.block_starts, plain)
    ranks = max(forecast.source_ranks, forecast.target_ranks)
    blocks = "" if len(lines) > ranks else f", blocks of {-(-ranks // (len(lines) - 1))} ranks"
    yield f"from rank (down) to rank (across){blocks}, darkest {amount(most)}"
    yield from lines


def _share(part: int, whole: int) -> str:
    share = part / max(whole, 1)
    return "<1 %" if 0 < share < 0.01 else ">99 %" if 0.99 < share < 1 else f"{share:.0%}".replace("%", " %")


def duration(seconds: float) -> str:
    """Return seconds as a person reads them.

    >>> duration(0.0123), duration(600)
    ('12.3 ms', '10 min')
    """
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.3g} min"


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
