from __future__ import annotations

import gettext
import re
import struct
from importlib.util import find_spec
from pathlib import Path

import pytest

from mpiparallel.dataset.text import CATALOGUE_PACKAGES, catalogue_pairs
from mpiparallel.dataset.text.mo_file import read_messages
from mpiparallel.dataset.text.words import english_words, french_words, placeholders
from mpiparallel.errors import DatasetError

needs_catalogues = pytest.mark.skipif(
    find_spec("django") is None or find_spec("sphinx") is None,
    reason="Django and Sphinx, whose catalogues are read, are not installed: pip install mpiparallel[demo]",
)


def mo_file(messages: dict[str, str], order: str = "<") -> bytes:
    entries = sorted({"": "Content-Type: text/plain; charset=UTF-8\n", **messages}.items())
    texts = [[pair[side].encode() for pair in entries] for side in (0, 1)]
    start = 28 + 16 * len(entries)
    tables, body = b"", b""
    for side in texts:
        for text in side:
            tables += struct.pack(f"{order}2I", len(text), start + len(body))
            body += text + b"\0"
    header = struct.pack(f"{order}7I", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, 0)
    return header + tables + body


def package(folder: Path, name: str, messages: dict[str, str]) -> None:
    place = folder / name / "locale" / "fr" / "LC_MESSAGES"
    place.mkdir(parents=True)
    (folder / name / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (place / "messages.mo").write_bytes(mo_file(messages))


def test_pairs_are_chosen_cleaned_and_sorted_without_importing_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    first = {
        "The file “%(name)s”\u00a0isn't there.": "Le fichier « %(name)s » n\u2019est pas là.",
        "month\x04May": "mai",
        "%s in %s": "%s dans %s",
        "%(a)s of %(b)s files": "%(b)s fichiers, dont %(a)s",
        "Line\nbreak": "Saut\nde ligne",
        "one item\0many items": "un\0plusieurs",
        "<b>bold</b>": "<b>gras</b>",
        "DATE_FORMAT": "j F Y",
        "see https://example.org": "voir https://example.org",
        "lost %s": "perdu",
        "%s %s %s %s words": "mots %s %s %s %s",
        "Note": "Note",
        "empty": "",
        "N j": "j N",
    }
    package(tmp_path, "catalogue_one", first)
    package(tmp_path, "catalogue_two", {"May": "Mai !", "Yes": "Oui"})
    assert catalogue_pairs(("catalogue_one", "catalogue_two", "catalogue_not_there")) == [
        ("<1> in <2>", "<1> dans <2>"),
        ("<1> of <2> files", "<2> fichiers , dont <1>"),
        ("may", "mai"),
        ('the file " <1> " isn\'t there .', 'le fichier " <1> " n\' est pas là .'),
        ("yes", "oui"),
    ]


def test_no_catalogue_at_all_says_what_to_install() -> None:
    with pytest.raises(DatasetError, match=r"catalogue_not_there is installed; pip install mpiparallel\[demo\]"):
        catalogue_pairs(("catalogue_not_there",))


@pytest.mark.parametrize("order", ["<", ">"])
def test_either_byte_order_is_read(tmp_path: Path, order: str) -> None:
    path = tmp_path / "x.mo"
    path.write_bytes(mo_file({"a": "é", "context\x04b": "c", "one\0many": "un\0des"}, order))
    assert read_messages(path) == {"a": "é", "b": "c"}


@pytest.mark.parametrize("size", [0, 3, 27, 60, -3])
def test_a_cut_catalogue_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.mo"
    path.write_bytes(mo_file({"some message": "un message"})[:size])
    with pytest.raises(DatasetError, match=r"x\.mo: the message catalogue is damaged"):
        read_messages(path)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.mo"
    path.write_bytes(b"\x89HDF" * 20)
    with pytest.raises(DatasetError, match="magic number"):
        read_messages(path)


@pytest.mark.parametrize(
    ("message", "english"),
    [
        ("Don't use e-mail, and/or 3.5 MB…", "don't use e-mail , and/or 3.5 mb ..."),
        ("100% of {count:d} items", "100 % of <1> items"),
        ("edit settings.py!", "edit settings.py !"),
    ],
)
def test_english_words_are_split_from_punctuation(message: str, english: str) -> None:
    assert english_words(message, placeholders(message)) == english


@pytest.mark.parametrize(
    ("message", "french"),
    [
        ("Jusqu\u2019à aujourd\u2019hui\u00a0: d'abord", "jusqu' à aujourd'hui : d' abord"),
        ("l\u2019%(type)s «\u00a0%(name)s\u00a0»", 'l\' <2> " <1> "'),
    ],
)
def test_french_words_have_their_articles_split_off(message: str, french: str) -> None:
    assert french_words(message, ["name", "type"]) == french


def test_a_placeholder_without_a_number_is_refused() -> None:
    with pytest.raises(DatasetError, match='has placeholder "b", which is not among'):
        french_words("%(b)s", ["a"])


@needs_catalogues
def test_messages_are_those_that_gettext_reads() -> None:
    spec = find_spec("django")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0], "conf", "locale", "fr", "LC_MESSAGES", "django.mo")
    with path.open("rb") as file:
        truth = gettext.GNUTranslations(file)
    messages = read_messages(path)
    assert len(messages) > 250
    known = {message: translation for message, translation in messages.items() if truth.gettext(message) != message}
    assert len(known) > 250
    assert all(truth.gettext(message) == translation for message, translation in known.items())


@needs_catalogues
def test_django_and_sphinx_give_a_corpus_of_clean_distinct_pairs() -> None:
    pairs = catalogue_pairs(CATALOGUE_PACKAGES)
    assert len(pairs) > 1000
    assert pairs == sorted(set(pairs)) == catalogue_pairs(CATALOGUE_PACKAGES)
    assert len({english for english, _ in pairs}) == len(pairs)
    for pair in pairs:
        assert all(text == " ".join(text.split()) == text.lower() for text in pair)
        assert len({tuple(sorted(re.findall(r"<\d>", text))) for text in pair}) == 1
    assert ("wednesday", "mercredi") in pairs
