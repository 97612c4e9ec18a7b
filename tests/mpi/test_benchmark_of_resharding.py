"""The benchmark of resharding with real ranks, on sizes that take no time; every result is compared with NumPy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conformance import patience

pytestmark = pytest.mark.mpi

# Peers that are in none of the environments of the tests.
_ABSENT = ("mpi4py-fft Transfer", "Heat resplit_", "DTensor redistribute", "DCP save+load")
_OURS = ("ours packed", "ours datatypes", "ours", "ours reshard()", "memcpy", "pack+Alltoallv", "HDF5 write+read")


def test_all_methods_move_every_case_on_two_ranks(
    mpi_python: Path, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    program, file = pytestconfig.rootpath / "benchmarks" / "reshard.py", tmp_path / "reports.json"
    arguments = ["--mpi", str(mpi_python), "--ranks", "2", "--shrink", "32", "--rounds", "1", "--json", str(file)]
    done = patience.run(
        [sys.executable, str(program), *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = json.loads(file.read_text(encoding="utf-8"))
    assert report["ranks"] == 2
    for name, case in report["cases"].items():
        assert set(_OURS) <= case["methods"].keys(), name
        assert all(numbers["min_ms"] > 0 for numbers in case["methods"].values())
        told = case["methods"].keys() | case["methods_left_out"].keys()
        assert told >= set(_ABSENT), name
        assert f"{name}: " in done.stdout
