"""Parsers of commands: usage, help, examples, and what is said of words that they do not know."""

from __future__ import annotations

import io
from typing import Any

import pytest

from mpiparallel.launch.command_line.parser import Parser


def made() -> Parser:
    parser = Parser(prog="tool", description="One.\n\nTwo.", examples=("tool a", "tool b --size 3"))
    inner = parser.add_commands("command", "COMMAND")
    first = inner.add_parser("copy", help="copies things", examples=("tool copy x",))
    first.add_argument("source")
    first.add_argument("--size", type=int, choices=[1, 2, 30], default=1)
    first.add_argument("--secret", help="==SUPPRESS==")
    inner.add_parser("move", help="moves things")
    return parser


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        made().parse_args(words)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_help_has_paragraphs_commands_and_examples_last() -> None:
    lines = made().format_help().splitlines()
    assert lines[0].startswith("usage: tool [options] COMMAND")
    assert lines[lines.index("One.") + 1 :][:2] == ["", "Two."]
    assert lines[-3:] == ["examples:", "  tool a", "  tool b --size 3"]
    assert [line.split() for line in lines if "things" in line] == [
        ["copy", "copies", "things"],
        ["move", "moves", "things"],
    ]
    assert not Parser(prog="bare").format_help().endswith("examples:\n")


def test_commands_are_told_with_what_help_says_of_them() -> None:
    parser = made()
    assert list(parser.commands) == ["copy", "move"]
    assert parser.summaries == {"copy": "copies things", "move": "moves things"}
    assert (parser.commands["copy"].commands, parser.commands["copy"].summaries) == ({}, {})


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["copi"], "tool: error: there is no command copi; did you mean copy?"),
        (["zzzz"], "tool: error: there is no command zzzz; tool --help lists all"),
        (["copy", "a", "--sise", "1"], "tool copy: error: there is no option --sise; did you mean --size?"),
        (["copy", "a", "--sise=1"], "tool copy: error: there is no option --sise; did you mean --size?"),
        (["copy", "a", "--zzz"], "tool copy: error: there is no option --zzz; tool copy --help lists all"),
        (["copy", "a", "--siz", "1"], "tool copy: error: there is no option --siz; did you mean --size?"),
        (["copy", "a", "--secre", "1"], "tool copy: error: there is no option --secre; tool copy --help lists all"),
        (["copy", "a", "b"], "tool copy: error: b is one word too many; tool copy --help shows what it takes"),
        (["copy", "a", "b", "--zzz"], "tool copy: error: there is no option --zzz; tool copy --help lists all"),
        (["copy", "a", "--size", "3"], "tool copy: error: argument --size: 3 is none of 1, 2, 30; did you mean 30?"),
        (["copy", "a", "--size", "9"], "tool copy: error: argument --size: 9 is none of 1, 2, 30"),
        (["copy"], "tool copy: error: the following arguments are required: source"),
    ],
)
def test_a_wrong_word_is_refused_with_what_may_be_meant(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = refusal(words, capsys)
    assert lines[0].startswith("usage: tool ")
    assert lines[-1].replace('"', "") == line


def test_without_a_command_the_help_is_shown_and_asks_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    lines = refusal([], capsys)
    assert lines[-1] == "tool: error: which COMMAND? give one of those above"
    assert "  tool b --size 3" in lines


def test_what_is_right_is_taken_and_debug_is_told_only_where_it_is_given() -> None:
    found = made().parse_args(["copy", "a", "--size", "30"])
    assert (found.command, found.source, found.size) == ("copy", "a", 30)
    assert not hasattr(found, "debug")
    assert made().parse_args(["copy", "a", "--debug"]).debug is True
    assert made().parse_args(["--debug", "copy", "a"]).debug is True


def test_headings_stand_out_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain, shown = io.StringIO(), Terminal()
    made().print_help(plain)
    made().print_help(shown)
    assert "\x1b" not in plain.getvalue()
    bold = [
        line.partition("\x1b[1m")[2].partition("\x1b")[0] for line in shown.getvalue().splitlines() if "\x1b" in line
    ]
    assert bold == ["usage:", "options:", "commands:", "examples:"]


@pytest.mark.parametrize(("columns", "widest"), [(10, 40), (42, 40), (80, 78), (102, 100), (400, 100)])
def test_help_is_as_wide_as_the_terminal_within_limits(
    columns: int, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    parser = Parser(prog="tool", description="ab " * 200)
    lines = parser.format_help().splitlines()
    assert widest - 3 < max(map(len, lines)) <= widest


def test_names_of_commands_are_indented_and_what_they_do_stands_in_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    parser: Any = Parser(prog="tool")
    inner = parser.add_commands("command", "COMMAND")
    for name in ("a", "much-longer"):
        inner.add_parser(name, help=f"does {name}")
    rows = [line for line in parser.format_help().splitlines() if "does" in line]
    assert [row.index("does") for row in rows] == [rows[0].index("does")] * 2
    assert [row[:5] for row in rows] == ["    a", "    m"]
