"""Time lines as text: a line a stage, where letter and micro-batch say what is done, and dots that nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Final

from mpiparallel.pipeline.action import ENDINGS, LETTERS
from mpiparallel.pipeline.panel import Panel
from mpiparallel.pipeline.timing import TimedAction

_IDLE: Final = "."
_WIDTH: Final = 120


def drawn_text(panel: Panel, width: int = _WIDTH) -> str:
    """Return the time lines in lines of at most ``width`` characters.

    Letters are small for chunks of odd number. Messages are not shown; waiting for them is idle time.

    Parameters
    ----------
    panel : Panel
        What is drawn.
    width : int
        In characters.

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
    labels = [f"stage {stage}" for stage in range(panel.stages)]
    margin = max(map(len, labels), default=0) + 2
    drawn = [timed for timed in panel.actions if timed.end > timed.begin and timed.action.peer is None]
    scale = _scale(drawn, panel.end, width - margin)
    rows = [
        label.ljust(margin) + _line([timed for timed in drawn if timed.stage == stage], scale, panel.end)
        for stage, label in enumerate(labels)
    ]
    return "\n".join([f"{panel.title}: {panel.note}", *map(str.rstrip, rows), _legend(drawn)])


def _label(timed: TimedAction) -> str:
    kind, micro_batch, chunk, _ = timed.action
    letter = LETTERS[kind].lower() if chunk % 2 else LETTERS[kind]
    return letter if kind in ENDINGS else f"{letter}{micro_batch}"


def _scale(drawn: Sequence[TimedAction], end: float, width: int) -> float:
    """Return the characters of a unit of time: whole ones for the action of middling length, if there is room."""
    if not drawn:
        return 0.0
    length = median_low(timed.end - timed.begin for timed in drawn)
    wanted = 1 + max(len(_label(timed)) for timed in drawn)
    # Not a hair less than a whole character by rounding.
    there = int(width * length / end + 1e-9)
    return min(wanted, there) / length if there else width / end


def _line(own: Sequence[TimedAction], scale: float, end: float) -> str:
    line = [_IDLE] * round(end * scale)
    for timed in own:
        first, last = round(timed.begin * scale), round(timed.end * scale)
        label = _label(timed)
        shown = label if len(label) <= last - first else label[0]
        line[first:last] = shown.ljust(last - first)[: last - first]
    return "".join(line)


def _legend(drawn: Sequence[TimedAction]) -> str:
    kinds = sorted({timed.action.kind for timed in drawn})
    told = [f"{LETTERS[kind]} {kind.words}" for kind in kinds]
    if any(timed.action.chunk % 2 for timed in drawn):
        told.append("small letters: the second chunk of a stage")
    return ", ".join([*told, f"{_IDLE} idle"])
