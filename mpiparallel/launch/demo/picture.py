"""The picture of the demo: the two loss curves, how far they are apart, and which rank held what before and after."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpiparallel.launch.command_line.output_file import write_output
from mpiparallel.launch.demo.report import Corners, DemoReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

# Paul Tol's "light" scheme, made for cells with black text, and three of his "high contrast" one; both hold for the
# colour-blind.
_RANK_COLOURS = ("#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#99DDFF", "#44BB99", "#BBCC33", "#AAAA00")
_SHARED_COLOUR = "#E4E4E4"
_ALONE_COLOUR, _BEFORE_COLOUR, _AFTER_COLOUR = "#DDAA33", "#004488", "#BB5566"
_STYLE: Any = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "svg.hashsalt": "mpiparallel",
}
_FLOOR = 1e-17
_FEWEST_ROWS = 4


def can_draw() -> bool:
    """Return whether matplotlib, of the extra ``plot``, is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(report: DemoReport, paths: Sequence[Path]) -> None:
    """Draw ``report`` into each of ``paths``, in the format that its name says; needs matplotlib."""
    from matplotlib import rc_context  # an optional extra, which takes NumPy with it
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(13, 7.2), facecolor="white", layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1.12, 1.0), wspace=0.04, squeeze=False)[0]
        curves, differences = left.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        _draw_curves(curves, report)
        _draw_differences(differences, report)
        left.suptitle("Same program, any cut: the losses lie on each other", fontweight="bold")
        _draw_slices(right, report)
        for path in paths:
            drawn, kind = BytesIO(), path.suffix.removeprefix(".")
            figure.savefig(drawn, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
            write_output("--dir", path, drawn.getvalue())


def _draw_curves(axes: Axes, report: DemoReport) -> None:
    before, after = report.before, report.after
    steps = range(1, len(report.alone.losses) + 1)
    axes.plot(steps, report.alone.losses, color=_ALONE_COLOUR, linewidth=6, alpha=0.75, label="1 rank")
    first = range(before.first_step, before.last_step + 1)
    axes.plot(first, before.losses, color=_BEFORE_COLOUR, linewidth=1.5, label=f"{before.ranks} ranks, {before.cut}")
    then = range(after.first_step, after.last_step + 1)
    axes.plot(then, after.losses, color=_AFTER_COLOUR, linewidth=1.5, label=f"{after.ranks} ranks, {after.cut}")
    _mark_move(axes, report, 0.74)
    axes.annotate(
        f"{before.ranks} → {after.ranks} ranks, live\n{report.bytes_moved / 1e6:.1f} MB moved in "
        f"{report.reshard_seconds:.2f} s",
        (before.last_step + 0.5, 0.60),
        xycoords=("data", "axes fraction"),
        xytext=(-10, 0),
        textcoords="offset points",
        horizontalalignment="right",
    )
    axes.set_ylabel("loss")
    axes.legend(frameon=False, loc="upper right")


def _draw_differences(axes: Axes, report: DemoReport) -> None:
    differences = [max(value, _FLOOR) for value in report.differences]
    axes.plot(range(1, len(differences) + 1), differences, ".", color="#555555", markersize=3.5)
    start = 1
    for check in report.checks:
        axes.plot((start, check.last_step), (check.limit, check.limit), color="black", linewidth=1.2)
        start = check.last_step
    axes.text(start, report.checks[-1].limit, "promised: at most this", fontsize=10, ha="right", va="bottom")
    _mark_move(axes, report)
    smallest = min((value for value in differences if value > _FLOOR), default=_FLOOR)
    axes.set_yscale("log")
    axes.set_ylim(smallest / 5, report.checks[-1].limit * 60)
    axes.set_xlim(0, len(differences) + 1)
    axes.set_xlabel("step  (no dot: equal to the last bit)")
    axes.set_ylabel("relative\ndifference")


def _mark_move(axes: Axes, report: DemoReport, height: float = 1.0) -> None:
    axes.axvline(report.before.last_step + 0.5, ymax=height, color="black", linewidth=1, linestyle=(0, (4, 3)))


def _draw_slices(figure: SubFigure, report: DemoReport) -> None:
    heights = [max(len(set(_starts(slices.before, 0))), _FEWEST_ROWS) for slices in report.slices]
    rows = figure.subfigures(len(report.slices), 1, height_ratios=heights, squeeze=False)[:, 0]
    for index, (row, slices) in enumerate(zip(rows, report.slices, strict=True)):
        columns = row.subplots(1, 2)
        for axes, when, boxes in zip(columns, ("before", "after"), (slices.before, slices.after), strict=True):
            _draw_boxes(axes, slices.shape, boxes)
            if index == 0:
                axes.set_title(f"{when}: {len(boxes)} ranks", fontsize=11)
        row.supxlabel(f"{slices.name}  ({' x '.join(map(str, slices.shape))})", fontsize=10)
    figure.suptitle("State moves: which rank holds which slice", fontweight="bold")


def _starts(boxes: Sequence[Corners], dim: int) -> list[int]:
    return [start[dim] for start, _ in boxes]


def _draw_boxes(axes: Axes, shape: tuple[int, ...], boxes: Sequence[Corners]) -> None:
    holders: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for rank, box in enumerate(boxes):
        holders.setdefault(tuple(map(tuple, box)), []).append(rank)
    for ((top, left), (bottom, right)), ranks in holders.items():
        if top < bottom and left < right:
            is_whole = (bottom - top, right - left) == tuple(shape) and len(ranks) > 1
            colour = _SHARED_COLOUR if is_whole else _RANK_COLOURS[ranks[0] % len(_RANK_COLOURS)]
            axes.fill((left, right, right, left), (top, top, bottom, bottom), facecolor=colour, edgecolor="white")
            names = ("all of it on ranks " if is_whole else "") + " ".join(map(str, ranks))
            axes.text((left + right) / 2, (top + bottom) / 2, names, ha="center", va="center_baseline")
    axes.set_xlim(0, shape[1])
    axes.set_ylim(shape[0], 0)
    axes.set_axis_off()
