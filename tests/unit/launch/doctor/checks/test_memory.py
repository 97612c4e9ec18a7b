"""What is told of shared memory and of the folder of temporary files, word by word, and what just suffices."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.launch.doctor.checks import memory
from mpiparallel.launch.doctor.checks.memory import find_left_segments, find_shared_memory, find_temporary_folder
from tests.unit.launch.doctor.faked_machine import FakedMachine, told

MIB = 1 << 20


def room(path: Path | str, **facts: object) -> dict[str, str]:
    known = {"folder": str(path), "free": 100 << 30, "size": 200 << 30, "files": 9999, "has_file_count": True}
    return {"folder": f"echo '{json.dumps(known | facts)}'"}


def larger(mib: int) -> str:
    return f"mount -o remount,size={mib}m /dev/shm; in a container: --shm-size={mib}m"


# Each rank wants 20 MiB and needs 6; the mend has twice what is wanted, and at least 1024 MiB.
@pytest.mark.parametrize(
    ("free", "size", "ranks", "line"),
    [
        (80 * MIB, 2048 * MIB, 4, ("ok", "80 of 2,048 MiB free", "")),
        (80 * MIB - 1, 64 * MIB, 4, ("warning", "80 of 64 MiB free; 4 ranks want 80", larger(1024))),
        (24 * MIB, 64 * MIB, 4, ("warning", "24 of 64 MiB free; 4 ranks want 80", larger(1024))),
        (24 * MIB - 1, 79 * MIB, 4, ("error", "24 of 79 MiB free; 4 ranks want 80", larger(1024))),
        (
            0,
            80 * MIB,
            4,
            (
                "error",
                "0 of 80 MiB free; 4 ranks want 80",
                f"{larger(1024)}; rm what dead jobs have left there",
            ),
        ),
        (64 * MIB, 64 * MIB, 40, ("error", "64 of 64 MiB free; 40 ranks want 800", larger(1600))),
    ],
)
def test_room_for_shared_memory_is_told_with_what_the_ranks_want(
    faked: FakedMachine, tmp_path: Path, free: int, size: int, ranks: int, line: tuple[str, str, str]
) -> None:
    machine = faked(probes=room(tmp_path / "root/dev/shm", free=free, size=size), ranks=ranks)
    assert told(find_shared_memory(machine)) == [("/dev/shm", *line)]


@pytest.mark.parametrize("facts", [{"failure": "Read-only file system"}, {"folder": "/dev"}])
def test_shared_memory_that_cannot_be_written_is_an_error(
    faked: FakedMachine, tmp_path: Path, facts: dict[str, str]
) -> None:
    machine = faked(probes=room(tmp_path / "root/dev/shm", **facts), ranks=30)
    what = "cannot be written, so ranks of one host share no memory"
    assert told(find_shared_memory(machine)) == [("/dev/shm", "error", what, larger(1200))]


def test_what_segments_hold_is_told_by_their_blocks_of_512_bytes(
    faked: FakedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def segment(blocks: int | None) -> Any:
        def stat() -> Any:
            if blocks is None:
                raise FileNotFoundError
            return SimpleNamespace(st_blocks=blocks, st_size=1)

        return SimpleNamespace(name="sem", stat=stat)

    found = [segment(1 << 21), segment(None), segment(1 << 20)]
    monkeypatch.setattr(memory, "left_segments", lambda folder, user: found)
    (line,) = told(find_left_segments(faked()))
    assert line[2] == "3 segments of ended MPI jobs hold 1,536 MiB of /dev/shm"


def test_nothing_is_said_of_memory_where_no_job_has_left_any(faked: FakedMachine) -> None:
    assert list(find_left_segments(faked(files={"dev/shm/sem.mine": "x"}))) == []


LONG = "/scratch/" + "x" * 49


@pytest.mark.parametrize(
    ("path", "facts", "kind", "line"),
    [
        ("/scratch", {"free": 64 * MIB}, "ext4", ("ok", "TMPDIR=/scratch, 0.1 GiB free", "")),
        ("/scratch", {"free": 1536 * MIB}, "ext4", ("ok", "TMPDIR=/scratch, 1.5 GiB free", "")),
        (
            "/scratch",
            {"free": 64 * MIB - 1},
            "ext4",
            ("error", "TMPDIR=/scratch has 64 MiB left", "remove old files there, or export TMPDIR=/tmp"),
        ),
        (
            "/scratch",
            {},
            "nfs4",
            (
                "warning",
                "TMPDIR=/scratch is on nfs4; sockets and mapped files there are slow, or do not work",
                "export TMPDIR=/tmp",
            ),
        ),
        (
            "/scratch",
            {"failure": "no room"},
            "ext4",
            (
                "error",
                "TMPDIR=/scratch is no folder that can be written; MPI keeps its sockets there",
                "export TMPDIR=/tmp",
            ),
        ),
        (LONG, {}, "ext4", ("ok", f"TMPDIR={LONG}, 100.0 GiB free", "")),
        (
            f"{LONG}x",
            {},
            "ext4",
            (
                "warning",
                "59 characters; a socket's path may have 108 in all, and MPI and Python add to it",
                "export TMPDIR=/tmp",
            ),
        ),
    ],
)
def test_the_folder_of_temporary_files_is_told_with_its_room(
    faked: FakedMachine, path: str, facts: dict[str, object], kind: str, line: tuple[str, str, str]
) -> None:
    files = {"proc/self/mountinfo": f"36 35 98:0 / /scratch rw - {kind} source rw\n"}
    machine = faked(files=files, probes=room(path, **facts), variables={"TMPDIR": path})
    assert told(find_temporary_folder(machine)) == [("TMPDIR", *line)]


@pytest.mark.parametrize("variables", [{}, {"TMPDIR": ""}])
def test_without_a_setting_the_folder_is_that_of_the_system(faked: FakedMachine, variables: dict[str, str]) -> None:
    machine = faked(probes=room("/tmp"), variables=variables)
    assert told(find_temporary_folder(machine)) == [("TMPDIR", "ok", "/tmp, 100.0 GiB free", "")]
