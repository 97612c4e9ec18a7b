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
