"""Which MPI mpi4py loads, and that the launcher belongs to it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.installation import find_installation, vendor_of

pytestmark = pytest.mark.mpi

OTHER = {"openmpi": "mpich", "mpich": "openmpi"}
TEXTS = {"openmpi": "mpirun (Open MPI) 5.0.11", "mpich": "HYDRA build details:"}


def test_launcher_belongs_to_the_library() -> None:
    found = find_installation()
    assert vendor_of(found.library) == found.vendor
    assert "\0" not in found.library
    assert Path(found.launcher).is_file()
    assert find_installation(found.vendor) == found


def test_other_mpi_than_asked_is_refused() -> None:
    other = OTHER[find_installation().vendor]
    with pytest.raises(LaunchError, match=f"--mpi {other}: mpi4py of .* loads .*; leave --mpi out"):
        find_installation(other)


def test_launcher_of_another_mpi_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vendor = find_installation().vendor
    (tmp_path / "mpiexec").write_text(f"#!/bin/sh\necho '{TEXTS[OTHER[vendor]]}'\n")
    (tmp_path / "mpiexec").chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "absent"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match=f"{tmp_path}/mpiexec is .*; put the launcher of .* first in PATH"):
        find_installation()


def test_missing_launcher_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="no mpirun or mpiexec is found"):
        find_installation()
