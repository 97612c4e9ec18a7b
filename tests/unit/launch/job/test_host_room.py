"""What is refused before a job starts, for this host would not bear it."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpiparallel.cluster.hostfile import Host
from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.host_room import check_host
from mpiparallel.launch.job.host_selection import HostSelection
from mpiparallel.launch.job.installation import home_setting

HERE = HostSelection((), 4, False)
ELSEWHERE = HostSelection((Host("10.9.8.7", 4),), 4, True)


def room(monkeypatch: pytest.MonkeyPatch, megabytes: float) -> None:
    status = SimpleNamespace(f_bavail=int(megabytes * 256), f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: status)


@pytest.mark.parametrize(("vendor", "refused"), [("mpich", True), ("openmpi", False)])
def test_ranks_of_mpich_are_not_started_where_shared_memory_is_too_little(
    vendor: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    room(monkeypatch, 1)
    if not refused:
        assert check_host(HERE, vendor, {}) == ()
        return
    with pytest.raises(LaunchError, match=r"/dev/shm has 1\.0 MiB free; 4 ranks of MPICH need 4 MiB .*--shm-size="):
        check_host(HERE, vendor, {})
    assert check_host(ELSEWHERE, vendor, {}) == ()


def test_little_shared_memory_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 23)
    (warning,) = check_host(HERE, "mpich", {})
    assert "4 ranks of MPICH take up to 24 MiB" in warning
    room(monkeypatch, 24)
    assert check_host(HERE, "mpich", {}) == ()


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_a_limit_of_open_files_that_mpirun_would_fail_at_is_refused(
    vendor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room(monkeypatch, 1024)
    for allowed, refused in ((24, True), (47, True), (48, False), (resource.RLIM_INFINITY, False)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, allowed=allowed: (allowed, allowed))
        if refused:
            with pytest.raises(LaunchError, match=f"^{allowed} open files .* 4 ranks need 48; ulimit -n 4096$"):
                check_host(HERE, vendor, {})
        else:
            assert check_host(HERE, vendor, {}) == ()


@pytest.mark.parametrize("name", ["TMPDIR", "TEMP", "TMP"])
@pytest.mark.parametrize("value", ["/proc", "/x" * 2500, "hosts", "hosts/below"])
def test_a_folder_that_mpirun_could_not_use_is_refused_by_its_variable(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts").touch()
    with pytest.raises(LaunchError, match=rf'^{name}="{value[:20]}.*; mpirun keeps its sockets there: export TMPDIR='):
        check_host(HERE, "openmpi", {name: value})
    assert [path.name for path in tmp_path.iterdir()] == ["hosts"]


def test_a_folder_that_mpirun_would_make_is_left_to_it(tmp_path: Path) -> None:
    assert check_host(HERE, "openmpi", {"TMPDIR": str(tmp_path / "job" / "7")}) == ()
    assert list(tmp_path.iterdir()) == []


def test_there_is_a_home_for_a_user_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(home_setting({})["HOME"]).is_absolute()
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert home_setting({}) == {"HOME": "/"}
    assert home_setting({"HOME": ""}) == {}


def test_where_there_is_no_shared_memory_to_ask_of_a_job_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(os, "statvfs", fail)
    assert check_host(HERE, "mpich", {}) == ()


MOUNT = "mount -o remount,size={0}m /dev/shm; in a container: --shm-size={0}m"


@pytest.mark.parametrize(
    ("ranks", "free", "told"),
    [
        (
            4,
            3.5,
            "/dev/shm has 3.5 MiB free; 4 ranks of MPICH need 4 MiB there to start, and would crash (SIGBUS); "
            f"{MOUNT.format(1024)}",
        ),
        (
            100,
            99.5,
            "/dev/shm has 99.5 MiB free; 100 ranks of MPICH need 100 MiB there to start, and would crash (SIGBUS); "
            f"{MOUNT.format(2400)}",
        ),
    ],
)
def test_too_little_shared_memory_is_refused_with_the_size_to_mount(
    ranks: int, free: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room(monkeypatch, free)
    with pytest.raises(LaunchError) as caught:
        check_host(HostSelection((), ranks, False), "mpich", {})
    assert str(caught.value) == told


def test_as_much_shared_memory_as_ranks_need_to_start_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 4)
    assert check_host(HERE, "mpich", {}) == (
        "/dev/shm has 4.0 MiB free; 4 ranks of MPICH take up to 24 MiB there, and crash (SIGBUS) when it is full; "
        f"{MOUNT.format(1024)}",
    )


def test_a_job_of_many_ranks_is_told_how_many_files_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 1 << 20))
    with pytest.raises(LaunchError) as caught:
        check_host(HostSelection((), 1000, False), "mpich", {})
    told = "1024 open files are allowed to a process here, but 1000 ranks need 4032; ulimit -n 8064"
    assert str(caught.value) == told


def test_this_host_is_looked_at_where_it_is_one_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 1)
    both = HostSelection((Host("10.9.8.7", 4), Host("localhost", 4)), 4, True)
    with pytest.raises(LaunchError, match="ranks of MPICH need 4 MiB"):
        check_host(both, "mpich", {})


def test_without_a_variable_the_folder_itself_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    with pytest.raises(LaunchError) as caught:
        check_host(HERE, "openmpi", {"TMPDIR": ""})
    assert str(caught.value) == (
        "/tmp: Permission denied; mpirun keeps its sockets there: export TMPDIR=DIR, a folder that you may write to, "
        "with a short path"
    )
