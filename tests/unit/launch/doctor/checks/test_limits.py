from __future__ import annotations

import json
import mmap
import os
from pathlib import Path

import pytest

from mpiparallel.launch.doctor.checks import memory
from mpiparallel.launch.doctor.checks.limits import find_limits
from mpiparallel.launch.doctor.checks.memory import find_left_segments, find_shared_memory, find_temporary_folder
from tests.unit.launch.doctor.faked_machine import FakedMachine, only, told

HEAD = "Limit                     Soft Limit           Hard Limit           Units     \n"
GENEROUS = {
    "Max stack size": "8388608",
    "Max core file size": "unlimited",
    "Max processes": "96365",
    "Max open files": "20000",
    "Max locked memory": "8388608",
    "Max address space": "unlimited",
}
MIB = 1 << 20


def limits(**lower: str) -> dict[str, str]:
    given = GENEROUS | {f"Max {name.replace('_', ' ')}": value for name, value in lower.items()}
    lines = (f"{name:<26}{value:<21}unlimited            units" for name, value in given.items())
    return {"proc/self/limits": HEAD + "\n".join(lines) + "\n"}


def test_generous_limits_are_told_in_one_line(faked: FakedMachine) -> None:
    (finding,) = find_limits(faked(files=limits()))
    assert finding.state == "ok"
    assert finding.what == "20,000 open files, 96,365 processes, stack 8 MiB: enough for 2 ranks"


@pytest.mark.parametrize(
    ("lower", "ranks", "user", "subject", "state", "mend"),
    [
        ({"open_files": "256"}, 100, 1, "open files", "error", "ulimit -n 4096"),
        ({"open_files": "800"}, 100, 1, "open files", "warning", "ulimit -n 4096"),
        ({"processes": "200"}, 2, 1, "processes", "warning", "ulimit -u 4096"),
        ({"stack_size": "65536"}, 2, 1, "stack", "warning", "ulimit -s 8192"),
        ({"address_space": "4294967296"}, 2, 1, "address space", "warning", "ulimit -v unlimited"),
        ({"core_file_size": "0"}, 2, 1, "core files", "note", "ulimit -c unlimited"),
    ],
)
def test_low_limits_are_found(
    faked: FakedMachine, lower: dict[str, str], ranks: int, user: int, subject: str, state: str, mend: str
) -> None:
    finding = only(find_limits(faked(files=limits(**lower), ranks=ranks, user=user)), subject)
    assert (finding.state, finding.mend) == (state, mend)


def test_root_has_no_limit_of_processes(faked: FakedMachine) -> None:
    (finding,) = find_limits(faked(files=limits(processes="200"), user=0))
    assert finding.state == "ok"


def test_infiniband_needs_locked_memory(faked: FakedMachine) -> None:
    machine = faked(files={**limits(), "sys/class/infiniband/mlx5_0/uevent": ""})
    assert only(find_limits(machine), "locked memory").state == "error"
    machine = faked(files=limits(locked_memory="unlimited"))
    assert [finding.state for finding in find_limits(machine)] == ["ok"]


def test_limits_that_cannot_be_read_are_no_fault(faked: FakedMachine) -> None:
    assert [finding.state for finding in find_limits(faked())] == ["note"]


def room(folder: Path | str, **facts: object) -> str:
    told = {"folder": str(folder), "free": 100 << 30, "size": 200 << 30, "files": 9999, "has_file_count": True}
    return f"echo '{json.dumps(told | facts)}'"


@pytest.mark.parametrize(
    ("free", "size", "state", "mend"),
    [
        (1024 * MIB, 1024 * MIB, "ok", ""),
        (60 * MIB, 64 * MIB, "warning", "--shm-size=1024m"),
        (10 * MIB, 64 * MIB, "error", "--shm-size=1024m"),
        (10 * MIB, 4096 * MIB, "error", "; rm what dead jobs have left there"),
    ],
)
def test_room_for_shared_memory(
    faked: FakedMachine, tmp_path: Path, free: int, size: int, state: str, mend: str
) -> None:
    probes = {"folder": room(tmp_path / "root/dev/shm", free=free, size=size)}
    (finding,) = find_shared_memory(faked(probes=probes, ranks=4))
    assert (finding.state, finding.mend.endswith(mend)) == (state, True)


def test_shared_memory_is_told_in_mebibytes(faked: FakedMachine, tmp_path: Path) -> None:
    probes = {"folder": room(tmp_path / "root/dev/shm", free=1024 * MIB, size=2048 * MIB)}
    (finding,) = find_shared_memory(faked(probes=probes, ranks=4))
    assert finding.what == "1,024 of 2,048 MiB free"


def test_missing_shared_memory_is_an_error(faked: FakedMachine) -> None:
    (finding,) = find_shared_memory(faked())
    assert (finding.state, "cannot be written" in finding.what) == ("error", True)


def test_temporary_folder_that_is_there_is_well(faked: FakedMachine, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (finding,) = find_temporary_folder(faked(variables={"TMPDIR": "/tmp"}))
    assert (finding.state, finding.mend) == ("ok", "")


@pytest.mark.parametrize("folder", ["absent", "there/is/none"])
def test_temporary_folder_that_is_not_there_is_an_error(faked: FakedMachine, tmp_path: Path, folder: str) -> None:
    for path in (tmp_path / folder, folder):
        (finding,) = find_temporary_folder(faked(variables={"TMPDIR": str(path)}))
        assert (finding.state, finding.mend) == ("error", "export TMPDIR=/tmp")


@pytest.mark.parametrize(
    ("path", "facts", "mounted", "state"),
    [
        ("/scratch", {"free": 1 * MIB}, "ext4", "error"),
        ("/scratch", {}, "nfs4", "warning"),
        ("/scratch/" + "x" * 60, {}, "ext4", "warning"),
        ("/scratch", {"failure": "Read-only file system"}, "ext4", "error"),
        ("/scratch", {}, "ext4", "ok"),
    ],
)
def test_temporary_folder_is_local_short_and_not_full(
    faked: FakedMachine, path: str, facts: dict[str, object], mounted: str, state: str
) -> None:
    files = {"proc/self/mountinfo": f"36 35 98:0 / /scratch rw - {mounted} source rw\n"}
    machine = faked(files=files, probes={"folder": room(path, **facts)}, variables={"TMPDIR": path})
    (finding,) = find_temporary_folder(machine)
    assert (finding.state, bool(finding.mend)) == (state, state != "ok")


def test_memory_that_ended_jobs_have_left_is_told_but_not_that_of_living_ones(faked: FakedMachine) -> None:
    names = ("sm_segment.n0.1", "sm_segment.n0.2", "mpich_shm_3", "sem.mine")
    machine = faked(files={f"dev/shm/{name}": "\0" * MIB for name in names}, user=os.geteuid())
    folder = machine.root / "dev/shm"
    with (folder / names[0]).open("r+b") as living, mmap.mmap(living.fileno(), MIB):
        (finding,) = find_left_segments(machine)
    assert (finding.state, finding.what) == ("note", "2 segments of ended MPI jobs hold 2 MiB of /dev/shm")
    assert finding.mend.endswith(f": rm {folder}/mpich_shm_* {folder}/sm_segment.*")


def test_memory_that_is_removed_while_it_is_looked_at_holds_nothing(
    faked: FakedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = faked(files={"dev/shm/mpich_shm_3": "\0" * MIB})
    names = [machine.root / "dev/shm" / name for name in ("mpich_shm_3", "mpich_shm_4")]
    monkeypatch.setattr(memory, "left_segments", lambda folder, user: names)
    (finding,) = find_left_segments(machine)
    assert finding.what == "2 segments of ended MPI jobs hold 1 MiB of /dev/shm"


def test_memory_of_another_user_is_not_told(faked: FakedMachine) -> None:
    machine = faked(files={"dev/shm/mpich_shm_3": "\0"}, user=os.geteuid() + 1)
    assert list(find_left_segments(machine)) == []


ENDLESS = "unlimited open files, unlimited processes, stack unlimited MiB"
WELL = "20,000 open files, 96,365 processes, stack 8 MiB: enough for 2 ranks"


# A process needs 64 files and 8 for each rank, and 256 tasks and 16 for each rank.
@pytest.mark.parametrize(
    ("lower", "ranks", "lines"),
    [
        ({"open_files": "80"}, 2, [("ulimits", "ok", WELL.replace("20,000", "80"), "")]),
        (
            {"open_files": "79"},
            2,
            [
                (
                    "open files",
                    "warning",
                    "79 open files a process, fewer than the 80 that 2 ranks may need",
                    "ulimit -n 4096",
                )
            ],
        ),
        (
            {"open_files": "39"},
            2,
            [
                (
                    "open files",
                    "error",
                    "39 open files a process, fewer than the 80 that 2 ranks may need",
                    "ulimit -n 4096",
                )
            ],
        ),
        (
            {"open_files": "4000"},
            600,
            [
                (
                    "open files",
                    "warning",
                    "4000 open files a process, fewer than the 4864 that 600 ranks may need",
                    "ulimit -n 4864",
                )
            ],
        ),
        ({"processes": "288"}, 2, [("ulimits", "ok", WELL.replace("96,365", "288"), "")]),
        (
            {"processes": "287"},
            2,
            [
                (
                    "processes",
                    "warning",
                    "287 processes and threads, fewer than the 288 that 2 ranks may need",
                    "ulimit -u 4096",
                )
            ],
        ),
        (
            {"processes": "9000"},
            600,
            [
                (
                    "processes",
                    "warning",
                    "9000 processes and threads, fewer than the 9856 that 600 ranks may need",
                    "ulimit -u 9856",
                )
            ],
        ),
        ({"stack_size": "2097152"}, 2, [("ulimits", "ok", WELL.replace("8 MiB", "2 MiB"), "")]),
        (
            {"stack_size": "2096128"},
            2,
            [("stack", "warning", "2047 KiB; compiled kernels may crash", "ulimit -s 8192")],
        ),
        (
            {"address_space": "4294967296"},
            2,
            [
                (
                    "address space",
                    "warning",
                    "4,096 MiB a process; shared memory of all ranks counts in each",
                    "ulimit -v unlimited",
                )
            ],
        ),
        (
            {"core_file_size": "0"},
            2,
            [
                ("ulimits", "ok", WELL, ""),
                ("core files", "note", "a rank that crashes leaves no core file", "ulimit -c unlimited"),
            ],
        ),
        ({"core_file_size": "1"}, 2, [("ulimits", "ok", WELL, "")]),
        (
            {"open_files": "unlimited", "processes": "many", "stack_size": "unlimited"},
            1,
            [
                (
                    "ulimits",
                    "ok",
                    "unlimited open files, unlimited processes, stack unlimited MiB: enough for 1 rank",
                    "",
                )
            ],
        ),
    ],
)
def test_limits_are_told_with_what_the_ranks_need(
    faked: FakedMachine, lower: dict[str, str], ranks: int, lines: list[tuple[str, str, str, str]]
) -> None:
    assert told(find_limits(faked(files=limits(**lower), ranks=ranks))) == lines


@pytest.mark.parametrize(
    ("locked", "adapters", "is_low"),
    [("1073741823", ["mlx5_0"], True), ("1073741824", ["mlx5_0"], False), ("65536", [], False)],
)
def test_buffers_of_an_adapter_want_a_gibibyte_locked(
    faked: FakedMachine, locked: str, adapters: list[str], is_low: bool
) -> None:
    machine = faked(files={**limits(locked_memory=locked)})
    for name in adapters:
        (machine.root / "sys/class/infiniband" / name).mkdir(parents=True)
    what = "1.04858e+06 KiB, and there is an InfiniBand adapter, which needs its buffers locked"
    mend = "ulimit -l unlimited; for good in /etc/security/limits.conf"
    wanted = ("locked memory", "error", what, mend) if is_low else ("ulimits", "ok", WELL, "")
    assert told(find_limits(machine)) == [wanted]
