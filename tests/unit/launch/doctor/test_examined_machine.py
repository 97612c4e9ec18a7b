"""The machine that is examined: what its files say, which MPI it has, and what its children are not told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mpiparallel.launch.doctor.examination import examine
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine, MpiLibrary
from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.mounts import Mount, mounts
from mpiparallel.launch.doctor.registry import Check
from tests.unit.launch.doctor.faked_machine import OPENMPI, FakedMachine

REPORT = "mpiparallel --debug doctor tells more; please report it"


def test_a_file_of_facts_that_cannot_be_read_is_empty(faked: FakedMachine) -> None:
    machine = faked(files={"proc/cpuinfo": "model: x\n"})
    (machine.root / "proc/odd").write_bytes(b"a\xffb")
    assert machine.text("proc/cpuinfo") == "model: x\n"
    assert machine.text("proc/odd") == "a\ufffdb"
    assert (machine.text("proc/none"), machine.text("proc")) == ("", "")


COUNTED = 'echo asked >> "$0.asked"; '


@pytest.mark.parametrize(
    ("launcher", "library", "found", "asked"),
    [
        (
            OPENMPI,
            'echo \'{"file": "/lib/libmpi.so"}\'',
            MpiLibrary("openmpi", "Open MPI v5.0.11", "FOLDER/mpirun", file="/lib/libmpi.so"),
            2,
        ),
        (OPENMPI, "exit 3", MpiLibrary("openmpi", "Open MPI v5.0.11", "FOLDER/mpirun"), 2),
        ('echo \'{"failure": "none"}\'', "true", MpiLibrary(failure="none"), 1),
        (
            "echo gone >&2; exit 3",
            "true",
            MpiLibrary(failure="asking mpi4py for its MPI ended with exit code 3: gone"),
            1,
        ),
        ("true", "true", MpiLibrary(failure="asking mpi4py for its MPI says nothing"), 1),
    ],
)
def test_the_library_is_asked_for_once(
    launcher: str, library: str, found: MpiLibrary, asked: int, faked: FakedMachine, tmp_path: Path
) -> None:
    machine = faked(probes={"launcher": COUNTED + launcher, "mpi_library": COUNTED + library})
    for _ in range(2):
        told = machine.mpi
        assert (told.vendor, told.library, told.failure, told.file) == (
            found.vendor,
            found.library,
            found.failure,
            found.file,
        )
        assert told.launcher == found.launcher.replace("FOLDER", str(tmp_path / "bin"))
    assert Path(f"{machine.python}.asked").read_text().count("asked") == asked


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        *((name, False) for name in ("OMPI_COMM_WORLD_SIZE", "OMPI_FILE_LOCATION", "OMPI_UNIVERSE_SIZE", "PMIX_RANK")),
        *(
            (name, False)
            for name in ("MPI_LOCALRANKID", "PRTE_LAUNCHED", "SLURM_LOCALID", "SLURM_STEP_ID", "RANK_SIZE")
        ),
        *((name, True) for name in ("PMIX_MCA_gds", "OMPI_MCA_btl", "SLURM_NTASKS", "MY_RANK_ID", "PATH")),
    ],
)
def test_what_would_make_a_child_a_rank_is_not_told_to_it(name: str, is_told: bool, faked: FakedMachine) -> None:
    variables = {} if name == "PATH" else {name: "1"}
    seen = faked(variables=variables).ask("env").output.splitlines()
    assert any(line.startswith(f"{name}=") for line in seen) == is_told


def test_a_child_has_the_time_of_the_machine_or_that_which_is_said(faked: FakedMachine) -> None:
    machine = faked(patience=0.05)
    assert machine.ask("sleep", "60").failure == "has not ended within 0.05 s"
    assert machine.ask("sleep", "0.1", seconds=60.0).code == 0
    assert machine.ask("sleep", "60", seconds=0.0).failure == "has not ended within 0 s"


def test_a_check_that_fails_or_takes_too_long_is_told_word_by_word(faked: FakedMachine) -> None:
    def broken(machine: ExaminedMachine) -> Iterator[Finding]:
        raise ZeroDivisionError("of nothing")
        yield

    checks = (Check("broken", "A", broken), Check("late", "B", lambda machine: machine.ask("sleep", "0.2").objects))
    found = examine(faked(), checks, seconds=0.05)
    assert [(one.subject, one.group, one.state, one.what, one.mend) for one in found] == [
        ("broken", "A", "warning", "could not be looked at (ZeroDivisionError: of nothing)", REPORT),
        ("late", "B", "warning", "has not ended within 0.05 s", REPORT),
    ]


@pytest.mark.parametrize(
    ("kind", "is_network"),
    [
        *((kind, True) for kind in ("nfs", "nfs4", "lustre", "beegfs", "ceph", "9p", "fuse.sshfs")),
        *((kind, False) for kind in ("ext4", "tmpfs", "fuse.fuse-overlayfs", "fuse.lxcfs", "fuse", "fuseblk")),
    ],
)
def test_file_systems_over_a_network_are_known_by_their_kind(kind: str, is_network: bool) -> None:
    assert Mount("/data", "/", kind, frozenset()).is_network == is_network


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("1 0 8:1 / / rw - ext4 a rw", [("/", "/", "ext4", {"rw"})]),
        ("1 0 8:1 /a\\040b /c\\134d rw,x - ext4", [("/c\\d", "/a b", "ext4", {"rw", "x"})]),
        ("1 0 8:1 / / rw a:1 b:2 - ext4 name opt rest", [("/", "/", "ext4", {"rw", "opt"})]),
        ("1 0 8:1 / / - ext4 a rw", []),
        ("1 0 8:1 / / rw ext4 a rw", []),
        ("1 0 8:1 / / rw - ", []),
        ("", []),
    ],
)
def test_a_line_of_mounts_is_read_or_left_out(line: str, told: list[tuple[str, str, str, set[str]]]) -> None:
    assert [(one.point, one.source, one.kind, set(one.options)) for one in mounts(line)] == told
