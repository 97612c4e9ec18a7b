"""What people read is written in short sentences: on a page none has more than 30 words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_WORDS = 30
OPTIONS = "docs/lookup/command_line.md"
"""The page that lists what commands take."""
FOLDERS = ("docs", "examples", "clusters", "hostfiles", "launchers", "rank_tables")
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
    if str(page.relative_to(ROOT)) != OPTIONS
]
NO_SENTENCES = re.compile(r"^```.*?^ *```|<!--.*?-->|^ *\|.*?$|^#.*?$|^ {4,}\S.*?$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\([^)]*\)")
PARAGRAPH = re.compile(r"\n\s*\n|\n *(?:- |\d+\. )")
END = re.compile(r"[.!?][\")*]*\s+| · ")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page's paragraphs and lists, without code, tables and headings."""
    text = re.sub(r"`[^`]+`", "`code`", NO_SENTENCES.sub("", text))
    for paragraph in PARAGRAPH.split(LINK.sub("]", text)):
        yield from filter(str.strip, END.split(paragraph))


def words(sentence: str) -> int:
    return sum(re.search(r"\w", word) is not None for word in sentence.split())


def test_a_sentence_ends_where_the_next_begins_and_code_is_one_word() -> None:
    text = "# Title of many words\nOne, `two of it`. [Three](x.md)!\n- A list\n```\nno prose here\n```\n"
    assert [sentence.split() for sentence in sentences(text)] == [
        ["One,", "`code`"], ["[Three]!"], ["A", "list"]
    ]  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_of_a_page_is_too_long_to_be_read_at_once(page: Path) -> None:
    found = sentences(page.read_text(encoding="utf-8"))
    assert [" ".join(sentence.split()) for sentence in found if words(sentence) > MOST_WORDS] == []
