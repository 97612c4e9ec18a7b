"""Tables, trees and numbers as subcommands print them, and how boxes and names of tensors are asked for."""

from __future__ import annotations

import argparse
import io
import json
import sys
import time

import pytest

from mpiparallel.launch.ckpt.arguments import bounds, wanted
from mpiparallel.launch.ckpt.held_tensor import HeldSlice, HeldTensor
from mpiparallel.launch.ckpt.output import answer, moment, several, table
from mpiparallel.launch.ckpt.tree import tree


def test_a_box_has_a_start_and_a_stop_of_each_dim() -> None:
    assert bounds("0:2") == ((0, 2),)
    assert bounds(":") == ((None, None),)
    assert bounds("3:,:4,5:6") == ((3, None), (None, 4), (5, 6))
    assert bounds("007:8") == ((7, 8),)
    assert bounds("0:999999999999999999") == ((0, 10**18 - 1),)


WRONG = ("", "3", "0:2,", ",0:2", "0:1:2", "-1:2", "a:b", "0:1000000000000000000", "0:\u0661", "1.0:2", " 0:1")


def test_what_is_no_box_is_refused_with_one_that_is() -> None:
    for text in WRONG:
        with pytest.raises(argparse.ArgumentTypeError) as refused:
            bounds(text)
        assert str(refused.value) == f'"{text}" is no box; give start:stop for each dim, like 0:2,3:5'


def test_tensors_are_those_of_any_pattern_and_all_without_one() -> None:
    for patterns in ([], ["net.*"], ["*.b", "*.w"], ["net.w"]):
        assert wanted("net.w", patterns)
    for patterns in (["NET.*"], ["net"], ["*.b"]):
        assert not wanted("net.w", patterns)


def test_columns_of_a_table_are_as_wide_as_their_widest_cell_and_two_apart() -> None:
    assert table(["name", "n", "word"], [["a", "100", "x"], ["longer", "5", ""]], "lrl") == [
        "name      n  word",
        "a       100  x",
        "longer    5",
    ]
    assert table(["one", "two"], [], "lr") == ["one  two"]


def test_a_tree_has_a_branch_for_each_part_of_a_name_and_columns_beside_its_leaves() -> None:
    rows = {"b": ["f8", "[2]"], "a.long.x": ["float32", "[]"], "a.y": ["i4", "[10, 2]"], "a": ["f2"]}
    assert tree(rows) == [
        "├── a          f2",
        "│   ├── long",
        "│   │   └── x  float32  []",
        "│   └── y      i4       [10, 2]",
        "└── b          f8       [2]",
    ]
    assert tree({}) == []
    assert tree({"only": []}) == ["└── only"]


def test_a_name_of_many_parts_is_drawn_too() -> None:
    lines = tree({".".join("x" * 1100): ["f4"]})
    assert len(lines) == 1100
    assert lines[-1] == f"{' ' * 4 * 1099}└── x  f4"


def test_things_are_counted() -> None:
    told = [several(count, "file") for count in (0, 1, 2, 1234567)]
    assert told == ["0 files", "1 file", "2 files", "1,234,567 files"]


def test_a_moment_that_is_not_known_is_a_dash_and_others_are_those_of_the_clock_here() -> None:
    assert moment(0) == "-"
    assert time.mktime(time.strptime(moment(1e9), "%Y-%m-%d %H:%M:%S")) == 1e9


LINES = ["├── é·", "└─│→"]


SHOWN = {
    "utf-8": "├── é·\n└─│→\n",
    "UTF8": "├── é·\n└─│→\n",
    "ascii": "|-- \\xe9.\n`-|\\u2192\n",
    "latin-1": "|-- é.\n`-|\\u2192\n",
}


def test_lines_are_shown_in_what_the_terminal_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, shown in SHOWN.items():
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
        answer({}, LINES, as_json=False)
        assert raw.getvalue().decode(encoding) == shown


def test_json_is_one_line_and_knows_no_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    answer({"a": [1, "é"]}, LINES, as_json=True)
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"a": [1, "é"]}
    with pytest.raises(ValueError, match="JSON"):
        answer(float("inf"), [], as_json=True)


def held(files: tuple[int, ...], lost: tuple[int, ...]) -> HeldSlice:
    return HeldSlice((0,), (0,), (2,), (0, 1), files, lost)


def test_a_slice_is_lost_where_each_of_its_files_is() -> None:
    assert not held((0, 1), ()).is_lost
    assert not held((0, 1), (1,)).is_lost
    assert held((0, 1), (1, 0)).is_lost
    assert held((), ()).is_lost


def test_tensors_of_other_shapes_are_held_alike_where_cuts_and_files_are() -> None:
    one = HeldTensor("a", "f4", 4, (2, 3), (1, 1), "", (held((0,), ()),))
    assert one.nbytes == 24
    assert HeldTensor("b", "f8", 8, (), (), "", ()).nbytes == 8
    assert one._replace(name="b", shape=(9,), dtype="f8", layout="x").who == one.who
    for other in (one._replace(cuts=(2, 1)), one._replace(slices=(held((1,), ()),)), one._replace(slices=())):
        assert other.who != one.who
