"""Listings have their lines and blocks again, whatever form the document has, and each is run by some test."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests.tutorials import reading
from tests.tutorials.correction import Correction, corrected
from tests.tutorials.corrections import CORRECTIONS
from tests.tutorials.edition import DOCUMENTS, Place
from tests.tutorials.listing import Listing, digest
from tests.tutorials.reading import OtherEditionError, read

CODE = "def double(x):\n    if x:  # a number\n        return 2 * x\n    return 0\n"
FLAT = "Some words. ```python def double(x): if x:  # a number return 2 * x return 0 ``` More."
INDENTED = "".join(f"   {line}\n" for line in CODE.splitlines())
PLACE = Place("double", "python", 3, digest("python", CODE), "2 .5 ..4 .2")


@pytest.fixture
def one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "DOCUMENTS", {"double": (PLACE,)})


@pytest.mark.usefixtures("one_document")
def test_words_on_one_line_and_fences_give_the_same_listing(tmp_path: Path) -> None:
    (tmp_path / "double.txt").write_text(FLAT)
    of_words = read(tmp_path)["double/double"]
    (tmp_path / "double.md").write_text(f"Some words.\n\n   ```python\n{INDENTED}   ```\n\nMore.\n")
    of_fences = read(tmp_path)["double/double"]
    assert of_fences.text == CODE
    assert ast.dump(ast.parse(of_words.text)) == ast.dump(ast.parse(CODE))


@pytest.mark.usefixtures("one_document")
@pytest.mark.parametrize("text", [FLAT.replace("2 * x", "3 * x"), "A word more. " + FLAT, FLAT[:40]])
def test_another_edition_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "double.txt").write_text(text)
    with pytest.raises(OtherEditionError, match="double is not at word 3"):
        read(tmp_path)


@pytest.mark.usefixtures("one_document")
def test_a_folder_without_the_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OtherEditionError, match=r"neither double\.md nor double\.txt"):
        read(tmp_path)


def test_all_listings_of_python_can_be_parsed(listings: dict[str, Listing]) -> None:
    assert len(listings) == sum(map(len, DOCUMENTS.values())) == 58
    assert all(ast.parse(one.text) for one in listings.values() if one.language == "python")


def test_each_correction_has_something_to_correct(listings: dict[str, Listing]) -> None:
    for path, listing in listings.items():
        corrected(listing.text, [one for one in CORRECTIONS if one.listing == path])
    assert {one.listing for one in CORRECTIONS} <= set(listings)


def test_a_correction_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="one/two has no 'y' to correct: wrong"):
        corrected("x", [Correction("one/two", "y", "z", "wrong")])


def test_a_block_moves_one_level_to_the_left() -> None:
    moved = corrected(CODE, [Correction("double/double", "return 2", None, "in the condition")])
    assert moved == CODE.replace("        return 2", "    return 2")


def test_each_listing_is_followed_by_a_test() -> None:
    followed = {
        f"{mark.args[0]}/{name}"
        for document in DOCUMENTS
        for function in vars(importlib.import_module(f"tests.tutorials.test_{document}")).values()
        for mark in getattr(function, "pytestmark", ())
        if mark.name == "tutorial"
        for name in mark.args[1:]
    }
    assert followed == {f"{document}/{place.name}" for document, places in DOCUMENTS.items() for place in places}
