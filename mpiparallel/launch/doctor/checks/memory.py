"""Memory that ranks of one host share, and the folder of MPI's temporary files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.mounts import mount_of, mounts
from mpiparallel.launch.job.host_room import SHARED_MIB
from mpiparallel.launch.watching.shared_segments import BEGINNINGS, left_segments

_MIB = 1 << 20
# Open MPI maps 16 MiB a rank, and warns without it.
_WANTED_MIB = 20
# A socket's path has 108 bytes at most; MPI libraries and Python append up to about 50 to the folder's.
_LONGEST_PATH = 58


def find_shared_memory(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield whether ``/dev/shm`` has room for what the MPI library puts there."""
    path = machine.root / "dev/shm"
    found = machine.probe("folder", str(path)).facts
    wanted, needed = (_WANTED_MIB * machine.ranks, SHARED_MIB * machine.ranks)
    mend = (
        f"mount -o remount,size={max(2 * wanted, 1024)}m /dev/shm; in a container: --shm-size={max(2 * wanted, 1024)}m"
    )
    if found.get("folder") != str(path) or "failure" in found:
        yield Finding("/dev/shm", "error", "cannot be written, so ranks of one host share no memory", mend)
        return
    free, size = found["free"] / _MIB, found["size"] / _MIB
    if free >= wanted:
        yield Finding("/dev/shm", "ok", f"{free:,.0f} of {size:,.0f} MiB free")
    else:
        what = f"{free:,.0f} of {size:,.0f} MiB free; {machine.ranks} ranks want {wanted}"
        full = "; rm what dead jobs have left there" if size >= wanted else ""
        yield Finding("/dev/shm", "error" if free < needed else "warning", what, mend + full)


def find_left_segments(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield what jobs that were killed have left in ``/dev/shm``, where there is anything."""
    folder = machine.root / "dev/shm"
    left = left_segments(folder, machine.user)
    if left:
        held = sum(map(_bytes_held, left)) / _MIB
        names = [f"{folder}/{name}*" for name in BEGINNINGS if any(path.name.startswith(name) for path in left)]
        what = f"{len(left)} segments of ended MPI jobs hold {held:,.0f} MiB of /dev/shm"
        yield Finding("left memory", "note", what, f"while no MPI job of yours runs here: rm {' '.join(names)}")


def _bytes_held(path: Path) -> int:
    try:
        # Segments have holes, so their size says little.
        return 512 * path.stat().st_blocks
    except OSError:
        # Somebody has removed it meanwhile.
        return 0


def find_temporary_folder(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield whether the folder of temporary files is there, on this machine, and its path short enough for sockets."""
    given = machine.variables.get("TMPDIR")
    path = Path(given or "/tmp")
    found = machine.probe("folder", str(path)).facts
    mount = mount_of(path, mounts(machine.text("proc/self/mountinfo")))
    name, mend = f"TMPDIR={given}" if given else str(path), "export TMPDIR=/tmp"
    if found.get("folder") != str(path) or "failure" in found:
        yield Finding("TMPDIR", "error", f"{name} is no folder that can be written; MPI keeps its sockets there", mend)
    elif found["free"] < 64 * _MIB:
        what = f"{name} has {found['free'] / _MIB:,.0f} MiB left"
        yield Finding("TMPDIR", "error", what, f"remove old files there, or {mend}")
    elif mount is not None and mount.is_network:
        what = f"{name} is on {mount.kind}; sockets and mapped files there are slow, or do not work"
        yield Finding("TMPDIR", "warning", what, mend)
    elif len(str(path)) > _LONGEST_PATH:
        what = f"{len(str(path))} characters; a socket's path may have 108 in all, and MPI and Python add to it"
        yield Finding("TMPDIR", "warning", what, mend)
    else:
        yield Finding("TMPDIR", "ok", f"{name}, {found['free'] / (1 << 30):,.1f} GiB free")
