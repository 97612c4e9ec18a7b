"""The picture of a plan: its marks name ranks, and there are no more of them than can be read."""

from __future__ import annotations

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
