from __future__ import annotations

import io
from pathlib import Path

import pytest

from mpiparallel.launch.job.console import Console, flush_or_discard
from mpiparallel.launch.job.lost_output import LostOutput, lost_in_words
from mpiparallel.launch.job.terminal_text import fitted, has_colours, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("\x9b31m", r"\x9b31m"),
        ("over\rwritten", r"over\x0dwritten"),
        ("\x07\x08\x00\x7f", r"\x07\x08\x00\x7f"),
        ("turned \u202e round", r"turned \u202e round"),
        ("half \ud800", r"half \ud800"),
        ("kept\tas\nit is, Zürich 東京 🙂", "kept\tas\nit is, Zürich 東京 🙂"),
    ],
)
def test_characters_that_a_terminal_obeys_are_only_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_words_are_said_printable(capsys: pytest.CaptureFixture[str]) -> None:
    Console().say("host \x1b[2J")
    assert capsys.readouterr().err == "mpiparallel: host \\x1b[2J\n"


@pytest.mark.parametrize("stream", ["closed", "full"])
def test_what_is_not_taken_is_dropped_and_said_once_in_the_log(
    stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "launcher.log"
    console = Console()
    full = Path("/dev/full")
    with full.open("w") as stdout, full.open("w") as stderr:
        monkeypatch.setattr("sys.stdout", stdout if stream == "full" else None)
        monkeypatch.setattr("sys.stderr", stderr if stream == "full" else None)
        console.show(b"12345")
        console.show(b"12345")
        console.say("the end")
        console.close(log)
    assert log.read_text().startswith("mpiparallel: the end\nmpiparallel: warning: stdout took no more: 10 bytes (")
    assert len(log.read_text().splitlines()) == 2


TABLE = """\
operator              cuts         moves  decided by
network/0/MatMul      (8,1) (1,1)   1 kB  the strategy that the program sets
network/0/BiasAdd     (8,1) (1)           no strategy"""


def test_columns_that_a_terminal_has_no_room_for_go_below_their_rows() -> None:
    assert fitted(TABLE, 80) == TABLE
    assert fitted(TABLE, 60).splitlines() == [
        "operator              cuts         moves  decided by",
        "network/0/MatMul      (8,1) (1,1)   1 kB",
        "      the strategy that the program sets",
        "network/0/BiasAdd     (8,1) (1)           no strategy",
    ]
    assert fitted(TABLE, 36).splitlines()[2:5] == [
        "network/0/MatMul      (8,1) (1,1)",
        "      1 kB  the strategy that the",
        "      program sets",
    ]
    assert fitted("x" * 50, 20) == "x" * 50


def test_a_stream_that_is_closed_has_no_colours_and_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with (tmp_path / "out").open("w") as stream:
        pass
    assert not has_colours(stream)
    flush_or_discard(stream)


def test_streams_without_a_file_are_not_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert not Console().is_read_together


def test_output_that_a_folder_of_logs_did_not_take_is_told_with_the_mend() -> None:
    lost = LostOutput(2048, "No space left on device")
    assert lost_in_words(lost, Path("/logs")) == (
        f"{lost} of output are lost, as /logs took no more; make room there, or give another --log-dir"
    )
    assert "No space left on device" in str(lost)


def test_a_log_gets_only_what_could_not_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, console = tmp_path / "launcher.log", Console()
    console.say("heard")
    console.close(log)
    assert not log.exists()
    log.write_text("of mpirun\n")
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        console.show(b"x" * 1500)
        assert not console.is_read_together
        console.close(log)
    words = (
        "mpiparallel: warning: stdout took no more: 1,500 bytes (No space left on device) that ranks printed are not "
        "shown; their logs have them\n"
    )
    assert log.read_text() == f"of mpirun\n{words}"
    assert capsys.readouterr().err == f"mpiparallel: heard\n{words}"
    # A folder that is gone is no reason to end otherwise.
    console.close(tmp_path / "none" / "launcher.log")


def test_what_is_still_to_be_written_is_written_or_vanishes(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as stream:
        stream.write("words")
        flush_or_discard(stream)
        assert (tmp_path / "out").read_text() == "words"
    with Path("/dev/full").open("w") as full:
        full.write("words")
        flush_or_discard(full)
        # Its descriptor leads nowhere now, so that its end is no error.
        full.write("more")
    flush_or_discard(None)
