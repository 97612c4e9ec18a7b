"""Where things lie in the picture of time lines: numbers in their boxes, rows, panels, and the scale of time."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from mpiparallel.pipeline import Action, Kind, Panel, TimedAction, make_schedule, picture

SVG = "{http://www.w3.org/2000/svg}"
IDLE = "#ECECEC"


def drawn(*panels: Panel) -> ElementTree.Element:
    return ElementTree.fromstring(picture(panels))


def place(element: ElementTree.Element, *names: str) -> list[float]:
    return [float(element.get(name, "")) for name in names]


def texts(tree: ElementTree.Element) -> list[ElementTree.Element]:
    return list(tree.iter(f"{SVG}text"))


def long(*seconds: float, kind: Kind = Kind.FORWARD, micro_batch: int = 0, chunk: int = 0) -> Panel:
    """Return a panel of one stage, whose actions take so long, one after the other."""
    begin, actions = 0.0, []
    for one in seconds:
        actions.append(TimedAction(0, Action(kind, micro_batch, chunk), begin, begin + one))
        begin += one
    return Panel("measured", "", actions)


@pytest.mark.parametrize("name", ["1f1b", "zb_v"])
def test_each_computation_has_its_number_in_the_middle_of_its_box_in_an_ink_that_can_be_read(name: str) -> None:
    def brightness(colour: str) -> float:
        """Return the relative luminance by which the contrast of web pages is defined."""
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] if colour != "white" else [1.0] * 3
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    panel = Panel.planned(name, make_schedule(name, 3, 5))
    found, groups = [], list(drawn(panel).iter(f"{SVG}g"))
    for boxes, numbers in zip(groups[::2], groups[1::2], strict=True):
        ink, paper = (brightness(group.get("fill", "")) for group in (numbers, boxes))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 3.5
        assert numbers.get("text-anchor") == "middle"
        for box, number in zip(boxes, numbers, strict=True):
            left, top, width, height = place(box, "x", "y", "width", "height")
            x, y = place(number, "x", "y")
            assert x == pytest.approx(left + width / 2, abs=0.11)
            # Digits of 11 points are 8 high, and stand on their line.
            assert y - 8 - top == pytest.approx(top + height - y, abs=1)
            found.append((top, left, number.text))
    rows = sorted({top for top, *_ in found})
    written = [[text for _, text in sorted((left, text) for top, left, text in found if top == row)] for row in rows]
    computed = [one for one in panel.actions if one.end > one.begin]
    assert written == [[str(one.action.micro_batch) for one in computed if one.stage == stage] for stage in range(3)]


@pytest.mark.parametrize(
    ("micro_batch", "pixels", "is_written"), [(5, 7, False), (5, 8, True), (55, 13, False), (55, 14, True)]
)
def test_a_number_that_is_wider_than_its_box_is_left_out(micro_batch: int, pixels: float, is_written: bool) -> None:
    # The scale of time is 972 wide, so a second box that is as long as the rest makes the first one as narrow.
    tree = drawn(long(pixels, 972 - pixels, micro_batch=micro_batch))
    boxes, numbers = tree.iter(f"{SVG}g")
    assert [place(box, "width")[0] for box in boxes] == [pixels, 972 - pixels]
    assert [one.text for one in numbers] == [str(micro_batch)] * (1 + is_written)


def test_what_is_done_once_a_step_has_no_number() -> None:
    tree = drawn(long(1, 1, kind=Kind.REDUCE))
    assert len(list(tree.iter(f"{SVG}g"))) == 1
    assert [group.get("fill") for group in tree.iter(f"{SVG}g")] == ["#555555"]


def borders(*seconds: float) -> dict[float, str | None]:
    """Return the colours of the borders of boxes by their widths."""
    groups = [group for group in drawn(long(*seconds)).iter(f"{SVG}g") if group.get("stroke")]
    return {place(box, "width")[0]: group.get("stroke") for group in groups for box in group}


def test_a_box_that_is_thinner_than_a_border_has_none() -> None:
    for thin, wide in ((1, 971), (2, 970)):
        assert borders(thin, wide) == borders(wide, thin) == {thin: "none", wide: "white"}
    assert borders(3, 969) == {3: "white", 969: "white"}


def test_rows_of_stages_lie_below_each_other_each_with_its_name_left_of_it() -> None:
    tree = drawn(Panel.planned("1F1B", make_schedule("1f1b", 4, 4)))
    rows = [place(one, "x", "y", "width", "height") for one in tree.iter(f"{SVG}rect") if one.get("fill") == IDLE]
    # The first is the sample of the legend.
    rows = rows[1:]
    names = [one for one in texts(tree) if (one.text or "").startswith("stage ")]
    assert [one.text for one in names] == ["stage 0", "stage 1", "stage 2", "stage 3"]
    for name, (left, top, _, height) in zip(names, rows, strict=True):
        x, y = place(name, "x", "y")
        assert name.get("text-anchor") == "end"
        assert left - 20 < x < left
        assert top + 9 < y < top + height
    steps = {other[1] - one[1] for one, other in pairwise(rows)}
    assert len(steps) == 1
    assert rows[0][3] < steps.pop() < 2 * rows[0][3]
    boxes = {place(box, "y", "height")[0] for group in tree.iter(f"{SVG}g") for box in group.iter(f"{SVG}rect")}
    assert sorted(boxes) == [top for _, top, _, _ in rows]


def test_panels_follow_each_other_on_one_scale_each_with_title_and_note_above_its_rows() -> None:
    panels = [Panel("A & B", "first", long(4).actions), Panel("<C>", "second", [*long(2).actions, *other_stage(1)])]
    tree = drawn(*panels)
    shown = [place(one, "y", "width", "height") for one in tree.iter(f"{SVG}rect") if one.get("fill") == IDLE][1:]
    # Time that nothing fills is shown up to the end of the panel's own last action.
    assert [width for _, width, _ in shown] == [972, 486, 486]
    titles = [one for one in texts(tree) if len(one)]
    assert [[part.text for part in title] for title in titles] == [["A & B", "first"], ["<C>", "second"]]
    assert [[part.get("font-weight") for part in title] for title in titles] == [["bold", None]] * 2
    order = [place(titles[0], "y")[0], shown[0][0], place(titles[1], "y")[0], shown[1][0], shown[2][0]]
    assert all(other - one > 10 for one, other in pairwise(order))
    assert order[2] - 14 > shown[0][0] + shown[0][2]


def other_stage(seconds: float) -> list[TimedAction]:
    return [one._replace(stage=1) for one in long(seconds).actions]


@pytest.mark.parametrize("name", ["gpipe", "zb_v"])
def test_everything_lies_inside_the_picture(name: str) -> None:
    tree = drawn(*(Panel.planned(name, make_schedule(name, stages, 4)) for stages in (2, 1)))
    width, height = place(tree, "width", "height")
    assert tree.get("viewBox") == f"0 0 {width:g} {height:g}"
    for box in tree.iter(f"{SVG}rect"):
        if box.get("width") != "100%":
            left, top, wide, high = place(box, "x", "y", "width", "height")
            assert 0 <= left < left + wide <= width
            assert 0 <= top < top + high <= height
    for text in texts(tree):
        x, y = place(text, "x", "y")
        assert 0 < x < width
        assert 11 < y < height
    # Nothing is left of the picture below the numbers of the time but their own tails.
    assert height - max(place(text, "y")[0] for text in texts(tree)) < 30


@pytest.mark.parametrize(
    ("end", "numbers"),
    [
        # An eighth of the end, rounded up to 1, 2 or 5 times a power of ten, is the step.
        (6, "0 1 2 3 4 5 6"),
        (8, "0 1 2 3 4 5 6 7 8"),
        (8.5, "0 2 4 6 8"),
        (16, "0 2 4 6 8 10 12 14 16"),
        (17, "0 5 10 15"),
        (40, "0 5 10 15 20 25 30 35 40"),
        (41, "0 10 20 30 40"),
        (0.3, "0 0.05 0.1 0.15 0.2 0.25 0.3"),
        (1000, "0 200 400 600 800 1000"),
    ],
)
def test_the_scale_of_time_has_round_numbers_where_they_belong(end: float, numbers: str) -> None:
    tree = drawn(long(end))
    y = max(place(text, "y")[0] for text in texts(tree))
    row = [(place(text, "x")[0], text) for text in texts(tree) if place(text, "y")[0] == y]
    assert [text.text for _, text in row] == [*numbers.split(), "time"]
    (*marks, (named, name)) = row
    for x, text in marks:
        assert x == pytest.approx(84 + 972 * float(text.text or "") / end, abs=0.06)
        assert text.get("text-anchor") == "middle"
    assert named < 84
    assert name.get("text-anchor") == "end"
    line, *_ = tree.iter(f"{SVG}path")
    height = y - 18
    assert line.get("d") == f"M84 {height:g}H1056.0"


@pytest.mark.parametrize(("chunk", "is_told"), [(0, False), (1, True), (2, False)])
def test_what_light_colours_are_is_told_where_there_are_any(chunk: int, is_told: bool) -> None:
    tree = drawn(long(1, chunk=chunk))
    light = " Light colours are the second chunk of a stage." if is_told else ""
    (note,) = [one for one in texts(tree) if (one.text or "").startswith("Numbers are")]
    assert note.text == f"Numbers are micro-batches.{light}"
    samples = [place(one, "y")[0] for one in tree.iter(f"{SVG}rect") if one.get("width") == "16"]
    assert place(note, "y")[0] > samples[0] + 16 + 12
    (group, _) = tree.iter(f"{SVG}g")
    assert group.get("fill") == ("#A6C4E2" if chunk == 1 else "#4477AA")


def test_the_legend_goes_on_in_a_second_row_right_below_the_first() -> None:
    shown = [TimedAction(0, Action(kind, 0, 0, 1), float(place), place + 1.0) for place, kind in enumerate(Kind)]
    tree = drawn(Panel("all kinds", "", shown))
    rows = sorted({place(one, "y")[0] for one in tree.iter(f"{SVG}rect") if one.get("width") == "16"})
    assert rows == [16, 16 + 22]
    first = min(place(one, "x")[0] for one in tree.iter(f"{SVG}rect") if one.get("y") == "38")
    assert first == 84


def test_a_small_picture_is_drawn_point_by_point() -> None:
    """One pass of a second, of each of two chunks, and one of two seconds on another stage: 243 points a second."""
    passes = [
        TimedAction(0, Action(Kind.FORWARD, 0, 0), 0.0, 1.0),
        TimedAction(0, Action(Kind.FORWARD, 1, 1), 1.0, 2.0),
        TimedAction(1, Action(Kind.WEIGHT_GRADIENT, 0, 0), 2.0, 4.0),
    ]
    tree = drawn(Panel("A", "b", passes))
    boxes = [place(one, "x", "y", "width", "height") for one in tree.iter(f"{SVG}rect") if one.get("x")]
    # Samples of one kind are two apart; a word has six before it, eight for each letter and as many as a box behind.
    words = 84 + 2 * 18 + 26 + 8 * len("forward"), 18 + 26 + 8 * len("weight gradient")
    samples = [84, 102, words[0], sum(words)]
    assert boxes[:4] == [[x, 16, 16, 16] for x in samples]
    assert boxes[4:] == [
        [84, 92, 972, 22],
        [84, 92, 243, 22],
        [84 + 243, 92, 243, 22],
        [84, 116, 972, 22],
        [84 + 486, 116, 486, 22],
    ]
    written = [(*place(one, "x", "y"), one.get("font-size"), one.text) for one in texts(tree)]
    assert written[:5] == [
        (samples[1] + 22, 29, "13", "forward"),
        (samples[2] + 22, 29, "13", "weight gradient"),
        (samples[3] + 22, 29, "13", "idle"),
        (84, 50, "12", "Numbers are micro-batches. Light colours are the second chunk of a stage."),
        (84, 80, "14", None),
    ]
    assert written[5:10] == [
        (74, 107, "12", "stage 0"),
        (84 + 121.5, 107, None, "0"),
        (84 + 364.5, 107, None, "1"),
        (74, 131, "12", "stage 1"),
        (84 + 729, 131, None, "0"),
    ]
    halves = [(84 + 121.5 * step, 180, "11", f"{step / 2:g}") for step in range(9)]
    assert written[10:] == [*halves, (74, 180, "11", "time")]
    lines = [one.get("d") for one in tree.iter(f"{SVG}path")]
    assert lines == ["M84 162H1056.0", *(f"M{x:.1f} 162v5" for x, *_ in halves)]
    assert (tree.get("width"), tree.get("height")) == ("1080", "196")


def test_a_picture_of_nothing_has_no_scale_of_time() -> None:
    for panels in ((), (Panel("nothing", "", []),)):
        assert not list(drawn(*panels).iter(f"{SVG}path"))
