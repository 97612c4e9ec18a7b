"""What people read is written in short sentences: on a page and in a docstring none has more than 25 words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_WORDS = 25
OPTIONS = "docs/lookup/command_line.md"
"""The page that lists what commands take."""
FOLDERS = ("docs", "examples", "clusters", "hostfiles", "launchers", "rank_tables")
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
    if str(page.relative_to(ROOT)) != OPTIONS
]
MODULES = sorted((ROOT / "mpiparallel").rglob("*.py"))
FENCED = re.compile(r"^```.*?^ *```", re.DOTALL | re.MULTILINE)
NO_SENTENCES = re.compile(r"<!--.*?-->|^ *\|.*?$|^#.*?$|^ {4,}\S.*?$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(`+)[^`].*?(?<!`)\1(?!`)", re.DOTALL)
EXAMPLE = re.compile(r"^>>>.*?(?=\n\s*\n|\Z)|::\n\n(?: +.*\n?|\n)+", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\([^)]*\)")
PARAGRAPH = re.compile(r"\n\s*\n|\n *(?:- |\d+\. )")
END = re.compile(r"[.!?][\")*]*\s+| · ")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page's paragraphs and lists, without code, tables and headings."""
    text = NO_SENTENCES.sub("", CODE.sub("`code`", FENCED.sub("", text)))
    for paragraph in PARAGRAPH.split(LINK.sub("]", text)):
        yield from filter(str.strip, END.split(paragraph))


def words(sentence: str) -> int:
    return sum(re.search(r"\w", word) is not None for word in sentence.split())


def test_a_sentence_ends_where_the_next_begins_and_code_is_one_word() -> None:
    text = "# Title of many words\nOne, `two of it`. [Three](x.md)!\n- A list\n```\nno prose here\n```\n"
    assert [sentence.split() for sentence in sentences(text)] == [
        ["One,", "`code`"], ["[Three]!"], ["A", "list"]
    ]  # fmt: skip


def too_long(text: str) -> list[str]:
    return [" ".join(sentence.split()) for sentence in sentences(text) if words(sentence) > MOST_WORDS]


def docstrings(path: Path) -> Iterator[str]:
    """Yield what a module says of itself, its classes, functions and values, without examples."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield EXAMPLE.sub("", cleandoc(node.value.value))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_of_a_page_is_too_long_to_be_read_at_once(page: Path) -> None:
    assert too_long(page.read_text(encoding="utf-8")) == []


def test_no_sentence_of_a_docstring_is_too_long_to_be_read_at_once() -> None:
    found = {path: [one for text in docstrings(path) for one in too_long(text)] for path in MODULES}
    assert {str(path.relative_to(ROOT)): some for path, some in found.items() if some} == {}
