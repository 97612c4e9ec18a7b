"""The page of the command line says what the parsers say."""

from __future__ import annotations

from tests.conformance.documents.command_line_page import PAGE, page


def test_the_page_lists_every_command_as_its_parser_takes_it() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "`make command-line` writes it anew"
