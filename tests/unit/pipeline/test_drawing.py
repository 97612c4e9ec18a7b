"""Time lines are drawn as they are, planned or measured, in text and as a picture that every viewer shows."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from mpiparallel.pipeline import (
    SCHEDULES,
    Action,
    Costs,
    Kind,
    Panel,
    TimedAction,
    drawn_text,
    make_schedule,
    picture,
    time_line,
)

SVG = "{http://www.w3.org/2000/svg}"


def boxes(svg: str) -> list[tuple[str, float, float, float]]:
    """Return colour, left, top and width of each box of an action."""
    groups = [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("stroke")]
    return [
        (group.get("fill", ""), float(box.get("x", "")), float(box.get("y", "")), float(box.get("width", "")))
        for group in groups
        for box in group
    ]


@pytest.mark.parametrize("name", SCHEDULES)
def test_each_computation_is_a_box_as_long_as_it_takes_in_the_row_of_its_stage(name: str) -> None:
    schedule = make_schedule(name, 4, 8)
    drawn = boxes(picture([Panel.planned(name, schedule, Costs.even(4, 1, 2, 3))]))
    chunks = len(schedule.placement.parts[0])
    shares = {width: sum(box[3] == width for box in drawn) for width in {box[3] for box in drawn}}
    assert len(drawn) == 3 * 8 * 4 * chunks
    assert len({top for _, _, top, _ in drawn}) == 4
    assert len({colour for colour, *_ in drawn}) == 3 * chunks
    for times in (1, 2, 3):
        scale = sum(box[3] for box in drawn) / (4 * 8 * 6)
        assert sum(count for width, count in shares.items() if abs(width - times * scale / chunks) < 0.2) == 32 * chunks


def test_boxes_of_one_stage_never_lie_over_each_other() -> None:
    rows: dict[float, list[tuple[float, float]]] = {}
    for _, left, top, width in boxes(picture([Panel.planned("ZB-V", make_schedule("zb_v", 4, 8))])):
        rows.setdefault(top, []).append((left, left + width))
    for row in rows.values():
        row.sort()
        assert all(one[1] <= other[0] + 0.21 for one, other in pairwise(row))


def test_measured_times_in_any_order_are_drawn_like_planned_ones() -> None:
    planned = Panel.planned("1F1B", make_schedule("1f1b", 3, 4))
    measured = list(planned.actions)
    random.Random(0).shuffle(measured)
    shuffled = Panel(planned.title, planned.note, measured)
    assert sorted(boxes(picture([shuffled]))) == sorted(boxes(picture([planned])))
    assert drawn_text(shuffled, 80) == drawn_text(planned, 80)


def test_messages_reduce_and_update_are_drawn_where_they_took_time() -> None:
    waits = [
        TimedAction(0, Action(Kind.SEND_ACTIVATIONS, 0, 0, 1), 0.5, 1.0),
        TimedAction(1, Action(Kind.RECEIVE_ACTIVATIONS, 0, 0, 0), 0.0, 1.0),
        TimedAction(0, Action(Kind.REDUCE), 1.0, 2.0),
        TimedAction(1, Action(Kind.UPDATE), 1.0, 2.0),
    ]
    panel = Panel("measured", "2 s", waits)
    svg = picture([panel])
    assert len({colour for colour, *_ in boxes(svg)}) == 4
    for kind in (Kind.SEND_ACTIVATIONS, Kind.RECEIVE_ACTIVATIONS, Kind.REDUCE, Kind.UPDATE):
        assert f">{kind.words}</text>" in svg
    assert drawn_text(panel).splitlines()[-1] == "R reduce, U update, . idle"


def test_words_of_the_legend_lie_on_nothing_and_inside_the_picture() -> None:
    """A letter of a common font is at least 0.4 times as wide as it is high, on the average of a word."""
    shown = [TimedAction(0, Action(kind, 0, 0, 1), float(place), place + 1.0) for place, kind in enumerate(Kind)]
    tree = ElementTree.fromstring(picture([Panel("all kinds", "", shown)]))
    words = {kind.words for kind in Kind} | {"idle"}
    texts = [one for one in tree.iter(f"{SVG}text") if one.text in words]
    assert {one.text for one in texts} == words
    rows: dict[float, list[tuple[float, float]]] = {}
    for text in texts:
        left, size = float(text.get("x", "")), float(text.get("font-size", ""))
        rows.setdefault(float(text.get("y", "")), []).append((left, left + 0.4 * size * len(text.text or "")))
    assert len(rows) > 1
    for row in rows.values():
        row.sort()
        # Between a word and the next one is the box of that one's colour.
        assert all(one[1] + 16 < other[0] for one, other in pairwise(row))
        assert row[-1][1] <= float(tree.get("width", ""))


def test_colours_of_the_legend_are_those_of_what_is_drawn_each_before_its_word_and_beside_the_next() -> None:
    svg = picture([Panel.planned("ZB-V", make_schedule("zb_v", 4, 8))])
    tree = ElementTree.fromstring(svg)
    samples = [one for one in tree.iter(f"{SVG}rect") if one.get("width") == one.get("height") == "16"]
    (row,) = {float(one.get("y", "")) for one in samples}
    words = [one for one in tree.iter(f"{SVG}text") if row < float(one.get("y", "")) < row + 16]
    places = [(float(one.get("x", "")), one.get("fill", "")) for one in samples]
    places += [(float(one.get("x", "")), one.text or "") for one in words]
    places.sort()
    drawn = {colour for colour, *_ in boxes(svg)}
    shown = [name for _, name in places]
    # Each kind has a colour for each of the two chunks of a stage.
    assert [name in drawn for name in shown] == [True, True, False] * 3 + [False] * 2
    assert set(shown) >= drawn
    assert [name for name in shown if name not in drawn and not name.startswith("#")] == [
        *(kind.words for kind in (Kind.FORWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT)),
        "idle",
    ]
    for (left, name), (other, following) in pairwise(places):
        # Half a letter's height is at least what it is wide, on the average of a word.
        end = left + 16 if name.startswith("#") else left + 0.5 * 13 * len(name)
        is_of_next = not name.startswith("#") and following.startswith("#")
        assert end < other < (float("inf") if is_of_next else end + 8)
    assert places[0][0] >= min(left for _, left, *_ in boxes(svg))


@pytest.mark.parametrize("seconds", [1e-6, 0.25, 1.0, 40.0, 1e5])
def test_the_longest_row_is_as_wide_as_the_picture_lets_however_long_it_takes(seconds: float) -> None:
    timed = [
        TimedAction(0, Action(Kind.FORWARD, 0, 0, 0), 0.0, seconds / 4),
        TimedAction(1, Action(Kind.FORWARD, 0, 0, 1), seconds / 4, seconds),
    ]
    svg = picture([Panel("measured", "", timed)])
    (_, first, _, short), (_, second, _, long) = sorted(boxes(svg))
    whole = float(ElementTree.fromstring(svg).get("width", ""))
    names = [one for one in ElementTree.fromstring(svg).iter(f"{SVG}text") if (one.text or "").startswith("stage ")]
    assert all(float(name.get("x", "")) < first for name in names)
    assert second == pytest.approx(first + short, abs=0.1)
    assert long == pytest.approx(3 * short, abs=0.3)
    assert 0.8 * whole < short + long < second + long <= whole


def test_each_number_of_the_time_stands_below_its_mark() -> None:
    tree = ElementTree.fromstring(picture([Panel.planned("1F1B", make_schedule("1f1b", 3, 4))]))
    marks = [re.fullmatch(r"M([\d.]+) ([\d.]+)v5", path.get("d", "")) for path in tree.iter(f"{SVG}path")]
    places = {found[1]: float(found[2]) for found in marks if found}
    numbers = [text for text in tree.iter(f"{SVG}text") if (text.text or "").isdecimal() and text.get("x") in places]
    below = [text for text in numbers if text.get("font-size") == "11" and text.get("text-anchor") == "middle"]
    assert len(places) > 2
    for text in below:
        assert places[text.get("x", "")] + 5 + 8 <= float(text.get("y", "")) <= float(tree.get("height", ""))
    assert {text.get("x") for text in below} == set(places)


def test_colours_are_hexadecimal_which_every_viewer_shows() -> None:
    svg = picture([Panel.planned(name, make_schedule(name, 2, 4)) for name in SCHEDULES])
    colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"', svg))
    assert all(re.fullmatch(r"#[0-9A-F]{6}|white", colour) for colour in colours)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", SCHEDULES)
def test_text_keeps_to_its_width_and_says_what_its_letters_are(name: str, width: int) -> None:
    head, *rows, legend = drawn_text(Panel.planned("this", make_schedule(name, 4, 16)), width).splitlines()
    assert head.startswith("this: step ")
    assert [row.split()[:2] for row in rows] == [["stage", str(stage)] for stage in range(4)]
    assert max(map(len, rows)) <= width
    assert legend.startswith("F forward, I input gradient, W weight gradient, ")


def test_what_text_shows_at_a_time_is_what_is_done_then() -> None:
    schedule = make_schedule("zb_h1", 4, 8)
    rows = drawn_text(Panel.planned("ZB-H1", schedule), 120).splitlines()[1:-1]
    for timed in time_line(schedule):
        if timed.end > timed.begin:
            # Nine characters of label, three for each unit of time.
            assert rows[timed.stage][9 + round(3 * timed.begin) :].startswith(str(timed.action))


@pytest.mark.parametrize(("name", "width"), [("zb_v", 80), ("zb_v", 120), ("1f1b", 80), ("gpipe", 40)])
def test_in_colours_each_action_has_that_of_its_kind_and_the_number_of_its_micro_batch(name: str, width: int) -> None:
    schedule = make_schedule(name, 4, 8)
    _, *rows, samples, _ = drawn_text(Panel.planned("this", schedule), width, coloured=True).splitlines()
    colours = dict(zip("FIW", re.findall(r"\x1b\[([\d;]+)m \w", samples), strict=True))
    for stage, row in enumerate(rows):
        cells = re.findall(r"\x1b\[([\d;]+)m(\d) *\x1b\[0m", row)
        wanted = [one.action for one in time_line(schedule) if one.stage == stage and one.end > one.begin]
        assert [int(number) for _, number in cells] == [action.micro_batch for action in wanted]
        dark = [(colour, str(action)[0]) for (colour, _), action in zip(cells, wanted, strict=True) if not action.chunk]
        assert all(colours[letter] == colour for colour, letter in dark)
        assert len(set(colours.values()) | {colour for colour, _ in cells}) == 3 * (1 + (name == "zb_v"))
        bare = re.sub(r"\x1b\[[\d;]+m", "", row)
        assert len(bare) <= width


def test_nothing_is_drawn_of_nothing_and_titles_may_hold_any_character() -> None:
    nothing = Panel('<a & "b">', "", [])
    assert ElementTree.fromstring(picture([nothing])).tag == f"{SVG}svg"
    assert drawn_text(nothing).splitlines() == ['<a & "b">: ', ". idle"]
