"""Time lines as a picture: SVG, a row a stage, a colour a kind of action."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate
from math import floor, log10
from typing import Final

from mpiparallel.pipeline.action import ENDINGS, Kind
from mpiparallel.pipeline.panel import Panel
from mpiparallel.pipeline.timing import TimedAction

_WIDTH: Final = 1080
_LEFT: Final = 84
_RIGHT: Final = 24
_LEGEND: Final = 16
_HEAD: Final = 30
_ROW: Final = 22
_GAP: Final = 2
_BELOW: Final = 22
_AXIS: Final = 34
_DIGIT: Final = 6.4
_TICKS: Final = 8
_THIN: Final = 2.5
_IDLE: Final = "#ECECEC"
# Dark for even chunks, light for odd ones. Most colour-blind people can tell them apart.
_COLOURS: Final = {
    Kind.FORWARD: ("#4477AA", "#A6C4E2"),
    Kind.INPUT_GRADIENT: ("#CC6633", "#F6BE9C"),
    Kind.WEIGHT_GRADIENT: ("#228833", "#A4D5AC"),
    Kind.SEND_ACTIVATIONS: ("#AA3377", "#AA3377"),
    Kind.RECEIVE_ACTIVATIONS: ("#DDAACC", "#DDAACC"),
    Kind.SEND_GRADIENTS: ("#886611", "#886611"),
    Kind.RECEIVE_GRADIENTS: ("#DDCC77", "#DDCC77"),
    Kind.REDUCE: ("#555555", "#555555"),
    Kind.UPDATE: ("#222222", "#222222"),
}
_INK: Final = ("white", "#222222")


def picture(panels: Sequence[Panel]) -> str:
    """Return an SVG of the panels, one below the other, on one scale of time.

    Parameters
    ----------
    panels : sequence of Panel
        From top to bottom.

    Returns
    -------
    str
        A whole SVG file.

    Examples
    --------
    >>> from mpiparallel.pipeline import make_schedule
    >>> drawn = picture([Panel.planned("GPipe", make_schedule("gpipe", stages=2, micro_batches=2))])
    >>> drawn.count("<rect"), "stage 1" in drawn
    (19, True)
    """
    end = max((panel.end for panel in panels), default=0.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / end if end > 0 else 0.0
    legend, top = _legend(panels)
    tops = list(accumulate(map(_height, panels), initial=top))
    height = tops[-1] + _AXIS
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="DejaVu Sans, Verdana, sans-serif" font-size="11" fill="#222222">',
        '<rect width="100%" height="100%" fill="white"/>',
        *legend,
    ]
    for panel, top in zip(panels, tops, strict=False):
        lines += _panel(panel, top, scale)
    lines += _axis(end, scale, tops[-1])
    return "\n".join([*lines, "</svg>\n"])


def _height(panel: Panel) -> int:
    return _HEAD + panel.stages * (_ROW + _GAP) + _BELOW


def _legend(panels: Sequence[Panel]) -> tuple[list[str], int]:
    """Return what explains the colours, in as many rows as it takes, and its height."""
    shown = {
        (timed.action.kind, timed.action.chunk % 2) for panel in panels for timed in panel.actions if _is_drawn(timed)
    }
    entries = [
        (kind.words, list(dict.fromkeys(_COLOURS[kind][shade] for shade in (0, 1) if (kind, shade) in shown)))
        for kind in sorted({kind for kind, _ in shown})
    ]
    x, y, lines = _LEFT, _LEGEND, []
    for words, colours in [*entries, ("idle", [_IDLE])]:
        width = 18 * len(colours) + 26 + 8 * len(words)
        if x + width > _WIDTH:
            x, y = _LEFT, y + _ROW
        for place, colour in enumerate(colours):
            lines.append(f'<rect x="{x + 18 * place}" y="{y}" width="16" height="16" fill="{colour}"/>')
        lines.append(_text(x + 18 * len(colours) + 4, y + 13, words, 13))
        x += width
    note = "Numbers are micro-batches."
    if any(shade for _, shade in shown):
        note += " Light colours are the second chunk of a stage."
    lines.append(_text(_LEFT, y + 34, note, 12, "#555555"))
    return lines, y + 46


def _is_drawn(timed: TimedAction) -> bool:
    return timed.end > timed.begin


def _panel(panel: Panel, top: int, scale: float) -> Iterator[str]:
    yield (
        f'<text x="{_LEFT}" y="{top + 18}" font-size="14"><tspan font-weight="bold">{escape(panel.title)}</tspan>'
        f'<tspan dx="10" font-size="12" fill="#555555">{escape(panel.note)}</tspan></text>'
    )
    for stage in range(panel.stages):
        y = top + _HEAD + stage * (_ROW + _GAP)
        yield _text(_LEFT - 10, y + 15, f"stage {stage}", 12, anchor="end")
        yield f'<rect x="{_LEFT}" y="{y}" width="{panel.end * scale:.1f}" height="{_ROW}" fill="{_IDLE}"/>'
        yield from _row([timed for timed in panel.actions if timed.stage == stage and _is_drawn(timed)], y, scale)


def _row(own: Sequence[TimedAction], y: int, scale: float) -> Iterator[str]:
    """Yield the boxes of a stage, then their numbers, grouped by colour so that each is said once."""
    groups: dict[tuple[Kind, int, bool], list[TimedAction]] = {}
    for timed in own:
        # A border would cover what is thin.
        is_thin = (timed.end - timed.begin) * scale < _THIN
        groups.setdefault((timed.action.kind, timed.action.chunk % 2, is_thin), []).append(timed)
    for (kind, shade, is_thin), group in groups.items():
        yield f'<g fill="{_COLOURS[kind][shade]}" stroke="{"none" if is_thin else "white"}" stroke-width="0.7">'
        for timed in group:
            x, width = _LEFT + timed.begin * scale, (timed.end - timed.begin) * scale
            yield f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW}"/>'
        yield "</g>"
        numbers = list(_numbers(group, y, scale))
        if numbers:
            yield f'<g fill="{_INK[shade]}" text-anchor="middle">'
            yield from numbers
            yield "</g>"


def _numbers(group: Sequence[TimedAction], y: int, scale: float) -> Iterator[str]:
    for timed in group:
        number = "" if timed.action.kind in ENDINGS else str(timed.action.micro_batch)
        if number and (timed.end - timed.begin) * scale > _DIGIT * len(number) + 1:
            x = _LEFT + (timed.begin + timed.end) / 2 * scale
            yield f'<text x="{x:.1f}" y="{y + 15}">{number}</text>'


def _axis(end: float, scale: float, top: int) -> Iterator[str]:
    """Yield the scale of time: whole steps of 1, 2 or 5 times a power of ten."""
    if not scale:
        return
    least = end / _TICKS
    power = 10.0 ** floor(log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
    yield f'<path d="M{_LEFT} {top}H{_LEFT + end * scale:.1f}" stroke="#888888"/>'
    for number in range(int(end / step + 1e-9) + 1):
        x = _LEFT + number * step * scale
        yield f'<path d="M{x:.1f} {top}v5" stroke="#888888"/>'
        yield _text(x, top + 18, f"{number * step:g}", 11, "#555555", "middle")
    yield _text(_LEFT - 10, top + 18, "time", 11, "#555555", "end")


def _text(x: float, y: float, text: str, size: int, fill: str = "#222222", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{escape(text)}</text>'
