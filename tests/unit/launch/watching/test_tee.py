from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.output_selection import OutputSelection
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.watching.tee import Tee


@pytest.fixture
def folders(tmp_path: Path) -> list[RankFolder]:
    made = [RankFolder(tmp_path, rank) for rank in range(3)]
    for folder in made:
        folder.path.mkdir()
        folder.log.touch()
    return made


def add(folder: RankFolder, content: bytes) -> None:
    with folder.log.open("ab") as stream:
        stream.write(content)


def test_lines_never_interleave_and_say_whose_they_are(folders: list[RankFolder], capfdbinary) -> None:
    tee = Tee(OutputSelection((0, 2), True), folders, Console())
    add(folders[0], b"one\nhalf of")
    add(folders[1], b"not shown\n")
    add(folders[2], b"two\r\n")
    tee.show()
    add(folders[2], b"three\n")
    tee.show()
    add(folders[0], b" a line\nlast")
    tee.show()
    tee.show(is_last=True)
    assert capfdbinary.readouterr().out.splitlines() == [
        b"[0] one", b"[2] two", b"[2] three", b"[0] half of a line", b"[0] last"
    ]  # fmt: skip


def test_one_rank_is_shown_as_it_is_also_within_a_line(folders: list[RankFolder], capfdbinary) -> None:
    tee = Tee(OutputSelection(), folders, Console())
    add(folders[0], b"10 %\r")
    tee.show()
    assert capfdbinary.readouterr().out == b"10 %\r"
    add(folders[0], b"\xff20 %")
    tee.show(is_last=True)
    assert capfdbinary.readouterr().out == b"\xff20 %"


def test_line_without_an_end_is_not_kept_for_ever(folders: list[RankFolder], capfdbinary) -> None:
    tee = Tee(OutputSelection((0,), True), folders, Console())
    add(folders[0], b"x" * 70_000)
    tee.show()
    assert capfdbinary.readouterr().out == b"[0] " + b"x" * 70_000 + b"\n"


def test_end_shows_all_that_is_left(folders: list[RankFolder], capfdbinary) -> None:
    add(folders[0], b"line\n" * 500_000)
    Tee(OutputSelection(), folders, Console()).show(is_last=True)
    assert len(capfdbinary.readouterr().out) == 2_500_000


def test_rank_that_is_followed_later_is_shown_from_then_on(folders: list[RankFolder], capfdbinary) -> None:
    tee = Tee(OutputSelection(), folders, Console())
    add(folders[1], b"before\n")
    tee.follow(folders[1])
    add(folders[1], b"after\n")
    tee.show()
    assert capfdbinary.readouterr().out == b"after\n"
