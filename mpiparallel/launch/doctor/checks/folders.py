"""The folders of a job: room, durable writes, locks, and what kind of file system is under them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.mounts import Mount, mount_of, mounts

_MIB = 1 << 20
_GIB = 1 << 30
_FEWEST_FILES = 1000
_SLOW_SECONDS = 1.0
_SKEW_SECONDS = 1.0
_LOCKING = "HDF5_USE_FILE_LOCKING"
_NO_LOCKS = ("FALSE", "0", "BEST_EFFORT")


def find_folders(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield problems of the folder of logs, and of the folder of checkpoints if that is a different one."""
    yield from _folder(machine, "logs", machine.log_dir)
    if machine.checkpoint_dir != machine.log_dir:
        yield from _folder(machine, "checkpoints", machine.checkpoint_dir)


def find_environment_folder(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield where Python's own files come from: many ranks read them at once."""
    mount = _mount(machine, machine.prefix)
    if mount is None:
        return
    if mount.is_network:
        what = f"{machine.prefix} is on {mount.kind}: all ranks load their libraries over the network at once"
        mend = "python -m venv on a local disk of each host, under the same path, and install there"
        yield Finding("environment", "warning", what, mend)
    else:
        yield Finding("environment", "ok", f"{machine.prefix}, {mount.kind}")


def _folder(machine: ExaminedMachine, subject: str, path: Path) -> Iterator[Finding]:
    answer = machine.probe("folder", str(path))
    found = answer.facts
    option = "--log-dir" if subject == "logs" else "--checkpoint-dir"
    other = f"choose another folder; mpiparallel doctor {option} DIR looks at it"
    if answer.code is None:
        what = f"{path} {answer.failure}; its file server may be gone"
        yield Finding(subject, "error", what, f"df {path}; if that hangs too, mount it anew, or {other}")
    elif answer.failure or "failure" in found:
        what = f"{path} cannot be written: {found.get('failure', answer.complaint)}"
        yield Finding(subject, "error", what, f"chown or remount it, or {other}")
    else:
        problems = [*_room(subject, found), *_durable(subject, found), *_kind(machine, subject, path)]
        yield from problems
        if not any(finding.subject == subject for finding in problems):
            kind = getattr(_mount(machine, path), "kind", "")
            told = f"{found['folder']}, {f'{kind}, ' if kind else ''}{found['free'] / _GIB:,.1f} GiB free"
            yield Finding(subject, "ok", f"{told}, a commit takes {1000 * found['seconds']:.0f} ms")
        yield from _locks(machine, subject, found)


def _room(subject: str, found: Mapping[str, Any]) -> Iterator[Finding]:
    mend = f"df -h {found['folder']}; mpiparallel ckpt prune removes old checkpoints"
    if found["free"] < _GIB:
        what = f"{found['folder']} has {found['free'] / _MIB:,.0f} MiB left"
        yield Finding(subject, "error" if found["free"] < 64 * _MIB else "warning", what, mend)
    if found["has_file_count"] and found["files"] < _FEWEST_FILES:
        what = f"{found['folder']} has room for {found['files']} more files"
        yield Finding(subject, "warning", what, f"df -i {found['folder']}, and remove what is not needed")


def _durable(subject: str, found: Mapping[str, Any]) -> Iterator[Finding]:
    if found["seconds"] > _SLOW_SECONDS:
        what = (
            f"{found['folder']}: a durable write of 4 kB takes {found['seconds']:.1f} s, and a commit is such a write"
        )
        yield Finding(subject, "warning", what, "use a faster folder, or save less often (CheckpointConfig)")
    if abs(found["skew"]) > _SKEW_SECONDS:
        what = f"the clock of the file server of {found['folder']} is {found['skew']:+.1f} s off this machine's"
        yield Finding(subject, "warning", what, "chronyc makestep, on whichever of the two is wrong")


def _kind(machine: ExaminedMachine, subject: str, path: Path) -> Iterator[Finding]:
    mount = _mount(machine, path)
    if mount is None:
        return
    if mount.is_network and "soft" in mount.options:
        what = f"{mount.point} is {mount.kind}, mounted soft: a slow file server becomes a failed write"
        yield Finding(subject, "warning", what, f"mount -o remount,hard {mount.point}")
    elif mount.kind in ("tmpfs", "ramfs", "overlay") and subject == "checkpoints":
        what = f"{path} is on {mount.kind}, which is gone with the machine or its container"
        yield Finding(subject, "warning", what, "save to a disk or a network file system: --checkpoint-dir DIR")


def _locks(machine: ExaminedMachine, subject: str, found: Mapping[str, Any]) -> Iterator[Finding]:
    given = machine.variables.get(_LOCKING)
    if not found.get("lock"):
        yield Finding("file locks", "ok", f"work in the folder of {subject}{f', {_LOCKING}={given}' if given else ''}")
    elif given in _NO_LOCKS:
        yield Finding("file locks", "ok", f"do not work in {found['folder']}, and {_LOCKING}={given} does without them")
    else:
        what = f"{found['folder']}: {found['lock']}; h5py then cannot open files there, though mpiparallel itself can"
        yield Finding("file locks", "warning", what, f"export {_LOCKING}=FALSE")


def _mount(machine: ExaminedMachine, path: Path) -> Mount | None:
    return mount_of(path, mounts(machine.text("proc/self/mountinfo")))
