"""The page of the architecture, that of the command line and the stubs say what is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.documents.command_line_page import PAGE as COMMAND_LINE
from tests.conformance.documents.command_line_page import page
from tests.conformance.documents.public_stubs import PACKAGE, stubs
from tests.conformance.package_trees import nodes_of, trees

ROOT = Path(__file__).parents[2]
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


NOUN = re.compile(r"\*\*([^*]+)\*\*(?:\s+\(((?:`[\w/.]+`(?:,\s+)?)+)\))?")
"""Names of the page, and the files and folders that it says they are in."""


@cache
def names_of(module: str) -> frozenset[str]:
    """Return what is defined or assigned in a module."""
    stored = {node.id for node in nodes_of(module, ast.Name) if isinstance(node.ctx, ast.Store)}
    defined = {node.name for node in nodes_of(module, ast.ClassDef)}
    return frozenset(stored | defined | {node.name for node in nodes_of(module, ast.FunctionDef)})


def names(places: Sequence[str]) -> set[str]:
    """Return what is defined or assigned in some files and folders of the package; in all where none is named."""
    wanted = [f".{place.removesuffix('.py').strip('/').replace('/', '.')}." for place in places] or ["."]
    return {name for module in trees() if any(one in f".{module}." for one in wanted) for name in names_of(module)}


def test_each_file_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", ARCHITECTURE.read_text(encoding="utf-8")))
    files = [
        f"/{path.relative_to(ROOT)}"
        for place in ("mpiparallel", "tests", "docs")
        for path in (ROOT / place).rglob("*.py")
    ]
    files += [f"/{path.name}" for path in ROOT.glob("*.py")]
    assert sorted(name for name in named if not any(file.endswith(f"/{name}") for file in files)) == []


def test_each_noun_that_the_page_explains_is_a_name_of_the_files_beside_it() -> None:
    (nouns,) = re.findall(r"^## Nouns$(.*?)^## ", ARCHITECTURE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    explained = {said: re.findall(r"[\w/.]+", places) for said, places in NOUN.findall(nouns)}
    assert len(explained) > 60
    missing = {said: {*re.split(r",\s+", said)} - names(places) for said, places in explained.items()}
    assert {said: found for said, found in missing.items() if found} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_holds_the_marks_of_a_merge(page: Path) -> None:
    assert re.findall(r"^(?:<{7}|>{7}) .*", page.read_text(encoding="utf-8"), re.MULTILINE) == []


def test_the_picture_of_the_passes_is_the_folder_listing() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    (picture,) = re.findall(r"^```\n(structure\.py.*?)^```", text, re.DOTALL | re.MULTILINE)
    files = [path for path in (PACKAGE / "compile").rglob("*.py") if path.name != "__init__.py"]
    folders = {f"{path.parent.name}/" for path in files} - {"compile/"}
    assert sorted(set(re.findall(r"\w+\.py", picture))) == sorted(path.name for path in files)
    assert set(re.findall(r"^\w+/", picture, re.MULTILINE)) == folders


def test_the_page_lists_every_command_as_its_parser_takes_it() -> None:
    assert COMMAND_LINE.read_text(encoding="utf-8") == page(), "`make command-line` writes it anew"


STUBS = stubs()


@pytest.mark.parametrize("path", STUBS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_stub_says_what_the_module_offers(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == STUBS[path], "`make stubs` writes it anew"
