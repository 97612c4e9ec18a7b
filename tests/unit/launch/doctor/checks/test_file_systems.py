"""What is told of file systems and of locks under the folders of a job, word by word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpiparallel.launch.doctor.checks.folders import find_environment_folder, find_folders
from tests.unit.launch.doctor.faked_machine import FakedMachine, only, told

GIB = 1 << 30
WELL = {"free": 100 * GIB, "size": 200 * GIB, "files": 9999, "has_file_count": True, "seconds": 0.01, "skew": 0.0}


def said(folder: Path, lock: str = "") -> dict[str, str]:
    return {"folder": f"echo '{json.dumps({'folder': str(folder), **WELL, 'lock': lock})}'"}


def mounted(*lines: tuple[str, str]) -> dict[str, str]:
    text = "".join(f"36 35 98:0 / {point} rw,relatime shared:1 - {kind} source rw\n" for point, kind in lines)
    return {"proc/self/mountinfo": text}


@pytest.mark.parametrize(
    ("kind", "subject", "line"),
    [
        (
            "nfs4 source rw,soft",
            "checkpoints",
            (
                "warning",
                "POINT is nfs4, mounted soft: a slow file server becomes a failed write",
                "mount -o remount,hard POINT",
            ),
        ),
        (
            "overlay",
            "checkpoints",
            (
                "warning",
                "FOLDER is on overlay, which is gone with the machine or its container",
                "save to a disk or a network file system: --checkpoint-dir DIR",
            ),
        ),
        ("ramfs", "checkpoints", ("warning", "FOLDER is on ramfs, which is gone with the machine or its", "save to")),
        ("ext4 source rw,soft", "checkpoints", ("ok", "FOLDER, ext4, 100.0 GiB free", "")),
        ("tmpfs", "logs", ("ok", "FOLDER, tmpfs, 100.0 GiB free", "")),
    ],
)
def test_a_file_system_that_loses_what_is_written_is_told_word_by_word(
    faked: FakedMachine, tmp_path: Path, kind: str, subject: str, line: tuple[str, str, str]
) -> None:
    folder = tmp_path / "there"
    folders = {"checkpoint_dir": folder} if subject == "checkpoints" else {"log_dir": folder, "checkpoint_dir": folder}
    machine = faked(files=mounted(("/", "ext4"), (str(tmp_path), kind)), probes=said(folder), **folders)
    found = only(find_folders(machine), subject)
    state, what, mend = (words.replace("FOLDER", str(folder)).replace("POINT", str(tmp_path)) for words in line)
    assert (found.state, found.what.startswith(what), found.mend.startswith(mend)) == (state, True, True), found
    assert bool(found.mend) == bool(mend)


@pytest.mark.parametrize(
    ("setting", "lock", "line"),
    [
        (None, "", ("ok", "work in the folder of logs", "")),
        ("FALSE", "", ("ok", "work in the folder of logs, HDF5_USE_FILE_LOCKING=FALSE", "")),
        *(
            (
                value,
                "No locks",
                ("ok", f"do not work in FOLDER, and HDF5_USE_FILE_LOCKING={value} does without them", ""),
            )
            for value in ("FALSE", "0", "BEST_EFFORT")
        ),
        *(
            (
                value,
                "No locks",
                (
                    "warning",
                    "FOLDER: No locks; h5py then cannot open files there, though mpiparallel itself can",
                    "export HDF5_USE_FILE_LOCKING=FALSE",
                ),
            )
            for value in (None, "TRUE")
        ),
    ],
)
def test_locks_are_told_with_what_hdf5_is_set_to(
    faked: FakedMachine, tmp_path: Path, setting: str | None, lock: str, line: tuple[str, str, str]
) -> None:
    variables = {} if setting is None else {"HDF5_USE_FILE_LOCKING": setting}
    found = told(find_folders(faked(probes=said(tmp_path, lock), variables=variables)))
    state, what, mend = (words.replace("FOLDER", str(tmp_path)) for words in line)
    assert found[1] == ("file locks", state, what, mend)


def test_an_environment_on_the_network_is_told_with_where_to_make_another(faked: FakedMachine, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    machine = faked(files=mounted((str(venv), "nfs")))
    assert told(find_environment_folder(machine)) == [
        (
            "environment",
            "warning",
            f"{venv} is on nfs: all ranks load their libraries over the network at once",
            "python -m venv on a local disk of each host, under the same path, and install there",
        )
    ]
