"""Program messages as lower-case words, with punctuation and placeholders as words of their own."""

from __future__ import annotations

import re
import unicodedata

from mpiparallel.errors import DatasetError

_PLACEHOLDER = re.compile(r"%\((?P<old>\w+)\)[\d.]*[a-z]|\{(?P<new>\w*)[^{}]*\}|%[\d.]*[sdrif]\b")
# Curly quotes, guillemets, dashes and the soft hyphen: catalogues differ in them from message to message.
_PLAIN = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u00ab": '"',
        "\u00bb": '"',
        "\u2013": "-",
        "\u2014": "-",
        "\u00ad": "",
    }
)
_WORD = r"<\d>|\.\.\.|\d+(?:[.,]\d+)*|\w+(?:['./_-]\w+)*|[^\w\s]"
_ENGLISH = re.compile(_WORD)
_FRENCH = re.compile(r"\b(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu)'|" + _WORD)


def placeholders(message: str) -> list[str]:
    """Return the message's placeholders in order, each by its name; a nameless one is numbered by its turn.

    >>> placeholders("%(name)s in {file!r} at %d or %d")
    ['name', 'file', '1', '2']
    """
    names: list[str] = []
    nameless = 0
    for match in _PLACEHOLDER.finditer(_plain(message)):
        name = match["old"] or match["new"]
        if not name:
            nameless += 1
            name = str(nameless)
        names.append(name)
    return names


def english_words(message: str, order: list[str]) -> str:
    """Return the message as words with single spaces between them; contractions stay whole.

    A placeholder becomes ``<1>``, ``<2>``, ... by the position of its name in ``order``.

    >>> english_words("Cannot find “%(file)s”, it isn't there.", ["file"])
    'cannot find " <1> " , it isn\\'t there .'

    Raises:
        DatasetError: if ``order`` lacks a placeholder.
    """
    return _words(message, order, _ENGLISH)


def french_words(message: str, order: list[str]) -> str:
    """Return the message as :func:`english_words` does, with elided articles as words of their own.

    >>> french_words("L’option %s n’est pas valide", ["1"])
    "l' option <1> n' est pas valide"
    """
    return _words(message, order, _FRENCH)


def _plain(message: str) -> str:
    return unicodedata.normalize("NFKC", message.translate(_PLAIN)).lower()


def _words(message: str, order: list[str], pattern: re.Pattern[str]) -> str:
    names = placeholders(message)
    for name in names:
        if name not in order:
            raise DatasetError(f'words: "{message}" has placeholder "{name}", which is not among {order}; add it')
    numbers = iter(order.index(name) + 1 for name in names)
    return " ".join(pattern.findall(_PLACEHOLDER.sub(lambda _: f" <{next(numbers)}> ", _plain(message))))
