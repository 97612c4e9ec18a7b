"""Time lines as text: a line a stage, where letters or colours say what is done, and dots that nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mpiparallel.pipeline.action import ENDINGS, LETTERS, Kind
from mpiparallel.pipeline.panel import Panel
from mpiparallel.pipeline.timing import TimedAction

_IDLE: Final = "."
_WIDTH: Final = 120
# For even chunks, and for odd ones: background and ink of the 256 colours of terminals, near to those of the picture.
_COLOURS: Final = {
    Kind.FORWARD: ("48;5;25;38;5;231", "48;5;153;38;5;16"),
    Kind.INPUT_GRADIENT: ("48;5;166;38;5;231", "48;5;223;38;5;16"),
    Kind.WEIGHT_GRADIENT: ("48;5;28;38;5;231", "48;5;151;38;5;16"),
}
_OTHERS: Final = ("48;5;240;38;5;231",) * 2


def drawn_text(panel: Panel, width: int = _WIDTH, coloured: bool = False) -> str:
    """Return the time lines in lines of at most ``width`` characters.

    Letters are small for chunks of odd number, colours light. Messages are not shown; waiting for them is idle time.

    Parameters
    ----------
    panel : Panel
        What is drawn.
    width : int
        In characters.
    coloured : bool
        For a terminal that shows colours: these say what is done, and numbers the micro-batch.

    Returns
    -------
    str
        Lines, one for each stage.

    Examples
    --------
    >>> from mpiparallel.pipeline import Panel, make_schedule
    >>> print(drawn_text(Panel.planned("GPipe", make_schedule("gpipe", stages=2, micro_batches=2)), 60))
    GPipe: step 8, of which bubble 2; a stage holds activations of 2 micro-batches at most
    stage 0  F0 F1 ......I0 W0 I1 W1
    stage 1  ...F0 F1 I0 W0 I1 W1 ...
    F forward, I input gradient, W weight gradient, . idle
    """
    names = [f"stage {stage}" for stage in range(panel.stages)]
    margin = max(map(len, names), default=0) + 2
    drawn = [timed for timed in panel.actions if timed.end > timed.begin and timed.action.peer is None]
    write = _number if coloured else _letter
    scale = _scale(drawn, panel.end, width - margin, 1 + max((len(write(timed)) for timed in drawn), default=0))
    rows = []
    for stage, name in enumerate(names):
        cells = _cells([timed for timed in drawn if timed.stage == stage], scale, panel.end)
        shown = [_IDLE * length if timed is None else _fitted(timed, length, coloured) for timed, length in cells]
        rows.append(name.ljust(margin) + "".join(shown))
    return "\n".join([f"{panel.title}: {panel.note}", *map(str.rstrip, rows), _legend(drawn, coloured)])


def _letter(timed: TimedAction) -> str:
    kind, micro_batch, chunk, _ = timed.action
    letter = LETTERS[kind].lower() if chunk % 2 else LETTERS[kind]
    return letter if kind in ENDINGS else f"{letter}{micro_batch}"


def _number(timed: TimedAction) -> str:
    return LETTERS[timed.action.kind] if timed.action.kind in ENDINGS else f"{timed.action.micro_batch}"


def _scale(drawn: Sequence[TimedAction], end: float, width: int, wanted: int) -> float:
    """Return the characters of a unit of time: whole ones for the action of middling length, if there is room."""
    if not drawn:
        return 0.0
    from statistics import median_low  # slow to load, and ranks draw nothing

    length = median_low(timed.end - timed.begin for timed in drawn)
    # Not a hair less than a whole character by rounding.
    there = int(width * length / end + 1e-9)
    return min(wanted, there) / length if there else width / end


def _cells(own: Sequence[TimedAction], scale: float, end: float) -> list[tuple[TimedAction | None, int]]:
    """Return what a stage does from the beginning to the end, and for how many characters; None where it is idle."""
    cells: list[tuple[TimedAction | None, int]] = []
    at = 0
    for timed in sorted(own, key=lambda one: one.begin):
        first, last = max(at, round(timed.begin * scale)), round(timed.end * scale)
        if last > first:
            cells += [(None, first - at), (timed, last - first)]
            at = last
    return [*cells, (None, round(end * scale) - at)]


def _fitted(timed: TimedAction, length: int, coloured: bool) -> str:
    """Return what is written of an action: of a label that has no room the letter, of a number nothing."""
    if coloured:
        number = _number(timed)
        text = (number if len(number) <= length else "").ljust(length)
        return _painted(text, timed.action.kind, timed.action.chunk)
    label = _letter(timed)
    return (label if len(label) <= length else label[0]).ljust(length)


def _painted(text: str, kind: Kind, chunk: int) -> str:
    return f"\x1b[{_COLOURS.get(kind, _OTHERS)[chunk % 2]}m{text}\x1b[0m"


def _legend(drawn: Sequence[TimedAction], coloured: bool) -> str:
    kinds = sorted({timed.action.kind for timed in drawn})
    two = any(timed.action.chunk % 2 for timed in drawn)
    if coloured:
        second = ", light colours the second chunk of a stage" if two else ""
        samples = " ".join(_painted(f" {kind.words} ", kind, 0) for kind in kinds)
        return f"{samples}\nnumbers are micro-batches{second}, dots idle time"
    told = [f"{LETTERS[kind]} {kind.words}" for kind in kinds]
    return ", ".join([*told, *(["small: second chunk"] if two else []), f"{_IDLE} idle"])
