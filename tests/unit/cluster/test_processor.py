from __future__ import annotations

import pytest

from mpiparallel.cluster import processor
from mpiparallel.cluster.processor import openblas_core_type, read_core_type, threads_per_rank

FLAGS = ("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd")


def cpuinfo(vendor: str, *flags: str) -> str:
    return f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: fpu {' '.join(flags)} avx2\nbugs\t\t: none\n\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (cpuinfo("AuthenticAMD", *FLAGS) * 2, "SkylakeX"),
        (cpuinfo("GenuineIntel", *FLAGS), None),
        (cpuinfo("AuthenticAMD"), None),
        (cpuinfo("AuthenticAMD", *FLAGS) + cpuinfo("AuthenticAMD"), None),
        ("CPU implementer\t: 0x41\nFeatures\t: fp asimd\n", None),
        ("vendor_id\t: AuthenticAMD\n", None),
        ("", None),
    ],
)
def test_core_type_is_set_only_for_amd_with_avx512(text: str, expected: str | None) -> None:
    assert openblas_core_type(text) == expected


@pytest.mark.parametrize("absent", FLAGS)
def test_core_type_needs_every_flag(absent: str) -> None:
    assert openblas_core_type(cpuinfo("AuthenticAMD", *(flag for flag in FLAGS if flag != absent))) is None


def test_core_type_of_the_user_wins() -> None:
    assert read_core_type({"OPENBLAS_CORETYPE": "Haswell"}) is None


@pytest.mark.parametrize(("cores", "ranks", "threads"), [(8, 1, 8), (8, 3, 2), (2, 2, 1), (2, 16, 1), (1, 1, 1)])
def test_ranks_share_the_cores_without_oversubscription(cores: int, ranks: int, threads: int) -> None:
    assert threads_per_rank(cores, ranks) == threads


def test_the_system_is_asked_where_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(processor, "openblas_core_type", lambda text: asked.append(text) or "Found")
    assert read_core_type({}) == "Found"
    assert read_core_type({"OPENBLAS_CORETYPE": ""}) is None
    # The frequency of a core may be another by now, its flags are not.
    assert ["processor" in text for text in asked] == [True]
