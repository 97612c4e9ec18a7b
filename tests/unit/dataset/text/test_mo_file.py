"""Messages are read by their places and their charset, and words of them by patterns with numbered placeholders."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from mpiparallel.dataset.text import Vocabulary, catalogue_pairs, load_pairs, read_sgm_pairs
from mpiparallel.dataset.text.mo_file import read_messages
from mpiparallel.dataset.text.words import english_words, french_words, placeholders
from mpiparallel.errors import DatasetError


def mo_file(pairs: list[tuple[bytes, bytes]], order: str = "<") -> bytes:
    """Return a catalogue whose last text ends where the file does."""
    texts = [source for source, _ in pairs] + [target for _, target in pairs]
    start = 28 + 8 * len(texts)
    tables = body = b""
    for text in texts:
        tables += struct.pack(f"{order}2I", len(text), start + len(body))
        body += text
    head = struct.pack(f"{order}7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return head + tables + body


def read(folder: Path, pairs: list[tuple[bytes, bytes]], order: str = "<") -> dict[str, str]:
    (folder / "x.mo").write_bytes(mo_file(pairs, order))
    return read_messages(folder / "x.mo")


def refusal_of(act: object, *arguments: object) -> str:
    assert callable(act)
    with pytest.raises(DatasetError) as caught:
        act(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("head", "text", "read_as"),
    [
        (b"Content-Type: text/plain; charset=UTF-8\n", "é".encode(), "é"),
        (b"Content-Type: text/plain; charset=iso-8859-1\n", b"\xe9", "é"),
        (b"Content-Type: text/plain\n", b"e", "e"),
    ],
)
def test_texts_are_read_in_the_charset_of_the_catalogue(
    order: str, head: bytes, text: bytes, read_as: str, tmp_path: Path
) -> None:
    assert read(tmp_path, [(b"", head), (b"a", text)], order) == {"a": read_as}


def test_without_a_charset_texts_are_ascii(tmp_path: Path) -> None:
    assert read(tmp_path, [(b"a", b"b")]) == {"a": "b"}
    assert "the message catalogue is damaged" in refusal_of(read, tmp_path, [(b"a", b"\xe9")])
    assert "the message catalogue is damaged" in refusal_of(read, tmp_path, [(b"", b"charset=none-such"), (b"a", b"b")])


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_a_message_without_a_context_has_its_own_translation(order: list[int], tmp_path: Path) -> None:
    pairs = [(b"verb\x04May", b"pouvoir"), (b"May", b"mai"), (b"other\x04May", b"autre")]
    assert read(tmp_path, [pairs[index] for index in order]) == {"May": "mai"}
    assert read(tmp_path, [(b"verb\x04a\x04b", b"c"), (b"one\0many", b"un\0plusieurs")]) == {"b": "c"}


def test_a_text_behind_the_end_is_told_by_its_number(tmp_path: Path) -> None:
    content = mo_file([(b"a", b"b"), (b"cd", b"ef")])
    (tmp_path / "x.mo").write_bytes(content[:-1])
    assert refusal_of(read_messages, tmp_path / "x.mo") == (
        f"{tmp_path}/x.mo: the message catalogue is damaged (message 1 lies behind the end of the file); install its "
        "package again"
    )


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("%s %d %r %i %f", ["1", "2", "3", "4", "5"]),
        ("%5.2f of %.1f", ["1", "2"]),
        ("%(name)s %(count)03d %(size)5.1f", ["name", "count", "size"]),
        ("{} {0} {name} {name!r:>10}", ["1", "0", "name", "name"]),
        ("%(Name)s and {} and %s", ["name", "1", "2"]),
        ("100 % of it, 5%so", []),
        ("{a{b}}", ["b"]),
    ],
)
def test_placeholders_have_their_names_or_numbers_in_turn(message: str, names: list[str]) -> None:
    assert placeholders(message) == names


@pytest.mark.parametrize(
    ("message", "english", "french"),
    [
        ("It\u2019s an \u00abAPI\u00bb \u2013 v1.2", 'it\'s an " api " - v1.2', 'it\'s an " api " - v1.2'),
        ("soft\u00adware \u2014 \u201cx\u201d", 'software - " x "', 'software - " x "'),
        ("1,000.5 files...", "1,000.5 files ...", "1,000.5 files ..."),
        ("l'eau d'or qu'il", "l'eau d'or qu'il", "l' eau d' or qu' il"),
        ("snake_case and/or a-b", "snake_case and/or a-b", "snake_case and/or a-b"),
    ],
)
def test_words_are_lower_case_and_plain_on_both_sides(message: str, english: str, french: str) -> None:
    assert (english_words(message, []), french_words(message, [])) == (english, french)


def test_a_placeholder_stands_by_its_place_in_the_order() -> None:
    order = ["a", "b", "1"]
    assert english_words("%(b)s, %(a)s and %s", order) == "<2> , <1> and <3>"
    assert refusal_of(english_words, "%(c)s", order) == (
        "words: \"%(c)s\" has placeholder \"c\", which is not among ['a', 'b', '1']; add it"
    )


def installed(folder: Path, messages: dict[str, str], place: str = "locale") -> None:
    path = folder / "catalogue_here" / place / "fr" / "LC_MESSAGES" / "django.mo"
    path.parent.mkdir(parents=True)
    (folder / "catalogue_here" / "__init__.py").touch()
    head = (b"", b"Content-Type: text/plain; charset=UTF-8\n")
    path.write_bytes(mo_file([head, *((one.encode(), other.encode()) for one, other in messages.items())]))


@pytest.mark.parametrize("place", ["locale", "translations", "deep/in/locale"])
def test_catalogues_are_found_where_packages_have_them(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, {"Yes": "Oui"}, place)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert catalogue_pairs(["catalogue_here"]) == [("yes", "oui")]


@pytest.mark.parametrize(
    ("message", "translation", "teaches"),
    [
        ("of %(a)s %(b)s %(c)s", "de %(a)s %(b)s %(c)s", True),
        ("of %(a)s %(b)s %(c)s %(d)s", "de %(a)s %(b)s %(c)s %(d)s", False),
        ("of %(a)s %(a)s %(a)s %(a)s", "de %(a)s %(a)s %(a)s %(a)s", True),
        ("of %(a)s", "de %(b)s", False),
        ("of %(a)s %(b)s", "de %(a)s", False),
        ("no", "non", True),
        ("N", "Non", False),
        ("Yes", "O", False),
        ("\n Yes \n", "Oui", True),
        ("Yes\tno", "Oui non", False),
        ("Yes", "Oui\\n", False),
        ("a|b or", "ou", False),
        ("a <b or", "ou", False),
        ("or a> b", "ou", False),
        ("see a://b", "voir", False),
        ("A_B or", "ou", False),
        ("x=1 or", "ou", False),
        ("or 5%% more", "ou", False),
        ("or -- more", "ou", False),
        ("snake_case", "serpent", False),
    ],
)
def test_a_message_teaches_where_it_is_prose_with_few_placeholders(
    message: str, translation: str, teaches: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, {message: translation, "surely": "bien sûr"})
    monkeypatch.syspath_prepend(str(tmp_path))
    assert len(catalogue_pairs(["catalogue_here"])) == 1 + teaches


def test_without_packages_none_is_named() -> None:
    assert refusal_of(catalogue_pairs, []) == (
        "catalogue_pairs: no French catalogue of any package is installed; pip install mpiparallel[demo]"
    )


def test_ids_from_the_first_to_the_last_are_words() -> None:
    vocabulary = Vocabulary(["a", "b"])
    assert vocabulary.decode([0, 1, 2, 3, 4]) == ["UNK", "PAD", "EOT", "a", "b"]
    assert refusal_of(vocabulary.decode, [-1]) == "Vocabulary: id -1 is outside; the ids are 0 to 4"
    assert refusal_of(vocabulary.decode, [5]) == "Vocabulary: id 5 is outside; the ids are 0 to 4"
    assert Vocabulary.from_texts(["b a b"], 4).words == ("UNK", "PAD", "EOT", "b")


def test_segments_are_read_in_any_case_and_with_other_attributes(tmp_path: Path) -> None:
    text = '<DOC x="1" DOCID="d" y="2"><SEG a="b" ID="1" c="d">{}</SEG>\n<seg id="2">{}</seg></DOC>'
    (tmp_path / "a.en.sgm").write_text(text.format("Yes &lt;", "No"))
    (tmp_path / "a.fr.sgm").write_text(text.format("Oui &lt;", ""))
    assert load_pairs(tmp_path) == [("Yes <", "Oui <")]


def test_files_of_another_number_of_segments_are_told_with_both(tmp_path: Path) -> None:
    one, two = tmp_path / "a.sgm", tmp_path / "b.sgm"
    one.write_text('<doc docid="d">\n\n<seg id="1">a</seg>\n<seg id="2">b</seg></doc>')
    two.write_text('<doc docid="d"><seg id="1">a</seg></doc>')
    assert refusal_of(read_sgm_pairs, one, two) == (
        f"{one} has 2 segments, but {two} has 1; give two files of the same news test"
    )
    two.write_text('<doc docid="d"><seg id="1">a</seg>\n<seg id="3">b</seg></doc>')
    assert refusal_of(read_sgm_pairs, one, two) == (
        f"{one}:4: segment d:2 stands against segment d:3 of {two}:2; give two files of the same news test"
    )


def test_many_segments_are_read_in_their_order(tmp_path: Path) -> None:
    for language in ("en", "fr"):
        segments = "".join(f'<seg id="{number}">{language} {number}</seg>\n' for number in range(300))
        (tmp_path / f"a.{language}.sgm").write_text(f'<doc docid="d">{segments}</doc>')
    assert load_pairs(tmp_path) == [(f"en {number}", f"fr {number}") for number in range(300)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_messages_may_lie_behind_their_translations_but_not_behind_the_end(order: str, tmp_path: Path) -> None:
    sources, targets = [b"one", b"seventeen"], [b"un", b"dix-sept"]
    # The table of the translations first, and their texts too.
    places, start = [], 28 + 4 * 8
    for text in (*targets, *sources):
        places.append(struct.pack(f"{order}2I", len(text), start))
        start += len(text)
    head = struct.pack(f"{order}7I", 0x950412DE, 0, 2, 28 + 2 * 8, 28, 0, 0)
    content = head + b"".join(places) + b"".join((*targets, *sources))
    path = tmp_path / "x.mo"
    path.write_bytes(content)
    assert read_messages(path) == {"one": "un", "seventeen": "dix-sept"}
    for cut, number in ((1, 1), (9, 1), (10, 0), (12, 0)):
        path.write_bytes(content[:-cut])
        assert f"(message {number} lies behind the end of the file)" in refusal_of(read_messages, path)
