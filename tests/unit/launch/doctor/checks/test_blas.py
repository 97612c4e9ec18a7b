"""What is told of NumPy's BLAS and of its threads, word by word."""

from __future__ import annotations

import json

import pytest
from threadpoolctl import threadpool_info

from mpiparallel.launch.doctor.checks.blas import find_blas, find_threads
from mpiparallel.launch.doctor.probes import blas
from tests.unit.launch.doctor.faked_machine import AVX512, FakedMachine, cpuinfo, told


def pool(**facts: object) -> dict[str, str]:
    known = {"internal_api": "openblas", "version": "0.3.31", "architecture": "Haswell", "num_threads": 2}
    return {"blas": f"echo '{json.dumps(known | facts)}'"}


FASTER = "mpiparallel run sets the faster SkylakeX, a bare mpirun does not"


@pytest.mark.parametrize(
    ("flags", "facts", "variables", "line"),
    [
        ("avx2", {}, {}, ("ok", "openblas 0.3.31 with its Haswell kernels", "")),
        (AVX512, {"architecture": "SkylakeX"}, {}, ("ok", "openblas 0.3.31 with its SkylakeX kernels", "")),
        (AVX512, {"internal_api": "mkl", "version": "2024.1", "architecture": None}, {}, ("ok", "mkl 2024.1", "")),
        (AVX512, {"internal_api": "blis", "version": None}, {}, ("ok", "blis with its Haswell kernels", "")),
        (
            AVX512,
            {},
            {},
            (
                "note",
                f"openblas 0.3.31 takes this processor for Haswell; {FASTER}",
                "export OPENBLAS_CORETYPE=SkylakeX",
            ),
        ),
        (
            AVX512,
            {},
            {"OPENBLAS_CORETYPE": "Haswell"},
            (
                "warning",
                "openblas 0.3.31 has Haswell kernels because of OPENBLAS_CORETYPE; those for SkylakeX are about twice "
                "as fast here",
                "unset OPENBLAS_CORETYPE",
            ),
        ),
    ],
)
def test_library_and_kernels_are_named(
    faked: FakedMachine, flags: str, facts: dict[str, object], variables: dict[str, str], line: tuple[str, ...]
) -> None:
    machine = faked(files={"proc/cpuinfo": cpuinfo(flags)}, probes=pool(**facts), variables=variables)
    assert told(find_blas(machine)) == [("BLAS", *line)]


def test_the_first_of_several_libraries_is_told(faked: FakedMachine) -> None:
    said = f"{pool()['blas']}; {pool(internal_api='mkl')['blas']}"
    assert told(find_blas(faked(probes={"blas": said}))) == [
        ("BLAS", "ok", "openblas 0.3.31 with its Haswell kernels", "")
    ]


CRASH = "a product of NumPy was ended by SIGILL"


@pytest.mark.parametrize(
    ("shell", "variables", "state", "what", "mend"),
    [
        ("kill -ILL $$", {"OPENBLAS_CORETYPE": "Zen"}, "error", f"{CRASH} under OPENBLAS_CORETYPE=Zen", "unset"),
        ("kill -ILL $$", {}, "error", CRASH, "pip"),
        ("exit 3", {"OPENBLAS_CORETYPE": "Zen"}, "error", "a product of NumPy ended with exit code 3", "pip"),
        (
            "true",
            {},
            "note",
            "NumPy uses a BLAS that threadpoolctl does not know; its threads stay as they are",
            "",
        ),
    ],
)
def test_a_product_that_fails_is_told_with_what_may_be_its_cause(
    faked: FakedMachine, shell: str, variables: dict[str, str], state: str, what: str, mend: str
) -> None:
    machine = faked(probes={"blas": shell}, variables=variables)
    mends = {
        "unset": "unset OPENBLAS_CORETYPE",
        "pip": f"{machine.python} -m pip install --force-reinstall numpy",
        "": "",
    }
    assert told(find_blas(machine)) == [("BLAS", state, what, mends[mend])]


WAIT = "; ranks then wait for each other's threads"
MORE = f"more than 2 for each of 2 ranks on 4 cores{WAIT}"


@pytest.mark.parametrize(
    ("variables", "ranks", "lines"),
    [
        ({}, 2, [("ok", "2 for each rank, set by mpiparallel run", "")]),
        ({"OMP_NUM_THREADS": ""}, 4, [("ok", "1 for each rank, set by mpiparallel run", "")]),
        ({"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "1"}, 2, [("ok", "MKL_NUM_THREADS=1, OMP_NUM_THREADS=2", "")]),
        ({"OMP_NUM_THREADS": "2, 8"}, 2, [("ok", "OMP_NUM_THREADS=2, 8", "")]),
        (
            {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "1"},
            2,
            [("warning", f"OMP_NUM_THREADS=3, {MORE}", "OMP_NUM_THREADS")],
        ),
        (
            {"OMP_NUM_THREADS": "99999"},
            2,
            [
                (
                    "warning",
                    f"OMP_NUM_THREADS=99999, more than 2 for each of 2 ranks on 4 cores{WAIT}",
                    "OMP_NUM_THREADS",
                )
            ],
        ),
        (
            {"OMP_NUM_THREADS": "100000"},
            2,
            [("error", "OMP_NUM_THREADS=100000: no number of threads", "OMP_NUM_THREADS")],
        ),
        ({"OMP_NUM_THREADS": "2,0"}, 2, [("error", "OMP_NUM_THREADS=2,0: no number of threads", "OMP_NUM_THREADS")]),
        (
            {"OPENBLAS_NUM_THREADS": "x" * 41, "MKL_NUM_THREADS": "-1", "OMP_NUM_THREADS": "4"},
            4,
            [
                (
                    "error",
                    f"MKL_NUM_THREADS=-1, OPENBLAS_NUM_THREADS={'x' * 40}: no number of threads",
                    "MKL_NUM_THREADS OPENBLAS_NUM_THREADS",
                ),
                (
                    "warning",
                    f"OMP_NUM_THREADS=4, more than 1 for each of 4 ranks on 4 cores{WAIT}",
                    "OMP_NUM_THREADS",
                ),
            ],
        ),
    ],
)
def test_numbers_of_threads_are_told_with_those_that_would_fit(
    faked: FakedMachine, variables: dict[str, str], ranks: int, lines: list[tuple[str, str, str]]
) -> None:
    machine = faked(variables=variables, ranks=ranks, cores=frozenset(range(4)))
    by_user = ", set by you" if any(variables.values()) else ""
    assert told(find_threads(machine)) == [
        ("threads", state, what + by_user * (state == "ok"), f"unset {names}" if names else "")
        for state, what, names in lines
    ]


def test_each_blas_that_is_loaded_is_named_by_its_probe(capsys: pytest.CaptureFixture[str]) -> None:
    blas.main()
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    loaded = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert [(one["internal_api"], one["version"]) for one in said] == [
        (pool["internal_api"], pool["version"]) for pool in loaded
    ]
    assert all(one["num_threads"] >= 1 for one in said)
    assert said
