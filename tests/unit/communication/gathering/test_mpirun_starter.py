"""What rank 0 starts mpirun with, and what it says of an end of the job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import mpiparallel
from mpiparallel.cluster.gathering.hand_started import HandStarted
from mpiparallel.communication.gathering.mpirun_starter import MpirunStarter
from mpiparallel.communication.gathering.origin import Origin
from mpiparallel.errors import LaunchError

ORIGIN = Origin("vm", 7, "/job/device0", 11)
STARTED = HandStarted(0, 4, (0, 1, 2, 3), 30.0, "d1gest")


class Process:
    """What is started in a process's place: it keeps the end that words are written to until ``end``."""

    def __init__(self) -> None:
        self.command: list[str] = []
        self.options: dict[str, Any] = {}

    def run(self, command: Sequence[str], **options: Any) -> None:
        self.command, self.options = [*command], options
        (given,) = options["pass_fds"]
        assert command[-1] == str(given)
        self.kept = os.dup(given)

    def say(self, words: bytes) -> None:
        os.write(self.kept, words)

    def end(self) -> None:
        os.close(self.kept)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    process = Process()
    monkeypatch.setattr(subprocess, "run", process.run)
    return process


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([], "mpirun has ended"),
        ([b" \n"], "mpirun has ended"),
        ([b"rank 1 of 4 failed ", b"first: odd\n"], "rank 1 of 4 failed first: odd"),
        ([b"caf\xe9"], "caf\ufffd"),
        ([b"x" * 50_000, b"y" * 15_000, b"z" * 1_000], "x" * 50_000 + "y" * 15_000 + "z" * 1_000),
    ],
)
def test_the_last_words_are_all_that_was_said_once_the_job_has_ended(
    pieces: list[bytes], said: str, process: Process
) -> None:
    starter = MpirunStarter(STARTED, ORIGIN)
    starter.check()
    for piece in pieces:
        process.say(piece)
        assert starter.last_words(0) is None
        starter.check()
    process.end()
    assert starter.last_words(0) == said
    with pytest.raises(LaunchError, match=r"^init: the processes could not be made one job: ") as caught:
        starter.check()
    assert f"one job: {said}\n  use mpiparallel run -n 4 " in str(caught.value)


def test_mpirun_is_started_for_all_ranks_with_this_ones_origin(
    process: Process, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["own", "", "/other"]))
    MpirunStarter(STARTED, ORIGIN)
    process.end()
    told = ["--ranks", "4", "--digest", "d1gest", "--seconds", "30.0", "--origin"]
    assert process.command[:-3] == [sys.executable, "-m", "mpiparallel.launch.gathering", *told]
    origin = {"host": "vm", "session": 7, "folder": "/job/device0", "process": 11}
    assert (json.loads(process.command[-3]), process.command[-2]) == (origin, "--words")
    package = Path(mpiparallel.__file__).parents[1]
    # It starts in another folder.
    assert process.options["cwd"] == "/"
    assert process.options["env"]["PYTHONPATH"] == os.pathsep.join([str(tmp_path / "own"), "/other", str(package)])


@pytest.mark.parametrize(("here", "is_named"), [((0, 1, 2, 3), False), ((0, 1), True)])
def test_the_rank_table_is_named_where_ranks_are_on_other_hosts(
    here: tuple[int, ...], is_named: bool, process: Process
) -> None:
    MpirunStarter(HandStarted(0, 4, here, 30.0, "d1gest", Path("/job/table.json")), ORIGIN)
    process.end()
    assert (process.command[9:11] == ["--rank-table", "/job/table.json"]) == is_named


def open_files() -> list[str]:
    return sorted(one.name for one in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        (lambda: OSError("no memory for a process"), "no memory for a process"),
        (lambda: subprocess.CalledProcessError(3, ["python"]), "returned non-zero exit status 3"),
        (lambda: subprocess.TimeoutExpired(["python"], 60), "timed out after 60 seconds"),
    ],
)
def test_what_cannot_be_started_is_told_with_the_command_that_can_and_leaves_no_file_open(
    fail: Callable[[], Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: Sequence[str], **options: Any) -> None:
        raise fail()

    monkeypatch.setattr(subprocess, "run", run)
    before = open_files()
    with pytest.raises(
        LaunchError, match=rf"init: mpirun could not be started \(.*{words}.*\); use mpiparallel run -n 4"
    ):
        MpirunStarter(STARTED, ORIGIN)
    assert open_files() == before
