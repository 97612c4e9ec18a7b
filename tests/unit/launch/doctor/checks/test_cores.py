"""What is told of cores, word by word: ranks that share them, affinity, quota, and settings that pin."""

from __future__ import annotations

import pytest

from mpiparallel.launch.doctor.checks.cores import cpu_limits, find_cores
from tests.unit.launch.doctor.faked_machine import FakedMachine, cpuinfo, told

V2 = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
SHARED = ": they share cores, which mpiparallel run allows and mpirun refuses"


@pytest.mark.parametrize(
    ("cores", "ranks", "line"),
    [
        (2, 1, ("slots", "ok", "2 cores for 1 rank", "")),
        (2, 2, ("slots", "ok", "2 cores for 2 ranks", "")),
        (2, 3, ("slots", "note", f"2 cores for 3 ranks{SHARED}", "mpiparallel run -n 2")),
        (1, 2, ("slots", "note", f"1 core for 2 ranks{SHARED}", "mpiparallel run -n 1")),
        (1, 1, ("slots", "ok", "1 core for 1 rank", "")),
    ],
)
def test_cores_and_ranks_are_counted(faked: FakedMachine, cores: int, ranks: int, line: tuple[str, ...]) -> None:
    machine = faked(files={"proc/cpuinfo": cpuinfo(*cores * ["avx2"])}, cores=frozenset(range(cores)), ranks=ranks)
    assert told(find_cores(machine)) == [line]


@pytest.mark.parametrize(("ranks", "state"), [(1, "note"), (2, "note"), (3, "warning")])
def test_cores_that_a_process_may_not_use_are_told_with_how_to_use_them(
    faked: FakedMachine, ranks: int, state: str
) -> None:
    machine = faked(files={"proc/cpuinfo": cpuinfo(*8 * ["avx2"])}, cores=frozenset((2, 5)), ranks=ranks)
    assert told(find_cores(machine))[1:] == [
        (
            "affinity",
            state,
            "this process may use 2 of 8 cores (2,5), and so may all its ranks",
            "taskset -c 0-7 mpiparallel run ..., or ask the batch system for more cores a task",
        )
    ]


@pytest.mark.parametrize(
    ("limits", "ranks", "quota", "threads"),
    [
        (("350000 100000",), 1, "3.5", 3),
        (("300000 100000",), 2, "3", 1),
        (("300000 100000",), 4, "3", 1),
        (("300000 100000", "100000 200000"), 1, "0.5", 1),
        (("100000 200000", "300000 100000"), 1, "0.5", 1),
        (("399999 100000",), 1, "3.99999", 3),
    ],
)
def test_the_least_quota_of_cores_is_told_with_the_threads_that_it_leaves_a_rank(
    faked: FakedMachine, limits: tuple[str, ...], ranks: int, quota: str, threads: int
) -> None:
    folders = ("sys/fs/cgroup/a", "sys/fs/cgroup")
    files = {f"{folder}/cpu.max": f"{text}\n" for folder, text in zip(folders, limits, strict=False)}
    known = {"proc/self/mountinfo": V2, "proc/self/cgroup": "0::/a\n"}
    machine = faked(files={**known, **files}, cores=frozenset(range(4)), ranks=ranks)
    assert told(find_cores(machine))[1:] == [
        (
            "quota",
            "warning",
            f"the control group allows {quota} cores of 4: ranks that count 4 are stopped again and again",
            f"export OPENBLAS_NUM_THREADS={threads} OMP_NUM_THREADS={threads}, or raise the limit of the "
            "container's CPUs",
        )
    ]


@pytest.mark.parametrize("quota", ["400000 100000", "500000 100000", "max 100000"])
def test_a_quota_of_all_cores_is_no_quota(faked: FakedMachine, quota: str) -> None:
    known = {"proc/self/mountinfo": V2, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": quota}
    machine = faked(files=known, cores=frozenset(range(4)))
    assert [finding.subject for finding in find_cores(machine)] == ["slots"]


@pytest.mark.parametrize(
    ("own", "place", "text", "limits"),
    [
        ("0::/job\n", "job/", "150000 100000\n", [1.5]),
        ("no line of it\n1:name\n0::/job\n", "job/", "150000 100000\n", [1.5]),
        ("0::/a:b\n", "a:b/", "150000 100000\n", [1.5]),
        ("4:cpu:/other\n0::/job\n", "job/", "150000 100000\n", [1.5]),
        ("0:named:/other\n0::/job\n", "job/", "150000 100000\n", [1.5]),
        ("0::/../..\n", "", "150000 100000\n", [1.5]),
        ("", "", "150000 100000\n", [1.5]),
        ("0::/job\n", "job/", "150000 0\n", []),
        ("0::/job\n", "job/", "-1 100000\n", []),
        ("0::/job\n", "job/", "150000\n", []),
        ("0::/job\n", "job/", "", []),
        ("0::/job\n", "job/", "999999999999999 1\n", [999999999999999.0]),
        ("0::/job\n", "job/", "9999999999999999 1\n", []),
        ("0::/job\n", "job/", "\u0661 1\n", []),
    ],
)
def test_only_numbers_of_the_own_control_group_are_limits(
    faked: FakedMachine, own: str, place: str, text: str, limits: list[float]
) -> None:
    known = {"proc/self/mountinfo": V2, "proc/self/cgroup": own, f"sys/fs/cgroup/{place}cpu.max": text}
    assert list(cpu_limits(faked(files=known))) == limits


@pytest.mark.parametrize("mounted", ["cgroup cgroup rw,cpuset", "tmpfs cgroup rw,cpu"])
def test_file_systems_that_count_no_cpus_have_no_limits(faked: FakedMachine, mounted: str) -> None:
    known = {
        "proc/self/mountinfo": f"32 31 0:29 / /sys/fs/cgroup/cpu rw - {mounted}\n",
        "proc/self/cgroup": "4:cpu:/\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "25000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    assert list(cpu_limits(faked(files=known))) == []


@pytest.mark.parametrize("value", ["none", "false", "FALSE"])
def test_settings_that_pin_nothing_are_well(faked: FakedMachine, value: str) -> None:
    machine = faked(variables={"OMP_PROC_BIND": value, "HYDRA_BINDING": value, "OMP_SCHEDULE": "static"})
    assert [finding.subject for finding in find_cores(machine)] == ["slots"]


def test_all_settings_that_pin_are_told_together(faked: FakedMachine) -> None:
    machine = faked(variables={"OMP_PLACES": "cores", "HYDRA_BINDING": "user:0", "KMP_AFFINITY": "none"})
    assert told(find_cores(machine))[1:] == [
        (
            "pinning",
            "warning",
            "HYDRA_BINDING=user:0, OMP_PLACES=cores may put the threads of all ranks on the same cores",
            "unset HYDRA_BINDING OMP_PLACES",
        )
    ]
