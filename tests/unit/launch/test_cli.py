from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.cli import main
from mpiparallel.version import VERSION

SHIPPED = Path(__file__).parents[3] / "rank_tables"


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK_TABLE_FILE", raising=False)
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        monkeypatch.delenv(name, raising=False)
    Path("train.py").write_text("")


def test_starting_a_job_imports_neither_numpy_nor_mpi() -> None:
    program = (
        "import sys, mpiparallel.launch.cli, mpiparallel.launch.rank.worker\n"
        "print(sorted({'numpy', 'mpi4py', 'h5py', 'google.protobuf'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "[]\n"


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"mpiparallel {VERSION}\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["run", "-n", "0", "train.py"], '"0" is not a number of ranks'),
        (["run", "-n", "two", "train.py"], '"two" is not a number of ranks'),
        (["run", "-n", "2", "--timeout", "0", "train.py"], '"0" is not a time'),
        (["run", "-n", "2", "--timeout", "nan", "train.py"], '"nan" is not a time'),
        (["run", "-n", "2", "--mpi", "lam", "train.py"], "lam"),
    ],
)
def test_wrong_words_are_refused(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-n", "2"], "no script to run"),
        (["train.py"], "how many ranks?"),
        (["-n", "2", "absent.py"], 'script "absent.py" is not a file'),
        (["--rank-table", "absent.json", "train.py"], "absent.json: cannot be read"),
        (["--rank-table", str(SHIPPED / "rank_table_8pcs.json"), "-n", "4", "train.py"], "has 8 ranks, -n asks for 4"),
        (["-n", "2", "--hostfile", "absent", "train.py"], "absent: cannot be read"),
    ],
)
def test_job_that_cannot_be_is_refused_in_one_message(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("mpiparallel: error: ")
    assert reason in captured.err
    assert captured.out == ""


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(LaunchError):
        main(["--debug", "run", "-n", "2", "absent.py"])


def dry_run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["run", "--dry-run", "--mpi", "openmpi", *words]) == 0
    return capsys.readouterr().out


def test_dry_run_prints_the_command_and_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    printed = dry_run(capsys, "-n", "4", "train.py", "-n", "5", "--dry-run")
    assert "RANK_SIZE=4" in printed
    assert printed.endswith("train.py -n 5 --dry-run\n")
    assert [path.name for path in Path().iterdir()] == ["train.py"]


def test_module_runs_like_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert dry_run(capsys, "-n", "4", "-m", "package.train", "-m", "x").endswith(" -m package.train -m x\n")


def test_ranks_are_those_of_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = str(SHIPPED / "rank_table_16pcs.json")
    assert " -n 16 " in dry_run(capsys, "--rank-table", table, "train.py")
    monkeypatch.setenv("RANK_TABLE_FILE", table)
    assert f"RANK_TABLE_FILE={table}" in dry_run(capsys, "train.py")


def test_warnings_of_the_table_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    text = (SHIPPED / "rank_table_2pcs.json").read_text().replace('"device_id": "1"', '"device_id": "5"')
    Path("table.json").write_text(text)
    assert main(["run", "--dry-run", "--mpi", "mpich", "--rank-table", "table.json", "train.py"]) == 0
    assert (
        "mpiparallel: warning: table.json: server_list[0].device: devices 0, 5 are in both halves"
        in capsys.readouterr().err
    )
