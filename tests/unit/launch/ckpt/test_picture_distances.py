"""Where things stand in the picture of a checkpoint: margins, columns, rows, lines and bars at their distances."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from mpiparallel.launch.ckpt.held_tensor import HeldSlice, HeldTensor
from mpiparallel.launch.ckpt.picture import picture

SVG = "{http://www.w3.org/2000/svg}"
MARGIN, COLUMN, ROW = 24, 330, 90
"""Around the picture, from column to column, and from the end of a tensor to that of the head below it."""
TITLE, SUMMARY, LINE, HEAD = 34, 56, 14, 84
LINES, BOX = (14, 30, 46), 58
"""Feet of the lines above a tensor, and where it begins, below the top of its panel."""


class Text(NamedTuple):
    x: float
    y: float
    anchor: str
    weight: str
    size: str


def tensor(name: str, shape: tuple[int, ...], cuts: tuple[int, ...]) -> HeldTensor:
    """A tensor of bytes; part number i is in the file of rank i."""
    slices = []
    for number, parts in enumerate(product(*map(range, cuts))):
        start = tuple(part * extent // cut for part, extent, cut in zip(parts, shape, cuts, strict=True))
        stop = tuple((part + 1) * extent // cut for part, extent, cut in zip(parts, shape, cuts, strict=True))
        slices.append(HeldSlice(parts, start, stop, (number,), (number,), ()))
    return HeldTensor(name, "uint8", 1, shape, cuts, f"layout of {name}", tuple(slices))


def texts_of(root: ElementTree.Element) -> dict[str, Text]:
    return {
        "".join(one.itertext()): Text(
            float(one.get("x", "")),
            float(one.get("y", "")),
            one.get("text-anchor", ""),
            one.get("font-weight", ""),
            one.get("font-size", ""),
        )
        for one in root.iter(f"{SVG}text")
        if one.find(f"{SVG}tspan") is None
    }


def boxes_of(root: ElementTree.Element) -> dict[str, tuple[float, ...]]:
    return {
        title.text or "": tuple(float(one.get(name, "")) for name in ("x", "y", "width", "height"))
        for one in root.iter(f"{SVG}rect")
        if (title := one.find(f"{SVG}title")) is not None
    }


def test_three_columns_of_tensors_stand_above_the_bars_within_equal_margins() -> None:
    tensors = [
        tensor("a", (20, 30), (2, 1)),
        tensor("b", (10, 10), (1, 1)),
        tensor("c", (8,), (1,)),
        tensor("d", (4,), (4,)),
        tensor("e", (2,), (4,)),
    ]
    root = ElementTree.fromstring(picture("saved", tensors, 4, {3: "is missing"}))
    texts, boxes = texts_of(root), boxes_of(root)
    # The highest tensor of the first row takes 210 pixels, the vector of the second 40.
    second = HEAD + 210 + ROW
    bars = second + 40 + ROW
    panels = {
        "a": (MARGIN, HEAD),
        "b": (MARGIN + COLUMN, HEAD),
        "c": (MARGIN + 2 * COLUMN, HEAD),
        "d": (MARGIN, second),
    }
    for name, (left, top) in panels.items():
        assert texts[name] == Text(left, top + LINES[0], "start", "bold", "11")
        assert texts[f"uint8 layout of {name}"] == Text(left, top + LINES[1], "start", "normal", "11")
    assert texts["and 1 more cut alike"] == Text(MARGIN, second + LINES[2], "start", "normal", "11")
    assert texts["saved"] == Text(MARGIN, TITLE, "start", "bold", "17")
    summary = [text for name, text in texts.items() if name.startswith(("5 tensors", "red: "))]
    assert summary == [Text(MARGIN, SUMMARY + line, "start", "normal", "11") for line in (0, LINE)]
    assert boxes["[0:10, 0:30]: ranks 0"] == (MARGIN, HEAD + BOX, 280, 93.3)
    assert boxes["[10:20, 0:30]: ranks 1"] == (MARGIN, HEAD + BOX + 93.3, 280, 93.3)
    assert boxes["[0:10, 0:10]: ranks 0"] == (MARGIN + COLUMN, HEAD + BOX, 210, 210)
    assert boxes["[0:8]: ranks 0"] == (MARGIN + 2 * COLUMN, HEAD + BOX, 280, 40)
    assert boxes["[1:2]: ranks 1"] == (MARGIN + 70, second + BOX, 70, 40)
    # Bars of 120 pixels stand on one line, with their numbers below it.
    assert texts["in the file of each rank, at most 409 B"] == Text(MARGIN, bars + 14, "start", "bold", "11")
    foot = bars + 30 + 120
    for rank, size in enumerate((300 + 100 + 8 + 1, 300 + 1 + 1, 1, 1 + 1)):
        x, y, width, height = boxes[f"rank {rank}: {size} B"]
        assert (x, width) == (MARGIN + 60 * rank + 1, 57)
        assert (height, y + height) == pytest.approx((120 * size / 409, foot), abs=0.11)
        assert texts[str(rank)] == Text(MARGIN + 60 * rank + 30, foot + 16, "middle", "normal", "11")
    whole = (2 * MARGIN + 3 * COLUMN, float(foot + 60))
    assert (root.get("width"), root.get("height")) == tuple(map(str, whole))
    assert root.get("viewBox") == f"0 0 {whole[0]} {whole[1]}"


def test_words_stand_in_the_middle_of_their_part_in_lines_of_14_pixels() -> None:
    everyone = tuple(range(100))
    whole = HeldTensor(
        "w", "uint8", 1, (8, 8), (1, 1), "whole", (HeldSlice((0, 0), (0, 0), (8, 8), everyone, everyone, ()),)
    )
    for made, ranks in ((whole, 100), (tensor("w", (8, 8), (1, 1)), 1)):
        root = ElementTree.fromstring(picture("saved", [made], ranks, {}))
        feet = [float(one.get("y", "")) for one in root.iter(f"{SVG}text") if one.find(f"{SVG}tspan") is not None]
        lefts = {one.get("x") for one in root.iter(f"{SVG}text") if one.find(f"{SVG}tspan") is not None}
        assert lefts == {str(MARGIN + 105.0)}
        # Digits are eight pixels high, so their feet are four below the middle.
        assert (feet[0] + feet[-1]) / 2 == HEAD + BOX + 105 + 4
        assert feet == [feet[0] + 14 * line for line in range(len(feet))]
        # Of 31 characters: ten digits and three numbers in the first line, ten numbers in each of the others.
        assert len(feet) == (1 if ranks == 1 else 10)


def test_an_empty_tensor_says_so_where_it_would_begin_and_colours_are_light_and_of_two_kinds() -> None:
    root = ElementTree.fromstring(picture("saved", [tensor("w", (0, 3), (1, 1)), tensor("v", (3,), (3,))], 3, {}))
    assert texts_of(root)["(no elements)"][:2] == (MARGIN + COLUMN, HEAD + BOX + 14)
    fills = [one.get("fill") for one in root.iter(f"{SVG}rect") if "rank " in "".join(one.itertext())]
    assert fills == ["hsl(0, 60%, 83%)", "hsl(120, 60%, 76%)", "hsl(240, 60%, 83%)"]


def test_of_a_title_of_more_than_90_characters_the_end_is_shown() -> None:
    for length, shown in ((90, "s" * 90), (91, "…" + "s" * 89)):
        root = ElementTree.fromstring(picture("s" * length, [tensor("w", (3,), (1,))], 1, {}))
        assert next(iter(texts_of(root))) == shown
