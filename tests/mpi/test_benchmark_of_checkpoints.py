"""The benchmark of checkpoints with real ranks, on sizes that take no time; all that is loaded is compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conformance import patience

pytestmark = pytest.mark.mpi


def test_what_two_ranks_save_is_loaded_as_columns_and_beside_training(
    mpi_python: Path, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    program, file = pytestconfig.rootpath / "benchmarks" / "checkpoint.py", tmp_path / "reports.json"
    arguments = ["--kinds", "save", "load", "asynchronous", "--states", "transformer", "--cases", "columns"]
    arguments += [
        "--ranks",
        "2",
        "--megabytes",
        "4",
        "--rounds",
        "1",
        "--torch",
        "/no/python",
        "--mpi",
        str(mpi_python),
    ]
    done = patience.run(
        [sys.executable, str(program), *arguments, "--folder", str(tmp_path), "--json", str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reports = json.loads(file.read_text(encoding="utf-8"))
    kinds = [(report["kind"], report["source"]) for report in reports]
    assert kinds == [("save", "rows"), ("load", "rows"), ("save", "whole"), ("asynchronous", "rows")]
    for report in reports[:3]:
        assert {"raw", "ours"} <= report["methods"].keys()
        assert "/no/python" in report["methods_left_out"]["PyTorch DCP"]
    for report in reports:
        assert all(numbers["min_ms"] > 0 for numbers in report["methods"].values())
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
