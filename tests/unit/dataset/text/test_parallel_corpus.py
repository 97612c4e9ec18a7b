from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.dataset.text import load_pairs, read_pairs, read_sgm_pairs
from mpiparallel.errors import DatasetError

EN = """<refset setid="newstest2014" srclang="any" trglang="en">
<doc sysid="ref" docid="1-lemonde.fr" genre="news" origlang="fr">
<hlhead>
<seg id="1">Research &amp; development</seg>
</hlhead>
<p>
<seg id="2"> It  costs &lt;
 5 &euro;. </seg>
</p>
</doc>
<doc docid="2-bbc"><seg id="1">Yes</seg></doc>
</refset>
"""
FR = (
    EN.replace("Research &amp; development", "Recherche &amp; développement")
    .replace("It  costs", "Cela coûte")
    .replace("Yes", "Oui")
)
PAIRS = [
    ("Research & development", "Recherche & développement"),
    ("It costs < 5 €.", "Cela coûte < 5 €."),
    ("Yes", "Oui"),
]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def news(tmp_path: Path) -> Path:
    write(tmp_path / "newstest2014-fren-ref.en.sgm", EN)
    write(tmp_path / "newstest2014-fren-ref.fr.sgm", FR)
    return tmp_path


@pytest.mark.parametrize("name", ["", "newstest2014-fren-ref.en.sgm", "newstest2014-fren-ref.fr.sgm"])
def test_a_folder_or_either_sgm_file_gives_english_french_pairs(news: Path, name: str) -> None:
    assert load_pairs(news / name) == PAIRS
    assert load_pairs(str(news / name)) == PAIRS


def test_tab_separated_lines_are_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "wmt14.en_fr.txt", "\ufeffA cat .\tUn  chat .\r\n\nNo\tNon")
    assert load_pairs(path) == [("A cat .", "Un chat ."), ("No", "Non")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n\nc d\n", r"x.txt:3: 1 tab-separated texts, 1 of them not empty; write source<TAB>target"),
        ("a\tb\tc\n", r"x.txt:1: 3 tab-separated texts"),
        ("a\t \n", r"x.txt:1: 2 tab-separated texts, 1 of them not empty"),
        (b"a\tb\nc\t\xff\n", r"x.txt:2: byte 2 is not UTF-8"),
        ("\n", "there is no line in it"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        read_pairs(write(tmp_path / "x.txt", text))


@pytest.mark.parametrize(
    ("french", "message"),
    [
        (FR.replace("2-bbc", "3-bbc"), r"a.sgm:11: segment 2-bbc:1 stands against segment 3-bbc:1 of .*b.sgm:11"),
        (FR.replace('<seg id="1">Oui</seg>', ""), "has 3 segments, but .*b.sgm has 2"),
        (FR.replace("développement</seg>", "développement"), r"b.sgm:4: segment 1 has no </seg>"),
        ("\n" + FR.replace("développement</seg>", "développement"), r"b.sgm:5: segment 1 has no </seg>"),
        (FR.replace("Oui</seg>", "Oui"), "3 segments begin, but 2 are whole"),
        ("nothing", "0 segments begin"),
    ],
)
def test_sgm_files_that_do_not_fit_are_refused(tmp_path: Path, french: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        read_sgm_pairs(write(tmp_path / "a.sgm", EN), write(tmp_path / "b.sgm", french))


def remove(news: Path) -> None:
    (news / "newstest2014-fren-ref.fr.sgm").unlink()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", r"there must be one \*\.fr\.sgm file, found none"),
        ("newstest2014-fren-ref.en.sgm", r"ref\.fr\.sgm: cannot be read \(No such file"),
        ("other.txt", r"other\.txt: cannot be read"),
    ],
)
def test_a_missing_file_is_named(news: Path, name: str, message: str) -> None:
    remove(news)
    with pytest.raises(DatasetError, match=message):
        load_pairs(news / name)


def test_two_news_tests_in_a_folder_are_not_guessed_between(news: Path) -> None:
    write(news / "other.en.sgm", EN)
    with pytest.raises(DatasetError, match=r"found newstest2014-fren-ref\.en\.sgm, other\.en\.sgm"):
        load_pairs(news)


def test_a_pair_with_an_empty_text_is_left_out(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.sgm", EN), write(tmp_path / "b.sgm", FR.replace("Oui", " "))
    assert read_sgm_pairs(source, target) == PAIRS[:2]
