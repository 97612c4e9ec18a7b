"""Reading the listings of the tutorials, from a folder of them: nothing of their text is kept here.

A folder holds each document as ``.md`` with fences, or as ``.txt``: words whose lines and indentation may be lost.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.tutorials.edition import DOCUMENTS, Place
from tests.tutorials.listing import Listing, digest, restored

_BESIDE = Path(__file__).parents[3] / "shared" / "seeds"
_FENCE = re.compile(r"\s*```(\w*)\s*$")


class OtherEditionError(ValueError):
    """A document has not the listings that :mod:`tests.tutorials.edition` knows."""


def listings_at_hand() -> dict[str, Listing]:
    """Return all listings by path; the test is skipped where there are no tutorials."""
    named = os.environ.get("MPIPARALLEL_TUTORIALS")
    folder = Path(named) if named else _BESIDE
    if not folder.is_dir():
        pytest.skip(f"no tutorials in {folder}; MPIPARALLEL_TUTORIALS names the folder of the four documents")
    return read(folder)


def read(folder: Path) -> dict[str, Listing]:
    """Return all listings of the documents in ``folder`` by path, in their order.

    Raises:
        OtherEditionError: if one is not there.
    """
    found = [listing for document, places in DOCUMENTS.items() for listing in _document(folder, document, places)]
    return {listing.path: listing for listing in found}


def _document(folder: Path, document: str, places: Sequence[Place]) -> Iterator[Listing]:
    markdown, plain = folder / f"{document}.md", folder / f"{document}.txt"
    if markdown.exists():
        yield from _of_fences(markdown, document, places)
    elif plain.exists():
        yield from _of_words(plain, document, places)
    else:
        raise OtherEditionError(f"{folder} has neither {markdown.name} nor {plain.name}")


def _of_words(path: Path, document: str, places: Sequence[Place]) -> Iterator[Listing]:
    words = path.read_text(encoding="utf-8").split()
    for place in places:
        text = restored(words[place.word :], place.lines)
        if _digest(place, text) != place.digest:
            raise OtherEditionError(f"{path}: {place.name} is not at word {place.word} as in the edition that is known")
        yield Listing(document, place.name, place.language, text)


def _digest(place: Place, text: str) -> str:
    try:
        return digest(place.language, text)
    except (SyntaxError, ValueError):
        return ""


def _of_fences(path: Path, document: str, places: Sequence[Place]) -> Iterator[Listing]:
    fences = _fences(path.read_text(encoding="utf-8"))
    for place in places:
        text = next(
            (text for language, text in fences if language == place.language and _digest(place, text) == place.digest),
            None,
        )
        if text is None:
            raise OtherEditionError(f"{path}: no {place.language} listing is {place.name} of the edition that is known")
        yield Listing(document, place.name, place.language, text)


def _fences(text: str) -> Iterator[tuple[str, str]]:
    language, lines = "", None
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if fence is None:
            if lines is not None:
                lines.append(line)
        elif lines is None:
            language, lines = fence[1], []
        else:
            yield language, textwrap.dedent("\n".join(lines)).strip("\n") + "\n"
            lines = None
