"""The picture of the demo shows losses, what is promised of them, and which rank holds what; sizes have defaults."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.launch.demo.arguments import add_size_arguments
from mpiparallel.launch.demo.picture import can_draw, draw
from mpiparallel.launch.demo.report import DemoReport, LossComparison, ParameterSlices, Phase

LOSSES = [8.0 - 0.1 * step for step in range(31)]
NEEDS_MATPLOTLIB = pytest.mark.skipif(not can_draw(), reason="needs matplotlib")
Corners = Sequence[tuple[tuple[int, ...], tuple[int, ...]]]


def report(
    alone: Sequence[float] = LOSSES, slices: Sequence[ParameterSlices] = (), dtype: str = "float32"
) -> DemoReport:
    """A training of 17 steps on four ranks and 14 on two, beside one on one rank."""
    return DemoReport(
        dtype,
        Phase(1, 1, 1, False, 1, alone, 0.1),
        Phase(4, 2, 2, True, 1, LOSSES[:17], 0.2),
        Phase(2, 1, 2, False, 18, LOSSES[17:], 0.3),
        3_500_000,
        12_000_000,
        0.25,
        slices or [ParameterSlices("w", (6, 4), [((0, 0), (6, 4))] * 4, [((0, 0), (6, 4))] * 2)],
    )


def figure(made: DemoReport, monkeypatch: pytest.MonkeyPatch) -> Any:
    from matplotlib.figure import Figure

    figures: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda drawn, *_, **__: figures.append(drawn))
    draw(made, [Path("/dev/null.svg")])
    return figures[0]


@NEEDS_MATPLOTLIB
def test_curves_are_the_losses_of_each_step_and_the_move_lies_between_two(monkeypatch: pytest.MonkeyPatch) -> None:
    curves = figure(report(), monkeypatch).axes[0]
    alone, before, after, move = curves.lines
    assert list(alone.get_xdata()) == list(range(1, 32))
    assert list(alone.get_ydata()) == LOSSES
    assert (list(before.get_xdata()), list(before.get_ydata())) == (list(range(1, 18)), LOSSES[:17])
    assert (list(after.get_xdata()), list(after.get_ydata())) == (list(range(18, 32)), LOSSES[17:])
    assert list(move.get_xdata()) == [17.5, 17.5]
    labels = [one.get_text() for one in curves.get_legend().get_texts()]
    assert labels == ["1 rank", "4 ranks, dp2 x mp2 + opt", "2 ranks, dp1 x mp2"]
    (told,) = curves.texts
    assert told.get_text() == "4 → 2 ranks, live\n3.5 MB moved in 0.25 s"
    assert told.xy[0] == 17.5
    assert curves.get_ylabel() == "loss"
    assert alone.get_linewidth() > before.get_linewidth() == after.get_linewidth()
    assert not curves.get_legend().get_frame_on()


@NEEDS_MATPLOTLIB
def test_dots_are_relative_differences_below_what_is_promised_of_the_first_steps_and_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = list(LOSSES)
    alone[3] *= 1.0 + 1e-6
    alone[25] *= 1.0 - 1e-5
    axes = figure(report(alone), monkeypatch).axes[1]
    dots, first, then, move = axes.lines
    assert list(dots.get_xdata()) == list(range(1, 32))
    found = list(dots.get_ydata())
    assert found[3] == pytest.approx(1e-6, rel=1e-4)
    assert found[25] == pytest.approx(1e-5, rel=1e-4)
    # Equal to the last bit: no dot where the axis begins.
    assert max(found[:3]) < axes.get_ylim()[0] == pytest.approx(1e-6 / 5, rel=1e-4)
    assert axes.get_ylim()[1] == pytest.approx(60e-3)
    assert [(list(one.get_xdata()), list(one.get_ydata())) for one in (first, then)] == [
        ([1, 20], [2e-5, 2e-5]),
        ([20, 31], [1e-3, 1e-3]),
    ]
    assert list(move.get_xdata()) == [17.5, 17.5]
    assert axes.get_xlim() == axes.figure.axes[0].get_xlim() == (0, 32)
    assert {side for side, spine in axes.spines.items() if spine.get_visible()} == {"left", "bottom"}
    assert axes.get_yscale() == "log"
    (promised,) = axes.texts
    assert promised.get_position() == (31, 1e-3)


@NEEDS_MATPLOTLIB
def test_losses_that_are_equal_to_the_last_bit_leave_an_axis_that_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = figure(report(dtype="float64"), monkeypatch).axes[1].get_ylim()
    assert 0 < low < 1e-16
    assert high == pytest.approx(60e-9)


HALVES: Corners = [((0, 0), (3, 4)), ((3, 0), (6, 4))]
QUARTERS: Corners = [((0, 0), (3, 2)), ((0, 2), (3, 4)), ((3, 0), (6, 2)), ((3, 2), (6, 4))]
WHOLE: Corners = [((0, 0), (6, 4))]


BOXES: list[tuple[Corners, list[tuple[str, float, float]]]] = [
    (QUARTERS, [("0", 1.0, 1.5), ("1", 3.0, 1.5), ("2", 1.0, 4.5), ("3", 3.0, 4.5)]),
    ([HALVES[0], HALVES[1], HALVES[0], HALVES[1]], [("0 2", 2.0, 1.5), ("1 3", 2.0, 4.5)]),
    (list(WHOLE) * 4, [("all of it on ranks 0 1 2 3", 2.0, 3.0)]),
    (list(WHOLE), [("0", 2.0, 3.0)]),
    ([*HALVES, ((6, 0), (6, 4)), ((0, 4), (6, 4))], [("0", 2.0, 1.5), ("1", 2.0, 4.5)]),
]


@NEEDS_MATPLOTLIB
def test_a_box_names_the_ranks_that_hold_it_in_its_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    slices = [ParameterSlices("w", (6, 4), boxes, HALVES) for boxes, _ in BOXES]
    drawn = figure(report(slices=slices), monkeypatch).axes[2:]
    assert [axes.get_title() for axes in drawn] == ["before: 4 ranks", "after: 2 ranks", *[""] * 8]
    for axes, (_, told) in zip(drawn[::2], BOXES, strict=True):
        assert [(one.get_text(), *one.get_position()) for one in axes.texts] == told
        assert (axes.get_xlim(), axes.get_ylim()) == ((0, 4), (6, 0))
        assert len({patch.get_facecolor() for patch in axes.patches}) == len(axes.patches) == len(told)


@NEEDS_MATPLOTLIB
def test_a_rank_has_one_colour_and_what_all_hold_another(monkeypatch: pytest.MonkeyPatch) -> None:
    slices = [ParameterSlices("w", (6, 4), QUARTERS, HALVES), ParameterSlices("v", (6, 4), list(WHOLE) * 2, WHOLE)]
    parts = [
        [patch.get_facecolor() for patch in axes.patches]
        for axes in figure(report(slices=slices), monkeypatch).axes[2:]
    ]
    assert parts[1] == parts[0][:2]
    assert parts[2][0] not in parts[0]
    assert parts[3] == parts[0][:1]


def test_sizes_that_nobody_says_are_those_of_the_tutorial() -> None:
    parser = argparse.ArgumentParser()
    add_size_arguments(parser)
    assert vars(parser.parse_args([])) == {
        "file_path": None,
        "batch_size": 32,
        "src_len": 10,
        "tgt_len": 10,
        "vocab_size": 2400,
        "d_model": 128,
        "num_heads": 8,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "dtype": "float32",
        "steps": 200,
        "more_steps": 120,
        "lr": 1e-4,
        "seed": 1,
    }


@pytest.mark.parametrize("count", [19, 20, 21, 30])
def test_the_first_twenty_losses_are_held_to_a_promise_of_their_own(count: int) -> None:
    made = report()
    short = replace(
        made,
        alone=replace(made.alone, losses=LOSSES[:count]),
        after=replace(made.after, losses=LOSSES[17:count]),
    )
    assert [(one.last_step, one.limit) for one in short.checks] == [(min(count, 20), 2e-5), (count, 1e-3)][
        : 1 + (count > 20)
    ]
    assert all(one.holds for one in short.checks)


def test_what_is_no_number_is_apart_without_end() -> None:
    apart = report([math.nan, *LOSSES[1:]])
    assert apart.differences[0] == math.inf
    assert [one.holds for one in apart.checks] == [False, False]
    assert apart.differences[1:] == [0.0] * 30
    assert LossComparison(20, 2e-5, 2e-5).holds
