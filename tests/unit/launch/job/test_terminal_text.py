"""Which words a terminal shows in colour, what it is kept from obeying, and how tables fit its width."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.terminal_text import Colour, fitted, has_colours, painted, printable, terminal_width


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": None}, False),
    ],
)
def test_a_terminal_shows_colours_unless_its_user_or_its_kind_does_not_want_them(
    variables: dict[str, str | None], is_coloured: bool, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    assert has_colours(terminal) is is_coloured
    assert not has_colours(io.StringIO())
    assert not has_colours(None)


@pytest.mark.parametrize(
    ("colour", "shown"),
    [
        (Colour.BOLD, "\x1b[1mword\x1b[0m"),
        (Colour.RED, "\x1b[31mword\x1b[0m"),
        (Colour.GREEN, "\x1b[32mword\x1b[0m"),
        (Colour.YELLOW, "\x1b[33mword\x1b[0m"),
    ],
)
def test_a_word_is_painted_by_the_number_that_ecma_48_gives_its_colour(
    colour: Colour, shown: str, terminal: Terminal
) -> None:
    assert painted("word", colour, terminal) == shown
    assert painted("word", colour, None) == "word"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("error: no error: here", "\x1b[31merror:\x1b[0m no error: here"),
        ("warning: error: both", "\x1b[33mwarning:\x1b[0m error: both"),
        ("no error: here", "no error: here"),
        ("2 ranks", "2 ranks"),
    ],
)
def test_the_gravity_at_the_beginning_of_what_the_launcher_says_is_coloured(
    words: str, shown: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    Console().say(words)
    assert terminal.getvalue() == f"mpiparallel: {shown}\n"


@pytest.mark.parametrize(
    ("first", "last"), [(0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0x200E, 0x200F), (0x2028, 0x202E), (0x2066, 0x2069)]
)
def test_each_character_that_moves_turns_or_cuts_is_shown_as_its_number_and_its_neighbours_as_they_are(
    first: int, last: int
) -> None:
    for code in range(first, last + 1):
        assert printable(chr(code)) == (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
    for code in (first - 1, last + 1):
        assert code < 0 or printable(chr(code)) == chr(code)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("as wide", 7, ["as wide"]),
        ("one word more", 8, ["one word", "  more"]),
        ("a well-known name", 10, ["a", "  well-known", "  name"]),
        ("name  words of a last column that has room", 36, ["name  words of a last column that", "      has room"]),
        (
            "one  two  words of a last column that has room",
            39,
            ["one  two  words of a last column that", "          has room"],
        ),
        # A last column that has 28 characters stays beside the others, one that has less goes below them.
        ("12345678  words that are beyond the room", 38, ["12345678  words that are beyond the", "          room"]),
        ("123456789  words that are beyond the room", 38, ["123456789", "      words that are beyond the room"]),
        ("one  two  three  four", 12, ["one  two", "      three", "      four"]),
        ("one  two  three  four", 8, ["one  two", "      three", "      four"]),
        ("one  two  three  four", 7, ["one", "      two", "      three", "      four"]),
        ("first\nsecond line", 6, ["first", "second", "  line"]),
        ("", 5, []),
    ],
)
def test_what_is_wider_than_a_line_goes_on_below_its_column(text: str, width: int, lines: list[str]) -> None:
    assert fitted(text, width).splitlines() == lines


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    for stream, width in ((Terminal(), 77), (io.StringIO(), sys.maxsize), (None, sys.maxsize)):
        monkeypatch.setattr(sys, "stdout", stream)
        assert terminal_width() == width


def test_a_console_is_read_together_where_both_streams_are_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with one.open("w") as stdout, one.open("a") as same, other.open("w") as another:
        monkeypatch.setattr(sys, "stdout", stdout)
        for stderr, is_one in ((same, True), (another, False)):
            monkeypatch.setattr(sys, "stderr", stderr)
            assert Console().is_read_together is is_one
