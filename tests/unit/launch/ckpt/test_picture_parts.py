"""The picture of a checkpoint is true: parts in proportion, bars by bytes, colours by ranks, words by what is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from mpiparallel.launch.ckpt.held_tensor import HeldSlice, HeldTensor
from mpiparallel.launch.ckpt.picture import picture

SVG = "{http://www.w3.org/2000/svg}"
WIDEST, HIGHEST, BAR = 280, 210, 120
"""Pixels that a tensor and a bar may take."""


class Drawn(NamedTuple):
    """A rectangle with what is told of it."""

    title: str
    x: float
    y: float
    width: float
    height: float
    fill: str
    is_lost: bool


def tensor(
    shape: Sequence[int],
    cuts: Sequence[int],
    files: Mapping[int, Sequence[int]] | None = None,
    lost: Sequence[int] = (),
    name: str = "w",
) -> HeldTensor:
    """A tensor of bytes; part number i is in the file of rank i, or in those of ``files[i]``."""
    slices = []
    for number, parts in enumerate(product(*map(range, cuts))):
        start = tuple(part * extent // cut for part, extent, cut in zip(parts, shape, cuts, strict=True))
        stop = tuple((part + 1) * extent // cut for part, extent, cut in zip(parts, shape, cuts, strict=True))
        ranks = tuple((files or {}).get(number, (number,)))
        slices.append(HeldSlice(parts, start, stop, ranks, ranks, tuple(rank for rank in ranks if rank in lost)))
    return HeldTensor(name, "uint8", 1, tuple(shape), tuple(cuts), "layout", tuple(slices))


def drawn(
    tensors: Sequence[HeldTensor], ranks: int, lost: Sequence[int] = ()
) -> tuple[list[Drawn], list[Drawn], list[str]]:
    """Return the parts, the bars and all texts of a picture."""
    root = ElementTree.fromstring(picture("saved", tensors, ranks, dict.fromkeys(lost, "is missing")))
    found = []
    for one in root.iter(f"{SVG}rect"):
        title = one.find(f"{SVG}title")
        if title is not None:
            numbers = (float(one.get(name, "")) for name in ("x", "y", "width", "height"))
            found.append(
                Drawn(title.text or "", *numbers, one.get("fill", ""), one.get("stroke-dasharray") is not None)
            )
    parts = [one for one in found if one.title.startswith("[")]
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    return parts, [one for one in found if one not in parts], texts


@pytest.mark.parametrize(
    ("shape", "ratio"),
    [((10, 10), 1.0), ((20, 30), 2 / 3), ((30, 20), 1.5), ((100, 10), 1.5), ((10, 100), 0.4), ((12, 20), 0.6)],
)
def test_a_tensor_has_its_true_proportions_within_limits(shape: tuple[int, int], ratio: float) -> None:
    (whole,) = drawn([tensor(shape, (1, 1))], 1)[0]
    assert whole.height / whole.width == pytest.approx(ratio, abs=0.01)
    assert max(whole.width / WIDEST, whole.height / HIGHEST) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("shape", "size"), [((), (280, 40)), ((8,), (280, 40))])
def test_a_number_or_a_vector_is_a_bar(shape: tuple[int, ...], size: tuple[int, int]) -> None:
    (whole,) = drawn([tensor(shape, (1,) * len(shape))], 1)[0]
    assert (whole.width, whole.height) == size


def test_parts_lie_where_they_are_in_the_tensor() -> None:
    parts = drawn([tensor((8, 12), (2, 3))], 6)[0]
    whole = {"x": parts[0].x, "y": parts[0].y, "width": 3 * parts[0].width, "height": 2 * parts[0].height}
    assert [part.title for part in parts] == [
        f"[{row}:{row + 4}, {column}:{column + 4}]: ranks {number}"
        for number, (row, column) in enumerate(product((0, 4), (0, 4, 8)))
    ]
    for number, part in enumerate(parts):
        row, column = divmod(number, 3)
        assert part.x == pytest.approx(whole["x"] + column * whole["width"] / 3, abs=0.11)
        assert part.y == pytest.approx(whole["y"] + row * whole["height"] / 2, abs=0.11)
        assert (part.width, part.height) == (parts[0].width, parts[0].height)


@pytest.mark.parametrize(
    ("cuts", "shown", "behind"),
    [((2, 1, 3), 6, 0), ((1, 2, 3), 6, 0), ((2, 3, 2), 6, 1), ((1, 1, 2), 2, 0), ((1, 2, 1), 2, 0), ((1, 1, 1), 1, 0)],
)
def test_of_many_dims_the_first_two_that_are_cut_are_drawn(cuts: tuple[int, ...], shown: int, behind: int) -> None:
    parts, _, texts = drawn([tensor((6, 6, 6), cuts)], 12)
    assert len(parts) == shown
    assert sum(f"+{behind}" in text for text in texts) == (shown if behind else 0)
    assert "line-through" not in picture("saved", [tensor((6, 6, 6), cuts)], 12, {})
    places = {(part.x, part.y) for part in parts}
    assert len(places) == shown


def test_of_parts_that_lie_behind_each_other_a_lost_one_is_drawn() -> None:
    # Parts 0 and 1 differ in the last dim, which is not drawn.
    for lost in (0, 1):
        parts = drawn([tensor((4, 4, 4), (2, 2, 2), lost=(lost,))], 8, (lost,))[0]
        assert [part.title for part in parts if part.is_lost] == [
            f"[0:2, 0:2, {2 * lost}:{2 * lost + 2}]: ranks {lost}"
        ]


def test_a_part_is_lost_where_no_sound_file_has_it_and_is_drawn_after_all_others() -> None:
    files = {0: (0, 2), 1: (1, 3)}
    parts, bars, _ = drawn([tensor((4, 4), (2, 1), files, lost=(0, 1, 3))], 4, (0, 1, 3))
    assert [(part.title, part.is_lost, part.fill == "white") for part in parts] == [
        ("[0:2, 0:4]: ranks 0, 2", False, False),
        ("[2:4, 0:4]: ranks 1, 3", True, True),
    ]
    assert parts[0].fill == bars[2].fill
    parts, _, _ = drawn([tensor((4, 4), (2, 1), lost=(0,))], 2, (0,))
    assert [part.is_lost for part in parts] == [False, True]


def test_a_part_in_no_file_at_all_is_lost() -> None:
    parts, _, _ = drawn([tensor((4, 4), (2, 1), {1: ()})], 1)
    assert [(part.title, part.is_lost) for part in parts] == [
        ("[0:2, 0:4]: ranks 0", False),
        ("[2:4, 0:4]: ranks none", True),
    ]


def test_parts_have_the_colour_of_the_first_rank_that_has_them_and_ranks_have_different_ones() -> None:
    parts, bars, _ = drawn([tensor((4, 4), (2, 2), {3: (3, 0)})], 4)
    assert [part.fill for part in parts] == [bar.fill for bar in bars]
    assert len({bar.fill for bar in bars}) == 4
    assert [bar.fill.split(",")[0] for bar in bars] == ["hsl(0", "hsl(90", "hsl(180", "hsl(270"]


def test_bars_are_as_high_as_the_bytes_in_the_files_of_the_ranks() -> None:
    tensors = [tensor((4, 6), (2, 1)), tensor((3, 4), (1, 1), {0: (1, 2)}, name="b"), tensor((), (), name="s")]
    _, bars, texts = drawn(tensors, 4)
    # Rank 0 has half of 24 bytes and a scalar, rank 1 the other half and 12 bytes, rank 2 only these.
    assert [bar.title for bar in bars] == ["rank 0: 13 B", "rank 1: 24 B", "rank 2: 12 B", "rank 3: 0 B"]
    assert [bar.height for bar in bars] == pytest.approx([BAR * 13 / 24, BAR, BAR / 2, 0], abs=0.06)
    assert [bar.y + bar.height for bar in bars] == pytest.approx([bars[0].y + bars[0].height] * 4, abs=0.11)
    steps = [after.x - before.x for before, after in pairwise(bars)]
    assert steps == [60, 60, 60]
    assert {bar.width for bar in bars} == {57}
    assert "in the file of each rank, at most 24 B" in texts
    assert texts[-4:] == ["0", "1", "2", "3"]


def test_bars_of_lost_files_are_empty() -> None:
    _, bars, _ = drawn([tensor((4, 4), (2, 1))], 2, (1,))
    assert [(bar.is_lost, bar.fill == "white") for bar in bars] == [(False, False), (True, True)]


@pytest.mark.parametrize(
    ("ranks", "shown", "cut", "every"),
    [(16, 16, "", 1), (61, 61, "", 1), (62, 62, "", 2), (64, 64, "", 2), (65, 64, ", the first 64 of 65 ranks", 2)],
)
def test_bars_of_many_ranks_are_as_many_as_fit_and_every_so_many_is_numbered(
    ranks: int, shown: int, cut: str, every: int
) -> None:
    _, bars, texts = drawn([tensor((2, 2), (1, 1))], ranks)
    assert len(bars) == shown
    assert f"in the file of each rank, at most 4 B{cut}" in texts
    numbers = [text for text in texts[texts.index(f"in the file of each rank, at most 4 B{cut}") + 1 :]]
    assert numbers == [str(rank) for rank in range(0, shown, every)]
    assert bars[-1].x + bars[-1].width <= 24 + 3 * 330


def test_nothing_in_any_file_is_drawn_as_nothing() -> None:
    _, bars, texts = drawn([tensor((0, 3), (1, 1))], 2)
    assert [bar.height for bar in bars] == [0, 0]
    assert "(no elements)" in texts
    assert "in the file of each rank, at most 1 B" in texts


@pytest.mark.parametrize(
    ("lost", "line"),
    [
        ((), []),
        ((3,), ["red: missing or damaged, of rank 3"]),
        ((5, 3), ["red: missing or damaged, of ranks 3, 5"]),
        (tuple(range(8)), ["red: missing or damaged, of ranks 0, 1, 2, 3, 4, 5, 6, 7"]),
        (tuple(range(9)), ["red: missing or damaged, of ranks 0, 1, 2, 3, 4, 5, 6, 7, ..."]),
    ],
)
def test_what_is_shown_and_what_is_lost_is_told_above(lost: tuple[int, ...], line: list[str]) -> None:
    texts = drawn([tensor((4, 4), (1, 1)), tensor((8,), (1,), name="b")], 10, lost)[2]
    first = "2 tensors, 24 B, of 10 ranks; numbers are the ranks whose files have a part"
    assert texts[: 2 + len(line)] == ["saved", first, *line]
    assert sum("red" in text for text in texts) == len(line)


@pytest.mark.parametrize(("length", "shown"), [(42, "n" * 42), (43, "…" + "n" * 41)])
def test_a_long_name_is_shown_by_its_end(length: int, shown: str) -> None:
    texts = drawn([tensor((4, 4), (1, 1), name="n" * length)], 1)[2]
    assert shown in texts
    assert "uint8 layout" in texts


@pytest.mark.parametrize(("length", "shown"), [(90, "t" * 90), (91, "…" + "t" * 89)])
def test_a_long_title_is_shown_by_its_end(length: int, shown: str) -> None:
    root = ElementTree.fromstring(picture("t" * length, [], 1, {}))
    assert next(root.iter(f"{SVG}text")).text == shown


def test_tensors_stand_three_in_a_row_the_largest_first() -> None:
    tensors = [tensor((size, 10), (count, 1), name=f"w{size}") for count, size in enumerate((10, 20, 30, 40), 1)]
    root = ElementTree.fromstring(picture("saved", tensors, 4, {}))
    places = {text.text: (float(text.get("x", "")), float(text.get("y", ""))) for text in root.iter(f"{SVG}text")}
    assert [places[f"w{size}"][0] for size in (40, 30, 20, 10)] == [24, 354, 684, 24]
    assert places["w40"][1] == places["w30"][1] == places["w20"][1] < places["w10"][1]
    assert root.get("viewBox", "").split()[:3] == ["0", "0", "1038"]
    # The row is as high as its highest tensor, with its words above and a gap below.
    assert places["w10"][1] - places["w40"][1] == HIGHEST + 58 + 32


def test_lines_above_a_tensor_are_equally_far_apart() -> None:
    root = ElementTree.fromstring(picture("saved", [tensor((4, 4), (2, 1), name=name) for name in "ab"], 2, {}))
    heights = {"".join(text.itertext()): float(text.get("y", "")) for text in root.iter(f"{SVG}text")}
    lines = [heights[words] for words in ("a", "uint8 layout", "and 1 more cut alike")]
    assert [after - before for before, after in pairwise(lines)] == [16, 16]
