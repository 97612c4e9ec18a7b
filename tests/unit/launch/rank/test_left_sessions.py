"""What is deleted of Open MPI's session folders: those of daemons of this host and user that are gone, nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mpiparallel.launch.rank.left_sessions import remove_left_sessions


@pytest.fixture
def ended() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def session(folder: Path, kind: str, number: int, host: str = "here") -> Path:
    """A folder as Open MPI 5 makes it."""
    path = folder / f"{kind}.{number}"
    (path / "1" / "0").mkdir(parents=True)
    (path / f"pmix.{host}.tool.{number}").write_text(f"{number}\n")
    return path


@pytest.mark.parametrize("kind", ["ompi", "prte", "prted"])
def test_the_folder_of_a_daemon_that_is_gone_is_deleted(tmp_path, ended, kind) -> None:
    left = session(tmp_path, kind, ended)
    assert remove_left_sessions(tmp_path, "here") == [left]
    assert not left.exists()
    assert remove_left_sessions(tmp_path, "here") == []


def test_folders_of_the_living_of_other_hosts_and_of_other_programs_stay(tmp_path, ended) -> None:
    living = session(tmp_path, "ompi", os.getpid())
    of_another_host = session(tmp_path, "prted", ended, "there")
    of_another_program = session(tmp_path, "mine", ended)
    without_daemon = tmp_path / f"prte.{ended}"
    without_daemon.mkdir()
    target = session(tmp_path / "elsewhere", "ompi", ended)
    link = tmp_path / target.name
    link.symlink_to(target)
    assert remove_left_sessions(tmp_path, "here") == []
    assert all(path.exists() for path in (living, of_another_host, of_another_program, without_daemon, link, target))


def test_a_folder_that_is_not_there_holds_nothing(tmp_path) -> None:
    assert remove_left_sessions(tmp_path / "none") == []


def test_where_nothing_is_named_it_is_the_folder_for_temporary_files_and_this_host(
    tmp_path: Path, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own, other = session(tmp_path, "prte", ended, os.uname().nodename), session(tmp_path, "ompi", ended, "elsewhere")
    assert remove_left_sessions() == [own]
    assert other.exists()


def test_what_is_no_folder_or_has_another_name_stays_and_several_are_told_in_order(tmp_path: Path, ended: int) -> None:
    (tmp_path / f"prted.{ended}").write_text("")
    odd = [session(tmp_path, kind, ended) for kind in ("xompi", "prtedx")]
    odd.append(session(tmp_path, "ompi", ended).rename(tmp_path / f"ompi.{ended}x"))
    left = [session(tmp_path, kind, ended) for kind in ("prte", "ompi")]
    assert remove_left_sessions(tmp_path, "here") == sorted(left)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f"prted.{ended}", *(path.name for path in odd)])
