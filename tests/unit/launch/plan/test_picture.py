"""The picture of a plan: its marks name ranks, and there are no more of them than can be read."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.launch.plan.forecast import MoveForecast, Seconds, Spread
from mpiparallel.launch.plan.picture import draw

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib, of the extra plot")


def forecast(starts: tuple[int, ...]) -> MoveForecast:
    return MoveForecast(
        source="src",
        target="dst",
        source_ranks=starts[-1] + 1,
        target_ranks=starts[-1] + 1,
        hosts=1,
        ranks_per_host=8,
        tensors=1,
        state=1,
        scratch=0,
        per_rank={"holds_before": Spread(1, 2, 4)},
        stays=0,
        moved=8,
        within_hosts=8,
        between_hosts=0,
        messages=8,
        largest=(),
        still=0,
        seconds=Seconds(1.0, 0.0, 1.0, 1.0, False),
        relabeled=None,
        block_starts=starts,
        matrix=tuple(tuple(8 * (row != column) for column in range(len(starts))) for row in range(len(starts))),
    )


@pytest.mark.parametrize(
    ("starts", "marked", "title"),
    [
        ((0,), [0], "bytes from rank to rank"),
        (tuple(range(9)), list(range(9)), "bytes from rank to rank"),
        (tuple(range(10)), [0, 2, 4, 6, 8], "bytes from rank to rank"),
        (tuple(range(0, 80, 4)), [0, 12, 24, 36, 48, 60, 72], "bytes between blocks of about 4 ranks"),
    ],
)
def test_nine_blocks_of_ranks_at_most_are_named_by_their_first_ranks(
    starts: tuple[int, ...], marked: list[int], title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    figures: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    draw(forecast(starts), tmp_path / "map.svg")
    axes = figures[0].axes[0]
    assert axes.get_title() == title
    for ticks, labels in ((axes.get_xticks(), axes.get_xticklabels()), (axes.get_yticks(), axes.get_yticklabels())):
        assert [one.get_text() for one in labels] == list(map(str, marked))
        assert [starts[place] for place in ticks] == marked


def drawn(made: MoveForecast, path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the figure that is drawn of a forecast."""
    from matplotlib.figure import Figure

    figures: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    draw(made, path)
    return figures[0]


def test_a_rank_has_a_row_for_each_kind_of_bytes_with_its_least_median_and_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spreads = {"holds_before": Spread(1, 2, 4000), "sends_to_ranks": Spread(5, 6, 7), "safe_peak": Spread(0, 9, 9)}
    figure = drawn(replace(forecast((0, 1)), per_rank=spreads), tmp_path / "map.svg", monkeypatch)
    axes = figure.axes[1]
    assert [one.get_text() for one in axes.get_yticklabels()] == ["holds before", "safe peak"]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in dots] == [
        *((4000, 0), (2, 0), (1, 0)),
        *((9, 1), (9, 1), (0, 1)),
    ]
    assert [line.get_label() for line in dots[:3]] == ["most", "median", "least"]
    sizes = [line.get_markersize() for line in dots[:3]]
    assert sizes == sorted(sizes, reverse=True)
    bars = [line for line in axes.lines if line.get_marker() != "o"]
    assert [tuple(line.get_xdata()) for line in bars] == [(1, 4000), (0, 9)]
    assert [one.get_text() for one in axes.texts] == ["4.00 kB", "9 B"]
    assert [one.xy for one in axes.texts] == [(4000, 0), (9, 1)]
    assert axes.get_xlim()[0] == 0
    # What is largest stands within the axes, with room for its bytes.
    assert 4000 < axes.get_xlim()[1] < 8000
    assert axes.xaxis.get_major_formatter()(1234.5, 0) == "1.23 kB"
    assert not any(line.get_clip_on() for line in dots)
    assert {side for side, spine in axes.spines.items() if spine.get_visible()} == {"left", "bottom"}
    assert not axes.get_legend().get_frame_on()
    assert axes.yaxis_inverted()
    assert axes.get_title() == "of a rank"


def test_the_title_tells_ranks_and_bytes_and_the_map_what_goes_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replace(forecast((0, 1)), stays=3_000, matrix=((0, 8), (16, 0)))
    figure = drawn(made, tmp_path / "map.png", monkeypatch)
    assert figure.get_suptitle() == "2 → 2 ranks: 8 B move, 3.00 kB stay"
    axes = figure.axes[0]
    (image,) = axes.images
    assert image.get_array().filled(0).tolist() == [[0, 8], [16, 0]]
    assert image.norm.vmin == 8
    assert image.norm.vmax == 16
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("to rank", "from rank")
    assert image.colorbar.ax.yaxis.get_major_formatter()(15.6, 0) == "16 B"


@pytest.mark.parametrize(("matrix", "images"), [(((0, 0), (0, 0)), 0), (((0, 8), (8, 0)), 1)])
def test_nothing_and_the_same_everywhere_are_drawn_too(
    matrix: tuple[tuple[int, ...], ...], images: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = drawn(replace(forecast((0, 1)), matrix=matrix), tmp_path / "map.svg", monkeypatch).axes[0]
    assert len(axes.images) == images
    assert all(image.norm.vmin == 8 < image.norm.vmax < 9 for image in axes.images)
