"""The site is whole: each page is in a table of contents, each link leads somewhere, each public name is explained."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs import sharding_pictures
from docs.reference_pages import FRONTS, names_of, pages
from tests.architecture.test_public_names import FRONTS as ALL_FRONTS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.S | re.M)
_LINK = re.compile(r"(?<!`)\]\((?!http|#)([^)\s#]+)(?:#([^)\s]+))?\)")
_NAMES = {"mpiparallel": 107, "mpiparallel.nn": 82}
"""How many there were: a front that is suddenly empty would be complete, too."""


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def test_each_page_is_in_the_table_of_contents() -> None:
    listed = [
        line
        for tree in _TOCTREE.findall((DOCS / "index.md").read_text(encoding="utf-8"))
        for line in tree.splitlines()
        if line and not line.startswith(":")
    ]
    assert sorted(listed) == sorted({name_of(page) for page in PAGES} - {"index"} | {"reference/index"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for target, heading in _LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve()
        if not path.is_file() or (heading and heading not in anchors(path)):
            broken.append(f"{target}#{heading}")
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Return the names of a page's headings, as GitHub and MyST make them; those of the pages that it includes, too."""
    text = page.read_text(encoding="utf-8")
    included = [anchors((page.parent / name).resolve()) for name in re.findall(r"^```\{include\} (\S+)$", text, re.M)]
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    own = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return own.union(*included)


def test_the_reference_has_every_public_name() -> None:
    # The operators have no list: what they offer is put together when they are imported.
    assert set(FRONTS) == {*ALL_FRONTS, "mpiparallel.ops"}
    made = pages()
    for front in FRONTS:
        names = names_of(front)
        assert len(names) >= _NAMES.get(front, 1)
        missing = [name for name in names if not re.search(rf"[`.\s]{re.escape(name)}\b", made[f"{front}.rst"])]
        assert missing == []


def test_the_pictures_and_the_table_of_sharding_are_what_the_layouts_are() -> None:
    for name, picture in sharding_pictures.pictures().items():
        assert (DOCS / "images" / name).read_text(encoding="utf-8") == picture, "python -m docs.sharding_pictures"
    page = sharding_pictures.PAGE.read_text(encoding="utf-8")
    assert sharding_pictures.with_table(page) == page


@pytest.mark.parametrize("name", sorted(sharding_pictures.pictures()))
def test_a_picture_has_everything_inside_its_frame_in_colours_that_viewers_know(name: str) -> None:
    text = sharding_pictures.pictures()[name]
    assert "hsl(" not in text
    tree = ElementTree.fromstring(text)
    width, height = float(tree.attrib["width"]), float(tree.attrib["height"])
    for shape in tree:
        x, y = (float(shape.attrib.get(key, 0)) for key in ("x", "y"))
        wide, high = (float(shape.attrib.get(key, 0)) for key in ("width", "height"))
        if shape.text:
            # A letter of a common font is at most 0.7 times as wide as it is high.
            wide = 0.7 * float(shape.attrib["font-size"]) * len(shape.text)
            x -= wide / 2 if shape.attrib["text-anchor"] == "middle" else 0
        assert x >= 0
        assert x + wide <= width, shape.text
        assert 0 <= y <= y + high <= height
