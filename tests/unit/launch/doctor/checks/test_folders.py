from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpiparallel.launch.doctor.checks.folders import find_environment_folder, find_folders
from mpiparallel.launch.doctor.mounts import mount_of, mounts
from tests.unit.launch.doctor import faked_machine
from tests.unit.launch.doctor.faked_machine import FakedMachine, only

GIB = 1 << 30
WELL = {"free": 100 * GIB, "size": 200 * GIB, "files": 9999, "has_file_count": True, "seconds": 0.01, "skew": 0.0}


def told(folder: Path, **facts: object) -> dict[str, str]:
    return {"folder": f"echo '{json.dumps({'folder': str(folder), **WELL, 'lock': '', **facts})}'"}


def mounted(*lines: tuple[str, str]) -> dict[str, str]:
    text = "".join(f"36 35 98:0 / {point} rw,relatime shared:1 - {kind} source rw\n" for point, kind in lines)
    return {"proc/self/mountinfo": text}


def test_real_folder_is_written_and_locked(faked: FakedMachine, tmp_path: Path) -> None:
    findings = list(find_folders(faked()))
    assert [(finding.subject, finding.state) for finding in findings] == [("logs", "ok"), ("file locks", "ok")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]


def test_folder_that_is_not_there_yet_is_tried_above(faked: FakedMachine, tmp_path: Path) -> None:
    finding = only(find_folders(faked(log_dir=tmp_path / "a/b/c")), "logs")
    assert (finding.state, finding.what.startswith(f"{tmp_path}, ")) == ("ok", True)


def test_folder_that_cannot_be_written_is_an_error(faked: FakedMachine) -> None:
    finding = only(find_folders(faked(log_dir=Path("/proc/self"))), "logs")
    assert (finding.state, "cannot be written" in finding.what, "--log-dir" in finding.mend) == ("error", True, True)


@pytest.mark.parametrize(
    ("facts", "subject", "state", "what"),
    [
        ({"free": GIB // 2}, "logs", "warning", "512 MiB left"),
        ({"free": 1 << 20}, "logs", "error", "1 MiB left"),
        ({"files": 12}, "logs", "warning", "room for 12 more files"),
        ({"seconds": 3.0}, "logs", "warning", "takes 3.0 s"),
        ({"skew": -4.0}, "logs", "warning", "-4.0 s off"),
        ({"failure": "Read-only file system"}, "logs", "error", "Read-only file system"),
        ({"lock": "No locks available"}, "file locks", "warning", "No locks available"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told_with_its_mend(
    faked: FakedMachine, tmp_path: Path, facts: dict[str, object], subject: str, state: str, what: str
) -> None:
    finding = only(find_folders(faked(probes=told(tmp_path, **facts))), subject)
    assert (finding.state, what in finding.what, finding.mend != "") == (state, True, True), finding


def test_locks_that_do_not_work_do_no_harm_where_hdf5_does_without(faked: FakedMachine, tmp_path: Path) -> None:
    machine = faked(probes=told(tmp_path, lock="No locks available"), variables={"HDF5_USE_FILE_LOCKING": "FALSE"})
    assert only(find_folders(machine), "file locks").state == "ok"


def test_folder_of_a_file_server_that_is_gone_is_an_error(faked: FakedMachine) -> None:
    finding = only(find_folders(faked(probes={"folder": "sleep 60"}, patience=0.2)), "logs")
    assert (finding.state, "has not ended within 0.2 s" in finding.what) == ("error", True)


@pytest.mark.parametrize(
    ("kind", "state"), [("nfs4", "ok"), ("nfs4 source rw,soft", "warning"), ("tmpfs", "warning"), ("ext4", "ok")]
)
def test_file_system_under_checkpoints(faked: FakedMachine, tmp_path: Path, kind: str, state: str) -> None:
    folder = tmp_path / "checkpoints"
    machine = faked(files=mounted(("/", "ext4"), (str(tmp_path), kind)), probes=told(folder), checkpoint_dir=folder)
    assert only(find_folders(machine), "checkpoints").state == state


@pytest.mark.parametrize(
    ("kind", "state"), [("ext4", "ok"), ("nfs", "warning"), ("lustre", "warning"), ("fuse.sshfs", "warning")]
)
def test_environment_on_a_network_file_system_is_a_warning(
    faked: FakedMachine, tmp_path: Path, kind: str, state: str
) -> None:
    (finding,) = find_environment_folder(faked(files=mounted((str(tmp_path / "venv"), kind))))
    assert finding.state == state


def test_nothing_is_said_of_file_systems_that_the_kernel_does_not_tell_of(faked: FakedMachine, tmp_path: Path) -> None:
    machine = faked(probes=told(tmp_path))
    assert list(find_environment_folder(machine)) == []
    assert only(find_folders(machine), "logs").what == f"{tmp_path}, 100.0 GiB free, a commit takes 10 ms"


def test_kind_and_room_of_a_folder_are_told(faked: FakedMachine, tmp_path: Path) -> None:
    machine = faked(files=mounted(("/", "ext4")), probes=told(tmp_path))
    assert only(find_folders(machine), "logs").what == f"{tmp_path}, ext4, 100.0 GiB free, a commit takes 10 ms"
    assert only(find_environment_folder(machine), "environment").what == f"{tmp_path}/venv, ext4"


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"free": GIB}, "ok"),
        ({"free": GIB - 1}, "warning"),
        ({"free": GIB // 16}, "warning"),
        ({"free": GIB // 16 - 1}, "error"),
        ({"files": 1000}, "ok"),
        ({"files": 999}, "warning"),
        ({"files": 0, "has_file_count": False}, "ok"),
        ({"seconds": 1.0}, "ok"),
        ({"seconds": 1.01}, "warning"),
        ({"skew": 1.0}, "ok"),
        ({"skew": -1.0}, "ok"),
        ({"skew": 1.01}, "warning"),
    ],
    ids=str,
)
def test_what_just_suffices_for_a_folder_is_well(
    faked: FakedMachine, tmp_path: Path, facts: dict[str, object], state: str
) -> None:
    assert only(find_folders(faked(probes=told(tmp_path, **facts))), "logs").state == state


def test_mount_of_a_path_is_the_last_with_the_longest_point() -> None:
    text = (
        "1 0 8:1 / / rw - ext4 a rw\n2 1 0:1 / /data rw - nfs b rw\n3 2 0:2 / /data/my\\040own rw - lustre c rw\n"
        "4 1 0:3 / /data rw - beegfs d rw\nnot a line of it\n5 1 0:3\n - \n"
    )
    found = list(mounts(text))
    kinds = {path: mount.kind for path in ("/x", "/data/y", "/data/my own/z") if (mount := mount_of(Path(path), found))}
    assert kinds == {"/x": "ext4", "/data/y": "beegfs", "/data/my own/z": "lustre"}
    assert mount_of(Path("relative"), found) is None


def test_options_of_a_mount_are_its_own_and_those_of_its_file_system_not_the_name_of_what_is_mounted() -> None:
    (mount,) = mounts("1 0 0:1 / /scratch rw,noatime shared:1 - tmpfs noexec rw,size=64k\n")
    assert mount.options == {"rw", "noatime", "size=64k"}


OTHER = "choose another folder; mpiparallel doctor --log-dir DIR looks at it"
CHECKPOINTS = "choose another folder; mpiparallel doctor --checkpoint-dir DIR looks at it"


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (
            {"free": GIB - 1},
            ("warning", "FOLDER has 1,024 MiB left", "df -h FOLDER; mpiparallel ckpt prune removes old checkpoints"),
        ),
        (
            {"free": 63 << 20},
            ("error", "FOLDER has 63 MiB left", "df -h FOLDER; mpiparallel ckpt prune removes old checkpoints"),
        ),
        (
            {"files": 12},
            ("warning", "FOLDER has room for 12 more files", "df -i FOLDER, and remove what is not needed"),
        ),
        (
            {"seconds": 3.0},
            (
                "warning",
                "FOLDER: a durable write of 4 kB takes 3.0 s, and a commit is such a write",
                "use a faster folder, or save less often (CheckpointConfig)",
            ),
        ),
        (
            {"skew": -4.0},
            (
                "warning",
                "the clock of the file server of FOLDER is -4.0 s off this machine's",
                "chronyc makestep, on whichever of the two is wrong",
            ),
        ),
        (
            {"skew": 2.0},
            (
                "warning",
                "the clock of the file server of FOLDER is +2.0 s off this machine's",
                "chronyc makestep, on whichever of the two is wrong",
            ),
        ),
        (
            {"failure": "Read-only file system"},
            ("error", "FOLDER cannot be written: Read-only file system", f"chown or remount it, or {OTHER}"),
        ),
        ({}, ("ok", "FOLDER, 100.0 GiB free, a commit takes 10 ms", "")),
        ({"free": 1536 << 30, "seconds": 0.9}, ("ok", "FOLDER, 1,536.0 GiB free, a commit takes 900 ms", "")),
    ],
)
def test_a_folder_of_logs_is_told_word_by_word(
    faked: FakedMachine, tmp_path: Path, facts: dict[str, object], line: tuple[str, str, str]
) -> None:
    state, what, mend = (words.replace("FOLDER", str(tmp_path)) for words in line)
    found = faked_machine.told(find_folders(faked(probes=told(tmp_path, **facts))))
    assert found[0] == ("logs", state, what, mend)
    locks = [("file locks", "ok", "work in the folder of logs", "")]
    assert found[1:] == ([] if "failure" in facts else locks)


def test_a_folder_that_hangs_or_whose_look_fails_is_told_with_what_to_try(faked: FakedMachine, tmp_path: Path) -> None:
    machine = faked(probes={"folder": "sleep 60"}, patience=0.1, log_dir=tmp_path)
    assert faked_machine.told(find_folders(machine)) == [
        (
            "logs",
            "error",
            f"{tmp_path} has not ended within 0.1 s; its file server may be gone",
            f"df {tmp_path}; if that hangs too, mount it anew, or {OTHER}",
        )
    ]
    folder = tmp_path / "c"
    case = f'case "$3" in {folder}) exit 3;; *) {told(tmp_path)["folder"]};; esac'
    machine = faked(probes={"folder": case}, checkpoint_dir=folder)
    assert faked_machine.told(find_folders(machine))[2:] == [
        (
            "checkpoints",
            "error",
            f"{folder} cannot be written: ended with exit code 3",
            f"chown or remount it, or {CHECKPOINTS}",
        )
    ]
