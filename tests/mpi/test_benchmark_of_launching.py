"""The benchmark of starting jobs, with two ranks and one round."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conformance import patience

pytestmark = pytest.mark.mpi


def test_both_ways_of_starting_are_timed_with_one_script(
    mpi_python: Path, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    program = pytestconfig.rootpath / "benchmarks" / "launch.py"
    ended = patience.run(
        [sys.executable, program, "--mpi", mpi_python, "--ranks", "2", "--rounds", "1", "--ways", "mpi4py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    environment, script, *figures = ended.stdout.splitlines()[-1].split()
    assert (environment, script) == (mpi_python.parent.parent.name, "mpi4py")
    bare, ours, _, ratio, bare_end, ours_end = map(float, figures)
    assert 0 < bare <= bare_end
    assert 0 < ours <= ours_end
    assert ratio == pytest.approx(ours / bare, rel=0.1)
