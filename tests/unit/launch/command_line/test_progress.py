"""What a terminal shows of how far a command is: one line that is written over, and gone at the end."""

from __future__ import annotations

import io
import sys
import time

import pytest

from mpiparallel.launch.command_line import progress
from mpiparallel.launch.command_line.progress import progress_bar


class Terminal(io.StringIO):
    """A terminal that remembers all that it was sent, and shows what was flushed."""

    shown = ""

    def flush(self) -> None:
        self.shown = self.getvalue()

    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in the place of stderr; a fixture would come before pytest puts its own there."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A list whose last number is the time."""
    times = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: times[-1])
    return times


@pytest.fixture
def _no_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "find_spec", lambda _: None)


def words_of(count: int) -> str:
    return {10: "ten", 1000: "a thousand"}.get(count, str(count))


@pytest.mark.usefixtures("_no_rich")
def test_a_shorter_line_covers_the_one_before_and_the_last_is_taken_away(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    terminal = watched(monkeypatch)
    with progress_bar("reading", words_of) as told:
        assert told is not None
        assert terminal.shown == "\rreading ..."
        told(250, 1000)
        assert terminal.shown == "\rreading ...\rreading  25% of a thousand"
        clock.append(101.0)
        told(10, 10)
    first, second = "reading  25% of a thousand", "reading 100% of ten"
    assert terminal.shown.split("\r")[1:] == [
        "reading ...",
        first,
        second + " " * (len(first) - len(second)),
        " " * len(second),
        "",
    ]


@pytest.mark.usefixtures("_no_rich")
def test_a_line_is_drawn_ten_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    terminal = watched(monkeypatch)
    with progress_bar("reading", words_of) as told:
        assert told is not None
        for now, done in ((100.0, 1), (100.05, 2), (100.09, 3), (100.11, 4), (100.2, 5), (100.22, 6)):
            clock.append(now)
            told(done, 100)
    shown = [line.split()[1] for line in terminal.getvalue().split("\r") if "%" in line]
    assert shown == ["1%", "4%", "6%"]


@pytest.mark.usefixtures("_no_rich", "clock")
def test_nothing_of_nothing_is_no_part_and_one_of_one_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for total, line in ((0, "reading   0% of 0 B"), (1, "reading 100% of 1 B")):
        terminal = watched(monkeypatch)
        with progress_bar("reading") as told:
            assert told is not None
            told(total, total)
        assert f"\r{line}\r" in terminal.getvalue()


@pytest.mark.usefixtures("_no_rich", "clock")
def test_the_line_is_gone_where_the_command_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with pytest.raises(ValueError, match="lost"), progress_bar("reading"):
        raise ValueError("lost")
    assert terminal.getvalue() == f"\rreading ...\r{' ' * len('reading ...')}\r"


def test_a_bar_says_how_much_of_how_much_is_done_beside_its_title(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    terminal = watched(monkeypatch)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with progress_bar("reading [bold]a", words_of) as told:
        assert told is not None
        told(10, 1000)
    text = terminal.getvalue()
    assert "reading [bold]a" in text
    assert "ten of a thousand" in text


def test_where_nobody_watches_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with progress_bar("reading") as told:
        assert told is None
    assert file.getvalue() == ""
