"""What is deleted of shared memory: what ranks of the job had, and no process has any more; nothing else."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mpiparallel.launch.watching import shared_segments as module
from mpiparallel.launch.watching.shared_segments import LeftSegments, left_segments

NAMES = ["mpich_shm_868b25fe_0", "sm_segment.vm.0.5cb00001.1", "ucx_shm_posix_358637f2", "vader_segment.vm.0.1"]
OTHERS = ["mpiparallel-reliability-1", "my_mpich_shm_1", "sem.mine"]
HOLDER = """
import mmap, os, sys
held = [mmap.mmap(os.open(name, os.O_RDWR), 4096) for name in sys.argv[1:]]
print("held", flush=True)
sys.stdin.read()
"""


def made(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.write_bytes(bytes(4096))
    return paths


@contextmanager
def holder(*paths: Path) -> Iterator[int]:
    """A process that has these files in its memory, until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, *map(str, paths)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process.pid
    process.kill()
    process.communicate()


def test_what_killed_ranks_had_is_deleted_and_nothing_else(tmp_path) -> None:
    theirs, others, of_another_job = made(tmp_path, *NAMES), made(tmp_path, *OTHERS), made(tmp_path, "mpich_shm_1_0")
    segments = LeftSegments(tmp_path)
    with holder(*theirs, *others) as pid:
        segments.note([pid])
    assert segments.remove() == theirs
    assert sorted(tmp_path.iterdir()) == sorted([*others, *of_another_job])
    assert segments.remove() == []


def test_what_a_process_still_has_stays_until_it_has_not(tmp_path) -> None:
    (path,) = made(tmp_path, NAMES[0])
    segments = LeftSegments(tmp_path)
    descriptor = os.open(path, os.O_RDWR)
    with mmap.mmap(descriptor, 4096):
        os.close(descriptor)
        with holder(path) as pid:
            segments.note([pid])
        assert segments.remove() == []
        assert path.exists()
    assert segments.remove() == [path]


def test_a_process_that_has_nothing_yet_is_looked_at_again(tmp_path) -> None:
    (path,) = made(tmp_path, NAMES[1])
    segments = LeftSegments(tmp_path)
    segments.note([os.getpid()])
    descriptor = os.open(path, os.O_RDWR)
    with mmap.mmap(descriptor, 4096):
        os.close(descriptor)
        segments.note([os.getpid()])
    assert segments.remove() == [path]


def test_what_a_library_has_unlinked_itself_is_nothing_to_delete(tmp_path) -> None:
    (path,) = made(tmp_path, NAMES[0])
    segments = LeftSegments(tmp_path)
    with holder(path) as pid:
        path.unlink()
        segments.note([pid])
    assert segments.remove() == []


def test_a_link_in_the_place_of_a_segment_is_left_alone(tmp_path) -> None:
    path, target = made(tmp_path, NAMES[0], OTHERS[0])
    segments = LeftSegments(tmp_path)
    with holder(path) as pid:
        segments.note([pid])
    path.unlink()
    path.symlink_to(target)
    assert segments.remove() == []
    assert path.is_symlink()


def test_processes_that_are_gone_are_nothing(tmp_path) -> None:
    segments = LeftSegments(tmp_path / "none")
    segments.note([2**22 + 1])
    assert segments.remove() == []


def test_only_segments_of_mpi_that_are_regular_files_of_the_user_are_left_ones(tmp_path: Path) -> None:
    made(tmp_path, *NAMES, *OTHERS, "x_sm_segment.1")
    (tmp_path / "mpich_shm_folder").mkdir()
    (tmp_path / "ucx_shm_posix_link").symlink_to(NAMES[0])
    assert left_segments(tmp_path) == [tmp_path / name for name in sorted(NAMES)]
    assert left_segments(tmp_path, os.geteuid()) == left_segments(tmp_path)
    assert left_segments(tmp_path, os.geteuid() + 1) == []
    assert left_segments(tmp_path / "none") == []


def test_a_segment_that_goes_while_it_is_to_be_deleted_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = made(tmp_path, NAMES[0])
    segments = LeftSegments(tmp_path)
    with holder(path) as pid:
        segments.note([pid])
    path.unlink()
    monkeypatch.setattr(module, "left_segments", lambda folder: [path])
    assert segments.remove() == [path]
