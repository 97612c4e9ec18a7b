"""English-French pairs from the message catalogues of installed Python packages: parallel text without a download."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from mpiparallel.dataset.text.mo_file import read_messages
from mpiparallel.dataset.text.parallel_corpus import Pair
from mpiparallel.dataset.text.words import english_words, french_words, placeholders
from mpiparallel.errors import DatasetError

# The import names of packages under BSD or MIT licences, most pairs first.
CATALOGUE_PACKAGES = ("django", "sphinx", "allauth", "django_countries", "rest_framework", "debug_toolbar")

_CATALOGUES = ("**/locale/fr/LC_MESSAGES/*.mo", "**/translations/fr/LC_MESSAGES/*.mo")
_MOST_PLACEHOLDERS = 3
# Line ends, mark-up, addresses, and identifiers such as DATE_FORMAT: nothing that a translation can be learnt from.
_NOT_PROSE = re.compile(r"[\n\t\\|]|</?\w|\w>|://|[A-Z]+_[A-Z]+|\w+=|%%|--")
_LETTERS = re.compile(r"[^\W\d_]{2}")


def catalogue_pairs(packages: Sequence[str] = CATALOGUE_PACKAGES) -> list[Pair]:
    """Return (English, French) pairs from the French catalogues of those ``packages`` that are installed.

    Words are lower case with single spaces between them; placeholders are ``<1>``, ``<2>``, ... on both sides. Left out
    are plural forms, mark-up, identifiers, and messages of several lines or with more than three placeholders. So are
    messages with other placeholders than their translation, and those equal to their translation. An English text
    occurs once, with its translation in the first package that has it. The pairs are sorted: equal package versions
    give equal pairs. Nothing is imported.

    Parameters
    ----------
    packages : sequence of str
        Names of Python packages.

    Returns
    -------
    list of (str, str)
        Sorted.

    Raises
    ------
    DatasetError
        If none of the packages is installed with French catalogues.

    Examples
    --------
    >>> from mpiparallel.errors import DatasetError
    >>> try:
    ...     catalogue_pairs(["no_such_package"])
    ... except DatasetError:
    ...     print("none of them is installed")
    none of them is installed
    """
    chosen: dict[str, str] = {}
    for package in packages:
        for path in _catalogue_files(package):
            for message, translation in sorted(read_messages(path).items()):
                if _teaches(message, translation):
                    order = placeholders(message)
                    english, french = english_words(message, order), french_words(translation, order)
                    if english != french and "_" not in english:
                        chosen.setdefault(english, french)
    if not chosen:
        raise DatasetError(
            f"catalogue_pairs: no French catalogue of {', '.join(packages) or 'any package'} is installed; "
            "pip install mpiparallel[demo]"
        )
    return sorted(chosen.items())


def _catalogue_files(package: str) -> Iterator[Path]:
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for pattern in _CATALOGUES:
            yield from sorted(Path(folder).glob(pattern))


def _teaches(message: str, translation: str) -> bool:
    texts = (message, translation)
    names = placeholders(message)
    return (
        all(_LETTERS.search(text) and not _NOT_PROSE.search(text.strip()) for text in texts)
        and len(set(names)) <= _MOST_PLACEHOLDERS
        and sorted(names) == sorted(placeholders(translation))
    )
