"""The picture of a checkpoint says in each part of a tensor which ranks have it."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from mpiparallel.launch.ckpt.held_tensor import HeldSlice, HeldTensor
from mpiparallel.launch.ckpt.picture import picture

SVG = "{http://www.w3.org/2000/svg}"
CHARACTER = 6.6
"""Pixels of a digit of 11 points in the font of the picture."""


def lines_of_ranks(ranks: int) -> tuple[list[list[str]], float]:
    """The lines of words in the picture of a tensor that so many ranks have as a whole, and the width of its box."""
    everyone = tuple(range(ranks))
    part = HeldSlice((0, 0), (0, 0), (64, 64), everyone, everyone, ())
    tensor = HeldTensor("w", "float32", 4, (64, 64), (1, 1), "whole", (part,))
    root = ElementTree.fromstring(picture("saved", [tensor], ranks, {}))
    (box,) = [one for one in root.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None and one.get("stroke")]
    words = [[span.text or "" for span in text.iter(f"{SVG}tspan")] for text in root.iter(f"{SVG}text")]
    return [line for line in words if line], float(box.get("width", "nan"))


@pytest.mark.parametrize("ranks", [1, 8, 40, 100])
def test_ranks_fill_one_line_after_the_other_within_their_box(ranks: int) -> None:
    lines, width = lines_of_ranks(ranks)
    assert [word for line in lines for word in line] == [str(rank) for rank in range(ranks)]
    assert all(len(" ".join(line)) * CHARACTER <= width for line in lines)
    for line, after in pairwise(lines):
        assert (len(" ".join([*line, after[0]])) + 1) * CHARACTER > width - 4


def test_ranks_for_which_there_is_no_room_are_told_by_an_ellipsis() -> None:
    lines, width = lines_of_ranks(1000)
    assert lines[-1] == ["…"]
    assert lines[0][:2] == ["0", "1"]
    assert all(len(" ".join(line)) * CHARACTER <= width for line in lines)
