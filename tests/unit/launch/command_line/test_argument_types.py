"""Numbers and paths on the command line: what is just taken, and what is refused with what to give."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.launch.command_line.argument_types import count, file_path, path_text, rank_count, seconds
from mpiparallel.launch.command_line.nearest import nearest


def refusal(parse: Callable[[str], Any], text: str) -> str:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        parse(text)
    return str(refused.value)


@pytest.mark.parametrize(("parse", "what"), [(count, "a count"), (rank_count, "a number of ranks")])
def test_a_count_has_one_to_seven_digits(parse: Callable[[str], int], what: str) -> None:
    assert [parse(text) for text in ("1", "8", "007", "9999999")] == [1, 8, 7, 9999999]
    for text in ("0", "-1", "+1", "1.0", "", "one", "10000000", "\u0661", " 1"):
        assert refusal(parse, text) == f'"{text}" is not {what}; give a whole number from 1'


def test_seconds_are_above_nothing_and_end() -> None:
    assert [seconds(text) for text in ("1", "0.001", "1e3", " 2 ")] == [1.0, 0.001, 1000.0, 2.0]
    for text in ("0", "-1", "inf", "nan", "", "soon", "-0.0"):
        assert refusal(seconds, text) == f'"{text}" is not a time; give seconds above 0'


LONGEST = "/".join(["x" * 255] * 16)[:4095]


def test_a_path_may_have_as_many_bytes_as_the_system_takes() -> None:
    for text in ("a", "x" * 255, LONGEST, "é" * 127, "a/../b", "/"):
        assert path_text(text) == text
        assert file_path(text) == Path(text)
    assert refusal(path_text, "") == "the path is empty; a shell variable that is not set gives that"
    for text in ("x" * 256, f"{LONGEST}/", "é" * 128, f"a/{'x' * 256}/b"):
        assert refusal(file_path, text).endswith(" is too long: a path may have 4095 bytes, a name in it 255")


@pytest.mark.parametrize(
    ("word", "names", "wanted"),
    [
        ("shwo", ["ls", "show"], "show"),
        ("SHOW", ["ls", "show"], "show"),
        ("--Dry_run", ["--dry-run", "-n"], "--dry-run"),
        ("dry-run", ["--dry-run"], "--dry-run"),
        ("zzz", ["ls", "show"], None),
        ("", ["ls"], None),
        ("show", [], None),
        ("rank", ["--ranks", "--rank"], "--rank"),
        ("ranks", ["-ranks", "--ranks"], "-ranks"),
        ("y" * 100_000, ["x" * 20], None),
        # Half of the letters of both are common: too few. Four of seven are enough.
        ("abcd", ["abxy"], None),
        ("abcd", ["abc"], "abc"),
        ("abxx", ["abcxyz"], "abcxyz"),
    ],
)
def test_the_nearest_name_is_guessed_where_there_is_one(word: str, names: list[str], wanted: str | None) -> None:
    assert nearest(word, names) == wanted
