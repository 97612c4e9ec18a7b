"""Each example is a folder with a page that names its programs, and a picture that every viewer can show."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.conformance.documents.document import EXAMPLES, ROOT, blocks

FOLDERS = [page.parent for page in EXAMPLES]
LONGEST = 200


def test_each_example_has_a_page_and_is_in_both_lists() -> None:
    there = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {folder.name for folder in FOLDERS} == there
    assert set(re.findall(r"\]\((\w+)/README\.md\)", (ROOT / "examples/README.md").read_text())) == there
    assert set(re.findall(r"examples/(\w+)/README\.md$", (ROOT / "docs/start/examples.md").read_text(), re.M)) == there


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_page_shows_its_picture_runs_a_command_and_names_the_programs(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert text.count("](picture.svg)") == 1
    assert any(block.language in ("sh", "console") for block in blocks(folder / "README.md"))
    for program in folder.glob("*.py"):
        assert program.name in text or f"from {program.stem} import" in "".join(
            other.read_text(encoding="utf-8") for other in folder.glob("*.py")
        )
        assert len(program.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_picture_is_svg_in_colours_that_viewers_know(folder: Path) -> None:
    text = (folder / "picture.svg").read_text(encoding="utf-8")
    assert "hsl(" not in text
    assert ElementTree.fromstring(text).tag.endswith("svg")
