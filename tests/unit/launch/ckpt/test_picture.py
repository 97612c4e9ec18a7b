"""The picture of a checkpoint says in each part of a tensor which ranks have it."""

from __future__ import annotations

from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest

from mpiparallel.launch.ckpt.held_tensor import HeldSlice, HeldTensor
from mpiparallel.launch.ckpt.picture import picture
from tests.conformance.documents.drawn_area import Area, box, words

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
    everyone = tuple(range(1000))
    whole = HeldSlice((0, 0), (0, 0), (64, 64), everyone, everyone, ())
    tensor = HeldTensor("w", "float32", 4, (64, 64), (1, 1), "whole", (whole,))
    assert "line-through" not in picture("saved", [tensor], 1000, {})
    assert lines[0][:2] == ["0", "1"]
    assert all(len(" ".join(line)) * CHARACTER <= width for line in lines)


def test_a_box_begins_at_the_same_place_for_any_number_of_dims() -> None:
    begins = set()
    for shape in ((), (8,), (8, 64), (2, 3, 4)):
        nothing = (0,) * len(shape)
        part = HeldSlice(nothing, nothing, shape, (0,), (0,), ())
        tensor = HeldTensor("w", "float32", 4, shape, (1,) * len(shape), "whole", (part,))
        root = ElementTree.fromstring(picture("saved", [tensor], 1, {}))
        (drawn,) = [one for one in root.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None and one.get("stroke")]
        begins.add((drawn.get("x"), drawn.get("y")))
    assert len(begins) == 1


def cut(name: str, parts: int, lost: tuple[int, ...]) -> HeldTensor:
    """A tensor whose rows are cut into parts, of which each rank has one, as strips at least 14 pixels high."""
    slices = tuple(
        HeldSlice((part, 0), (part * 8, 0), (part * 8 + 8, 64), (part,), (part,), (part,) * (part in lost))
        for part in range(parts)
    )
    return HeldTensor(name, "float32", 4, (parts * 8, 64), (parts, 1), f"[{parts * 8}/{parts} x 64] on ()", slices)


@pytest.mark.parametrize("lost", [(), tuple(range(12))])
def test_words_lie_inside_the_picture_and_on_no_others_however_much_there_is_to_say(lost: tuple[int, ...]) -> None:
    tensors = [cut(f"{'layers.' * 20}weight_{parts}", parts, lost) for parts in range(1, 21)]
    root = ElementTree.fromstring(picture("saved" * 40, tensors, 4096, dict.fromkeys((*lost, *range(3000, 3002)), "")))
    whole = Area(0, 0, float(root.get("width", "")), float(root.get("height", "")))
    texts = {text: words(text, 11) for text in root.iter(f"{SVG}text")}
    assert all(map(whole.holds, texts.values())), [text.text for text in texts if not whole.holds(texts[text])]
    assert not any(one.touches(other) for one, other in combinations(texts.values(), 2))
    drawn = [box(one) for one in root.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None]
    beside = [area for text, area in texts.items() if text.find(f"{SVG}tspan") is None]
    assert not any(one.touches(part) for one in beside for part in drawn if part.bottom > part.top)
    said = " ".join(text.text or "" for text in texts)
    assert "20 tensors" in said
    assert "8 more ways of cutting are not shown" in said
    assert ("ranks 0, 1, 2, 3, 4, 5, 6, 7, ..." if lost else "ranks 3000, 3001;") in said


def test_words_in_a_part_of_a_tensor_are_centred_in_it() -> None:
    root = ElementTree.fromstring(picture("saved", [cut("w", 6, (2,))], 6, {2: "is missing"}))
    parts = [box(one) for one in root.iter(f"{SVG}rect") if "ranks" in "".join(one.itertext())]
    inside = [words(one, 11) for one in root.iter(f"{SVG}text") if one.find(f"{SVG}tspan") is not None]
    assert len(parts) == len(inside) == 6
    for part, text in zip(parts, inside, strict=True):
        assert part.left + part.right == pytest.approx(text.left + text.right, abs=0.3)
        # The numbers are as high as a capital letter: what is below the foot of a line stays empty.
        assert part.top + part.bottom == pytest.approx(text.top + text.bottom - 0.24 * 11, abs=3)


def test_lines_of_words_lie_one_below_the_other_around_the_middle() -> None:
    everyone = tuple(range(100))
    tensor = HeldTensor(
        "w", "float32", 4, (64, 64), (1, 1), "whole", (HeldSlice((0, 0), (0, 0), (64, 64), everyone, everyone, ()),)
    )
    root = ElementTree.fromstring(picture("saved", [tensor], 100, {}))
    (part,) = [box(one) for one in root.iter(f"{SVG}rect") if "ranks 0," in "".join(one.itertext())]
    lines = [words(one, 11) for one in root.iter(f"{SVG}text") if one.find(f"{SVG}tspan") is not None]
    assert len(lines) > 3
    assert all(map(part.holds, lines))
    assert all(0 < below.top - above.bottom < 8 for above, below in pairwise(lines))
    assert part.top + part.bottom == pytest.approx(lines[0].top + lines[-1].bottom - 0.24 * 11, abs=3)
