"""What comes with the package to be read and copied."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mpiparallel.launch import examples, shipped
from mpiparallel.launch.cli import main
from mpiparallel.launch.shipped import summary
from tests.conformance import patience

ROOT = Path(__file__).parents[3]
FOLDERS = ("clusters", "docs", "examples", "hostfiles", "launchers", "rank_tables")


def content(folder: Path) -> dict[str, bytes]:
    """Return what is in the files of ``folder``, but for what Python and ``make site`` have written there."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not {"__pycache__", "reference"} & {*path.parts}]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


@pytest.mark.skipif(find_spec("setuptools") is None, reason="needs setuptools")
def test_a_build_holds_the_repository_s_folders_whole(tmp_path: Path) -> None:
    words = [sys.executable, "-W", "ignore", "setup.py", "--quiet", "build_py"]
    patience.run([*words, "--build-lib", tmp_path], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for folder in FOLDERS:
        built = tmp_path / "mpiparallel" / "shipped" / folder
        assert content(built) == content(ROOT / folder)


def test_every_example_is_listed_and_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(printed(capsys, "examples", "list", "--json"))
    names = [row["name"] for row in told]
    assert names == list(dict.fromkeys(names))
    for folder, prefix in {
        "examples": "",
        **{one: f"{one}/" for one in ("hostfiles", "launchers", "clusters")},
    }.items():
        there = {f"{prefix}{path.name}" for path in (ROOT / folder).iterdir() if path.name[0] not in "_."}
        assert there - {f"{prefix}README.md"} <= set(names)
    assert [name for name in names if name.endswith("README.md")] == []
    assert [row["name"] for row in told if not row["about"]] == []


def test_shown_is_the_page_of_a_folder_with_its_files_and_the_text_of_a_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "examples/elastic/README.md").read_text()
    assert printed(capsys, "examples", "show", "elastic") == f"{page}\nfiles: README.md, picture.svg, train.py\n"
    script = (ROOT / "launchers/run.sh").read_text()
    assert printed(capsys, "examples", "show", "launchers/run.sh") == script


def test_a_copy_is_whole_and_can_be_run_and_nothing_is_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "examples", "copy", "translation") == "copied to translation\n"
    assert content(Path("translation")) == content(ROOT / "examples/translation")
    told = json.loads(printed(capsys, "examples", "copy", "launchers/run.sh", "mine.sh", "--json"))
    assert told == {"name": "launchers/run.sh", "copy": "mine.sh"}
    assert os.access("mine.sh", os.X_OK)
    Path("mine.sh").write_text("mine")
    for words in (["copy", "translation"], ["copy", "launchers/run.sh", "mine.sh"]):
        assert main(["examples", *words]) == 2
        assert "is there already; give another TARGET" in capsys.readouterr().err
    assert Path("mine.sh").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["examples", "show", "translaton"], "did you mean translation?"),
        (["examples", "copy", "../setup.cfg"], 'there is no example "../setup.cfg"'),
        (["examples", "copy", "elastic", "absent/elastic"], "there is no folder absent"),
        (["docs", "lanching"], "did you mean launching?"),
        (["docs", "../README"], 'there is no page "../README"; mpiparallel docs lists all'),
    ],
)
def test_what_is_not_there_is_refused(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert reason in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("variable", "coloured"), [(None, True), ("NO_COLOR", False), ("LESS", False)])
def test_docs_are_laid_out_for_the_pager_of_a_terminal(
    variable: str | None, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    shown: list[str] = []
    monkeypatch.setattr("pydoc.pager", shown.append)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "LESS"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "i")
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["docs", "dependencies"]) == 0
    [text] = shown
    assert ("\x1b[" in text) == coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= 80
    assert "Why each dependency is there" in plain


def test_docs_are_shown_as_they_are_where_rich_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("pydoc.pager", shown.append)
    monkeypatch.setattr("mpiparallel.launch.docs.find_spec", lambda name: None)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["docs", "dependencies"]) == 0
    (page,) = (ROOT / "docs").rglob("dependencies.md")
    assert shown == [page.read_text()]


def test_docs_prints_the_repository_s_pages(capsys: pytest.CaptureFixture[str]) -> None:
    pages = json.loads(printed(capsys, "docs", "--json"))
    files = sorted((ROOT / "docs").rglob("*.md"))
    assert [row["page"] for row in pages] == [path.stem for path in files]
    assert len({path.stem for path in files}) == len(files), "a page is called by its name, without its folder"
    for row, path in zip(pages, files, strict=True):
        assert row["title"]
        text = path.read_text()
        assert printed(capsys, "docs", row["page"]) == text
        assert json.loads(printed(capsys, "docs", row["page"], "--json"))["text"] == text


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.py", '"""Train a network.\n\nSlowly.\n"""\n', "Train a network."),
        ("a.py", "x = 1\n", ""),
        ("a.md", "words\n# A page\n", "A page"),
        ("a.sh", "#!/bin/sh\n# Start it:\necho\n", "Start it"),
        ("a.txt", "# Two hosts\n# and more\n", "Two hosts"),
        ("a.txt", "host\n# Two hosts\n", ""),
    ],
)
def test_a_file_is_listed_by_what_it_says_of_itself_first(tmp_path: Path, name: str, text: str, told: str) -> None:
    (tmp_path / name).write_text(text)
    assert summary(tmp_path / name) == told
    folder = tmp_path / "folder"
    folder.mkdir()
    assert summary(folder) == ""
    (folder / "README.md").write_text("# Many\n")
    assert summary(folder) == "Many"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Examples of our own in the place of those that are shipped."""
    folder = tmp_path / "shipped"
    for name in ("examples/net/inner/__pycache__", "launchers", "rank_tables", "hostfiles", "clusters"):
        (folder / name).mkdir(parents=True)
    (folder / "examples" / "README.md").write_text("# All\n")
    (folder / "examples" / "net" / "train.py").write_text('"""Trains."""\n')
    (folder / "examples" / "net" / "inner" / "more.py").write_text("")
    (folder / "examples" / "net" / "inner" / "__pycache__" / "more.pyc").write_text("")
    (folder / "hostfiles" / "one").write_text("# One host\n")
    (folder / "hostfiles" / ".hidden").write_text("# None\n")
    monkeypatch.setattr(examples, "SHIPPED", folder)
    return folder


def test_what_python_has_compiled_is_neither_shown_nor_copied(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "examples", "show", "net") == "\nfiles: inner/more.py, train.py\n"
    assert json.loads(printed(capsys, "examples", "show", "net", "--json")) == {
        "name": "net",
        "text": "",
        "files": ["inner/more.py", "train.py"],
    }
    printed(capsys, "examples", "copy", "net")
    assert [str(path.relative_to("net")) for path in sorted(Path("net").rglob("*"))] == [
        "inner",
        "inner/more.py",
        "train.py",
    ]


def test_the_list_has_programs_first_then_each_folder_with_what_is_in_it(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, "examples", "list").splitlines() == [
        "name           about",
        "net",
        "launchers      all scripts that start a job",
        "rank_tables    all rank tables",
        "hostfiles      all hostfiles, in each dialect",
        "hostfiles/one  One host",
        "clusters       all machines that strategies can be searched for",
    ]


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("kind", ["folder", "dangling link"])
def test_nothing_that_is_there_is_copied_over(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    if kind == "folder":
        Path("mine").mkdir()
    else:
        Path("mine").symlink_to("nowhere")
    assert main(["examples", "copy", "hostfiles/one", "mine"]) == 2
    told = "mpiparallel: error: mine: is there already; give another TARGET, which is to be made\n"
    assert capsys.readouterr().err == told
    assert main(["examples", "copy", "hostfiles/one", "absent/mine"]) == 2
    told = "mpiparallel: error: absent/mine: there is no folder absent; give one that exists\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (1000, ["name    about", "a       a few words", "longer", "b       one two three four five six seven eight"]),
        (
            38,
            [
                "name    about",
                "a       a few words",
                "longer",
                "b       one two three four five six",
                "        seven eight",
            ],
        ),
        # However narrow the terminal is, what is told of each has thirty characters.
        (
            10,
            [
                "name    about",
                "a       a few words",
                "longer",
                "b       one two three four five six",
                "        seven eight",
            ],
        ),
    ],
)
def test_a_list_has_two_columns_that_fit_the_terminal(
    width: int, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "terminal_width", lambda: width)
    rows = [("a", "a few words"), ("longer", ""), ("b", "one two three four five six seven eight")]
    assert shipped.listing(("name", "about"), rows) == lines
