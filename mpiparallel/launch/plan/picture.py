"""The picture of a plan: who sends to whom, and what the ranks hold and need."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpiparallel.launch.command_line.output_file import write_output
from mpiparallel.launch.plan.forecast import MoveForecast
from mpiparallel.launch.plan.report import amount, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLE: Any = {"font.family": "DejaVu Sans", "font.size": 11, "svg.hashsalt": "mpiparallel"}
_NOTHING = "#F4F4F4"
# Colour and size: where they are equal, all three show.
_DOTS = {"most": ("#004488", 11), "median": ("#BB5566", 7.5), "least": ("#DDAA33", 4)}
_MOST_TICKS = 9


def draw(forecast: MoveForecast, path: Path) -> None:
    """Draw ``forecast`` into ``path``, in the format that its name says; needs matplotlib.

    Raises ConfigurationError where it cannot be written.
    """
    from matplotlib import rc_context  # an optional extra, which takes NumPy with it
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(13, 6.2), facecolor="white", layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
        _draw_matrix(figure, left, forecast)
        _draw_ranks(right, forecast)
        figure.suptitle(
            f"{forecast.source_ranks} → {forecast.target_ranks} ranks: {amount(forecast.moved)} move, "
            f"{amount(forecast.stays)} stay",
            fontweight="bold",
        )
        drawn, kind = BytesIO(), path.suffix.removeprefix(".")
        figure.savefig(drawn, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    write_output("--picture", path, drawn.getvalue())


def _draw_matrix(figure: Figure, axes: Axes, forecast: MoveForecast) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter

    values = [value for row in forecast.matrix for value in row if value]
    shown = [[value or float("nan") for value in row] for row in forecast.matrix]
    axes.set_facecolor(_NOTHING)
    if values:
        low, high = min(values), max(values)
        image = axes.imshow(shown, cmap="viridis_r", norm=LogNorm(low, high if high > low else low * 1.01))
        bar = figure.colorbar(image, ax=axes, shrink=0.85, format=FuncFormatter(lambda value, _: amount(round(value))))
        bar.ax.minorticks_off()
    starts = forecast.block_starts
    ticks = range(0, len(starts), -(-len(starts) // _MOST_TICKS))
    labels = [str(starts[tick]) for tick in ticks]
    axes.set_xticks(list(ticks), labels)
    axes.set_yticks(list(ticks), labels)
    axes.set_xlabel("to rank")
    axes.set_ylabel("from rank")
    blocks = starts[1] - starts[0] if len(starts) > 1 else 1
    axes.set_title("bytes from rank to rank" if blocks == 1 else f"bytes between blocks of about {blocks} ranks")


def _draw_ranks(axes: Axes, forecast: MoveForecast) -> None:
    from matplotlib.ticker import FuncFormatter

    shown = {name: spread for name, spread in forecast.per_rank.items() if not name.endswith("ranks")}
    for place, spread in enumerate(shown.values()):
        axes.plot((spread.least, spread.most), (place, place), color="#BBBBBB", linewidth=5, solid_capstyle="round")
        for label, (colour, size) in _DOTS.items():
            told = None if place else label
            axes.plot(getattr(spread, label), place, "o", color=colour, markersize=size, label=told, clip_on=False)
        axes.annotate(
            amount(spread.most), (spread.most, place), (8, 8), textcoords="offset points", fontsize=9, color="#444444"
        )
    axes.set_yticks(range(len(shown)), list(map(title, shown)))
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(round(value))))
    axes.tick_params(axis="x", labelrotation=20)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("of a rank")
    axes.legend(frameon=False, loc="best")
