"""What is deleted of shared memory: what MPI made since the job began, and no process has any more; nothing else."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from mpiparallel.launch.shared_segments import remove_left_segments

NAMES = ["mpich_shm_868b25fe_0", "sm_segment.vm.0.5cb00001.1", "vader_segment.vm.0.1", "ucx_shm_posix_358637f2"]
OTHERS = ["mpiparallel-reliability-1", "my_mpich_shm_1", "psm", "sem.mine"]


def made(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.write_bytes(bytes(4096))
    return paths


def test_what_mpi_has_left_is_deleted_and_nothing_else(tmp_path) -> None:
    since = time.time() - 1.0
    left, others = made(tmp_path, *NAMES), made(tmp_path, *OTHERS)
    (tmp_path / "mpich_shm_folder").mkdir()
    (tmp_path / "mpich_shm_link").symlink_to(others[0])
    assert remove_left_segments(since, tmp_path) == sorted(left)
    assert sorted(tmp_path.iterdir()) == sorted([*others, tmp_path / "mpich_shm_folder", tmp_path / "mpich_shm_link"])


def test_what_a_process_still_has_stays(tmp_path) -> None:
    (path,) = made(tmp_path, NAMES[0])
    descriptor = os.open(path, os.O_RDWR)
    with mmap.mmap(descriptor, 4096):
        os.close(descriptor)
        assert remove_left_segments(0.0, tmp_path) == []
        assert path.exists()
    assert remove_left_segments(0.0, tmp_path) == [path]


def test_what_was_made_before_the_job_stays(tmp_path) -> None:
    (path,) = made(tmp_path, NAMES[1])
    assert remove_left_segments(time.time() + 1.0, tmp_path) == []
    assert path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_what_belongs_to_another_user_stays(tmp_path) -> None:
    (path,) = made(tmp_path, NAMES[0])
    os.chown(path, 12345, 12345)
    assert remove_left_segments(0.0, tmp_path) == []


def test_where_there_is_no_folder_nothing_happens(tmp_path) -> None:
    assert remove_left_segments(0.0, tmp_path / "none") == []
