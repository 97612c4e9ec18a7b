from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.rank import subreaper
from tests.conformance import patience

ROOT = Path(__file__).parents[4]
LIMIT = 60.0
PROGRAM = """
import os, pathlib, signal, subprocess, sys
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.rank.subreaper import stand_guard

notes, end = pathlib.Path(sys.argv[1]), sys.argv[2]
folder = RankFolder(notes, 0)
starter, group = os.getpid(), os.getpgrp()
stand_guard(folder, lambda words: print(words, flush=True))
assert (os.getpgrp(), os.getppid() not in (starter, os.getpid())) == (group, True)
(notes / "who").write_text(f"{starter} {os.getppid()} {os.getpid()}")
script = notes / "child.sh"
script.write_text("trap '' TERM; echo $$ > $1; while :; do sleep 1; done")
subprocess.Popen(["sh", script, notes / "own"], stdout=subprocess.DEVNULL)
daemon = f"(setsid sh {script} {notes / 'daemon'} &)"
subprocess.run(["sh", "-c", daemon], env={"PATH": os.environ["PATH"]}, stdout=subprocess.DEVNULL)
while not all((notes / name).exists() and (notes / name).read_text().endswith("\\n") for name in ("own", "daemon")):
    pass
if end == "well":
    folder.completed.touch()
elif end == "wait":
    signal.pause()
elif end.startswith("-"):
    os.kill(os.getpid(), -int(end))
else:
    sys.exit(int(end))
"""


@pytest.mark.parametrize("left", [30, 1, 0, -1, -300])
def test_a_process_is_listed_by_its_title_as_far_as_there_is_room(left: int) -> None:
    program = (
        "import pathlib, sys\n"
        "from mpiparallel.launch.rank.subreaper import change_title\n"
        "before = pathlib.Path('/proc/self/cmdline').read_bytes()\n"
        "room = len(before) - 1\n"
        "change_title('t' * (room - int(sys.argv[1])))\n"
        "print(room, pathlib.Path('/proc/self/cmdline').read_bytes().rstrip(bytes(1)).decode())"
    )
    words = [sys.executable, "-c", program, str(left), "x" * 40]
    said = patience.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    room, title = said.stdout.split()
    assert title == "t" * (int(room) - max(left, 0))


def start(folder: Path, end: str) -> subprocess.Popen[str]:
    RankFolder(folder, 0).path.mkdir()
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), end],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def children(folder: Path) -> list[int]:
    return [int((folder / name).read_text()) for name in ("own", "daemon")]


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("end", "code"),
    [("well", 0), ("0", 0), ("3", 3), *((str(-number), -number) for number in (6, 9, 11, 15))],
)
def test_what_mpirun_started_ends_as_the_rank_after_all_that_the_rank_has_started(
    tmp_path: Path, end: str, code: int
) -> None:
    process = start(tmp_path, end)
    said = process.communicate(timeout=LIMIT)[0]
    assert process.returncode == code
    told = RankFolder(tmp_path, 0).read_wait_status()
    assert (None if told is None else os.waitstatus_to_exitcode(told[1])) == (None if end == "well" else code)
    assert [child for child in children(tmp_path) if lives(child)] == []
    assert ("has left processes running: sh /" in said) == (end == "well"), said


def test_of_many_that_are_left_three_are_named_and_the_others_counted() -> None:
    left = [f"sleep (pid {number})" for number in range(8)]
    assert "running: sleep (pid 0), sleep (pid 1), sleep (pid 2) and 5 more; they" in subreaper._words(left)
    assert "running: sleep (pid 0), sleep (pid 1), sleep (pid 2); they" in subreaper._words(left[:3])


READER = """
import pathlib, subprocess, sys
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.rank.subreaper import stand_guard

folder = RankFolder(pathlib.Path(sys.argv[1]), 0)
folder.path.mkdir()
stand_guard(folder, lambda words: print(words, flush=True))
subprocess.Popen(["sh", "-c", "cat; sleep 0.2; echo read it all"], stdin=subprocess.PIPE)
folder.completed.touch()
"""


def test_who_ends_by_itself_soon_after_a_rank_that_ended_well_does_so_unnamed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-W", "ignore", "-c", READER, str(tmp_path)]
    found = patience.run(words, env=environment, stdout=subprocess.PIPE, text=True)
    assert (found.returncode, found.stdout) == (0, "read it all\n")


@pytest.mark.parametrize("victim", [0, 2], ids=["what mpirun started", "the rank"])
def test_whoever_is_killed_nothing_stays(tmp_path: Path, victim: int) -> None:
    process = start(tmp_path, "wait")
    deadline = time.monotonic() + LIMIT
    while not (tmp_path / "daemon").exists() or not (tmp_path / "daemon").read_text().endswith("\n"):
        assert time.monotonic() < deadline
    all_three = [int(number) for number in (tmp_path / "who").read_text().split()]
    os.kill(all_three[victim], signal.SIGKILL)
    assert process.wait(LIMIT) == -signal.SIGKILL
    while left := [number for number in (*all_three[1:], *children(tmp_path)) if lives(number)]:
        assert time.monotonic() < deadline, left
    process.communicate()


def test_a_process_that_is_left_is_named_by_its_words_as_far_as_they_can_be_shown() -> None:
    odd = "a\x1b[2J" + "x" * 80
    with subprocess.Popen(["sh", "-c", "read line", odd], stdin=subprocess.PIPE, text=True) as process:
        # The kernel shows the words of this one until it has become the other.
        patience.wait_until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"sh\0"))
        shown = f"sh -c read line {odd}"[:60].replace("\x1b", "?")
        assert subreaper._name_of(process.pid) == f"{shown} (pid {process.pid})"
        process.communicate("end\n")
    assert subreaper._name_of(1 << 30) == f"a process (pid {1 << 30})"


def test_what_is_left_is_told_with_what_becomes_of_it() -> None:
    assert subreaper._words(["sleep 9 (pid 7)"]) == (
        "mpiparallel: the script has left processes running: sleep 9 (pid 7); they are ended now, unless "
        "--keep-children is given"
    )
