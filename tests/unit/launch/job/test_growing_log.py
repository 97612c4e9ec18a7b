from __future__ import annotations

from pathlib import Path

from mpiparallel.launch.job.growing_log import GrowingLog

PREFIX = b"[rank 1] "
LONGEST = 1 << 16


def write(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def test_without_a_prefix_what_is_added_is_given_as_it_is(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path / "log", b"")
    assert log.added(is_last=False) == b""
    write(tmp_path / "log", b"first")
    assert log.added(is_last=False) == b"first"
    write(tmp_path / "log", b" line\nand more")
    assert [log.added(is_last=False), log.added(is_last=True)] == [b" line\nand more", b""]


def test_behind_a_prefix_lines_are_whole_but_for_the_last(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path / "log", PREFIX)
    write(tmp_path / "log", b"one\ntw")
    assert log.added(is_last=False) == PREFIX + b"one\n"
    write(tmp_path / "log", b"o\nthree")
    assert log.added(is_last=False) == PREFIX + b"two\n"
    assert [log.added(is_last=True), log.added(is_last=True)] == [PREFIX + b"three\n", b""]


def test_a_line_that_does_not_end_is_given_in_pieces_longer_than_64_kib(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path / "log", PREFIX)
    write(tmp_path / "log", b"x" * LONGEST)
    assert log.added(is_last=False) == b""
    write(tmp_path / "log", b"y")
    assert log.added(is_last=False) == PREFIX + b"x" * LONGEST + b"y\n"


def test_what_was_there_can_be_left_out_and_the_end_is_read_however_long_it_is(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path / "log", b"")
    log.skip()
    write(tmp_path / "log", b"old\n")
    log.skip()
    write(tmp_path / "log", b"z" * (3 << 20))
    assert len(log.added(is_last=False)) < 3 << 20
    assert len(log.added(is_last=True)) == 2 << 20
