from __future__ import annotations

import pytest

from mpiparallel.launch.doctor.checks.blas import find_blas, find_threads
from mpiparallel.launch.doctor.checks.cores import cpu_limits, find_cores
from tests.unit.launch.doctor.faked_machine import AVX512, FakedMachine, cpuinfo, only

V2 = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
GROUPS = {
    "version 2, of a group above": (
        V2,
        "0::/slice/job\n",
        {"sys/fs/cgroup/slice/job/cpu.max": "max 100000\n", "sys/fs/cgroup/slice/cpu.max": "150000 100000\n"},
        [1.5],
    ),
    "version 2, seen from inside a container": (
        V2.replace(" / /sys", " /docker/1 /sys"),
        "0::/docker/1/job\n",
        {"sys/fs/cgroup/job/cpu.max": "50000 100000\n", "sys/fs/cgroup/cpu.max": "max 100000\n"},
        [0.5],
    ),
    "version 1": (
        V1,
        "4:cpu,cpuacct:/job\n",
        {
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "25000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
        [0.25],
    ),
    "none": (V2, "0::/\n", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, []),
    "not to be read": (V1 + V2, "0::/../..\n4:cpu:/x", {"sys/fs/cgroup/cpu.max": "\x00 0\n"}, []),
}


@pytest.mark.parametrize(("mounted", "own", "files", "limits"), GROUPS.values(), ids=GROUPS)
def test_quota_of_the_control_group_is_read(
    faked: FakedMachine, mounted: str, own: str, files: dict[str, str], limits: list[float]
) -> None:
    machine = faked(files={"proc/self/mountinfo": mounted, "proc/self/cgroup": own, **files})
    assert list(cpu_limits(machine)) == limits


def test_quota_below_the_cores_is_a_warning(faked: FakedMachine) -> None:
    mounted, own, files, _ = GROUPS["version 2, of a group above"]
    machine = faked(files={"proc/self/mountinfo": mounted, "proc/self/cgroup": own, **files})
    finding = only(find_cores(machine), "quota")
    assert (finding.state, "1.5 cores of 2" in finding.what) == ("warning", True)
    assert finding.mend.startswith("export OPENBLAS_NUM_THREADS=1 ")


@pytest.mark.parametrize(("ranks", "state"), [(1, "ok"), (2, "ok"), (3, "note")])
def test_more_ranks_than_cores_are_noted(faked: FakedMachine, ranks: int, state: str) -> None:
    assert only(find_cores(faked(ranks=ranks)), "slots").state == state


@pytest.mark.parametrize(("ranks", "state"), [(1, "note"), (4, "warning")])
def test_affinity_to_a_part_of_the_cores_is_told(faked: FakedMachine, ranks: int, state: str) -> None:
    machine = faked(files={"proc/cpuinfo": cpuinfo(*8 * ["avx2"])}, cores=frozenset((2, 3)), ranks=ranks)
    finding = only(find_cores(machine), "affinity")
    assert (finding.state, "2 of 8 cores (2-3)" in finding.what) == (state, True)


def test_settings_that_pin_all_ranks_are_a_warning(faked: FakedMachine) -> None:
    finding = only(find_cores(faked(variables={"OMP_PROC_BIND": "close", "KMP_AFFINITY": "none"})), "pinning")
    assert (finding.state, finding.mend) == ("warning", "unset OMP_PROC_BIND")


def test_a_long_setting_that_pins_is_told_by_its_first_40_characters(faked: FakedMachine) -> None:
    finding = only(find_cores(faked(variables={"GOMP_CPU_AFFINITY": "0123456789" * 5})), "pinning")
    assert f"GOMP_CPU_AFFINITY={'0123456789' * 4} may" in finding.what


@pytest.mark.parametrize(
    ("flags", "kernels", "variables", "state", "mend"),
    [
        (AVX512, "SkylakeX", {}, "ok", ""),
        (AVX512, "Haswell", {}, "note", "export OPENBLAS_CORETYPE=SkylakeX"),
        (AVX512, "Haswell", {"OPENBLAS_CORETYPE": "Haswell"}, "warning", "unset OPENBLAS_CORETYPE"),
        ("avx2", "Zen", {}, "ok", ""),
    ],
)
def test_kernels_of_openblas_suit_the_processor(
    faked: FakedMachine, flags: str, kernels: str, variables: dict[str, str], state: str, mend: str
) -> None:
    said = f'{{"internal_api": "openblas", "version": "0.3.31", "architecture": "{kernels}", "num_threads": 2}}'
    files = {"proc/cpuinfo": cpuinfo(flags)}
    (finding,) = find_blas(faked(files=files, probes={"blas": f"echo '{said}'"}, variables=variables))
    assert (finding.state, finding.mend) == (state, mend)


@pytest.mark.parametrize(
    ("said", "variables", "state", "mend"),
    [
        ("kill -ILL $$", {"OPENBLAS_CORETYPE": "SkylakeX"}, "error", "unset OPENBLAS_CORETYPE"),
        ("echo 'No module named numpy' >&2; exit 1", {}, "error", "pip install --force-reinstall numpy"),
        ("true", {}, "note", ""),
    ],
)
def test_blas_that_does_not_work_or_is_not_known(
    faked: FakedMachine, said: str, variables: dict[str, str], state: str, mend: str
) -> None:
    (finding,) = find_blas(faked(probes={"blas": said}, variables=variables))
    assert (finding.state, finding.mend.endswith(mend)) == (state, True)


@pytest.mark.parametrize(
    ("variables", "ranks", "state"),
    [
        ({}, 2, "ok"),
        ({"OMP_NUM_THREADS": "1"}, 2, "ok"),
        ({"OMP_NUM_THREADS": "2"}, 2, "warning"),
        ({"OMP_NUM_THREADS": "2,4"}, 1, "ok"),
        ({"OPENBLAS_NUM_THREADS": "many"}, 2, "error"),
        ({"MKL_NUM_THREADS": "0"}, 2, "error"),
    ],
)
def test_threads_of_the_user_fit_the_ranks(
    faked: FakedMachine, variables: dict[str, str], ranks: int, state: str
) -> None:
    (finding,) = find_threads(faked(variables=variables, ranks=ranks))
    assert finding.state == state
    assert finding.mend == (f"unset {next(iter(variables))}" if state != "ok" else "")
