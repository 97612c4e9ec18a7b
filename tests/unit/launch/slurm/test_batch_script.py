from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mpiparallel.launch.cli import main
from tests.conformance import patience

LAUNCHERS = Path(__file__).parents[4] / "launchers"
SHIPPED = {
    "slurm_single_node.sh": ("--nodes", "1", "--ntasks-per-node", "8"),
    "slurm_multi_node.sh": ("--nodes", "2", "--ntasks-per-node", "8"),
    "slurm_requeue.sh": ("--nodes", "2", "--ntasks-per-node", "8", "--time", "04:00:00", "--requeue"),
}


def made(path: Path, *words: str) -> str:
    assert main(["slurm", "make", "-o", str(path), *words]) == 0
    return path.read_text()


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_scripts_are_those_that_it_makes(name: str, tmp_path: Path) -> None:
    assert made(tmp_path / name, *SHIPPED[name]) == (LAUNCHERS / name).read_text()


def test_no_other_script_for_slurm_is_shipped() -> None:
    assert {path.name for path in LAUNCHERS.glob("*.sh") if "#SBATCH" in path.read_text()} == set(SHIPPED)


@pytest.mark.parametrize("words", [*SHIPPED.values(), ("--signal", "60", "--", "train.py", "a b", "$c", "'d'")])
def test_the_shell_can_read_it(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    text = made(path, *words)
    subprocess.run(["bash", "-n", path], check=True)
    assert path.stat().st_mode & 0o111
    assert max(map(len, text.splitlines())) <= 120


def test_sbatch_is_told_what_was_asked_for(tmp_path: Path) -> None:
    words = "--job-name net --partition gpu --account me --nodes 3 --ntasks-per-node 4 --cpus-per-task 2"
    more = "--gpus-per-node a100:4 --time 1-12:00:00 --signal 300 --requeue train.py"
    text = made(tmp_path / "job.sh", *words.split(), *more.split())
    assert re.findall(r"^#SBATCH --(.*)", text, re.MULTILINE) == [
        "job-name=net",
        "partition=gpu",
        "account=me",
        "nodes=3",
        "ntasks-per-node=4",
        "cpus-per-task=2",
        "gpus-per-node=a100:4",
        "time=1-12:00:00",
        "output=%x-%j.out",
        "signal=B:USR1@300",
        "requeue",
        "open-mode=append",
    ]


def ran(path: Path, *words: str, folder: Path, code: int = 0, **variables: str) -> tuple[int, list[str]]:
    """Run a batch script with stand-ins for Python, srun and scontrol; return its code and what those were told."""
    told = folder / "told"
    for name, ends in (("python", code), ("srun", code), ("scontrol", 0)):
        command = f'#!/bin/sh\nprintf "%s\\n" "{name}" "$@" >> {told}\nexit {ends}\n'
        (folder / name).write_text(command)
        (folder / name).chmod(0o755)
    environment = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "net", "SLURM_JOB_NUM_NODES": "2"}
    path_variable = {"PATH": f"{folder}:/usr/bin:/bin"}
    ended = patience.run(["bash", path, *words], env=environment | path_variable | variables, cwd=folder)
    return ended.returncode, told.read_text().splitlines() if told.exists() else []


RUN = ["-m", "mpiparallel", "run", "--log-dir", "net-7.0"]


def test_the_program_gets_its_arguments_as_they_were_given(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    made(path, "--", "train.py", "a b", "$c", "'d'")
    assert ran(path, folder=tmp_path) == (0, ["python", *RUN, "train.py", "a b", "$c", "'d'"])


def test_a_shipped_script_takes_them_from_sbatch(tmp_path: Path) -> None:
    path = LAUNCHERS / "slurm_multi_node.sh"
    assert ran(path, "train.py", "a b", folder=tmp_path) == (0, ["python", *RUN, "train.py", "a b"])
    assert ran(path, folder=tmp_path)[0] == 2


@pytest.mark.parametrize("pmi", ["pmix", "pmi2"])
def test_srun_starts_the_ranks_where_it_is_asked_to(pmi: str, tmp_path: Path) -> None:
    told = ["srun", f"--mpi={pmi}", "--kill-on-bad-exit=1", "python", *RUN, "train.py"]
    path = LAUNCHERS / "slurm_single_node.sh"
    assert ran(path, "train.py", folder=tmp_path, MPIPARALLEL_LAUNCHER=pmi) == (0, told)
    made(tmp_path / "job.sh", "--launcher", pmi, "train.py")
    (tmp_path / "told").unlink()
    assert ran(tmp_path / "job.sh", folder=tmp_path) == (0, told)


def test_an_unknown_launcher_is_refused(tmp_path: Path) -> None:
    path = LAUNCHERS / "slurm_single_node.sh"
    assert ran(path, "train.py", folder=tmp_path, MPIPARALLEL_LAUNCHER="mpirun") == (2, [])


def test_logs_of_a_requeued_job_do_not_replace_those_before(tmp_path: Path) -> None:
    told = ran(LAUNCHERS / "slurm_requeue.sh", "train.py", folder=tmp_path, SLURM_RESTART_COUNT="2")[1]
    assert "net-7.2" in told


def test_no_step_of_a_requeued_job_has_the_number_of_one_that_a_crashed_node_may_remember(tmp_path: Path) -> None:
    path = LAUNCHERS / "slurm_requeue.sh"
    variables = {"MPIPARALLEL_LAUNCHER": "pmix", "SLURM_RESTART_COUNT": "2"}
    told = ran(path, "train.py", folder=tmp_path, **variables)[1]
    assert told[:7] == ["srun", "--mpi=none", "true", "srun", "--mpi=none", "true", "srun"]
    assert told[7] == "--mpi=pmix"


@pytest.mark.parametrize(("code", "is_requeued"), [(0, False), (85, True)])
def test_a_preempted_job_is_requeued_and_a_completed_one_is_not(code: int, is_requeued: bool, tmp_path: Path) -> None:
    ended, told = ran(LAUNCHERS / "slurm_requeue.sh", "train.py", folder=tmp_path, code=code)
    assert ended == code
    assert (told[-3:] == ["scontrol", "requeue", "7"]) == is_requeued


def test_a_job_that_fails_is_requeued_only_where_a_node_does_not_answer(tmp_path: Path) -> None:
    path = LAUNCHERS / "slurm_requeue.sh"
    # The stand-in of srun fails like the stand-in of Python.
    ended, told = ran(path, "train.py", folder=tmp_path, code=1)
    assert (ended, told[-3:]) == (1, ["scontrol", "requeue", "7"])
    assert "--overlap" in told
    (tmp_path / "told").unlink()
    path = tmp_path / "answering.sh"
    path.write_text((LAUNCHERS / "slurm_requeue.sh").read_text().replace("timeout 60 srun", "timeout 60 true"))
    assert ran(path, "train.py", folder=tmp_path, code=1) == (1, ["python", *RUN, "train.py"])


def test_the_signal_is_handed_on_and_the_code_is_that_of_the_job(tmp_path: Path) -> None:
    made(tmp_path / "job.sh", "--signal", "60", "train.py")
    (tmp_path / "python").write_text(
        "#!/bin/bash\ntrap 'sleep 0.3; exit 85' USR1\nkill -USR1 $PPID\nwhile :; do sleep 0.01; done\n"
    )
    (tmp_path / "python").chmod(0o755)
    environment = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "net", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    ended = patience.run(["bash", tmp_path / "job.sh"], env=environment, cwd=tmp_path)
    assert ended.returncode == 85


@pytest.mark.parametrize("heeds", [True, False])
def test_a_signal_that_comes_before_the_job_can_heed_it_requeues_it(heeds: bool, tmp_path: Path) -> None:
    (tmp_path / "job").write_text("#!/bin/bash\n" + ("trap 'exit 85' USR1\nsleep 0.5\n" if heeds else "sleep 60\n"))
    (tmp_path / "job").chmod(0o755)
    text = (LAUNCHERS / "slurm_requeue.sh").read_text()
    early = text.replace("set -u\n", "set -u\nkill -USR1 $$\n").replace("pid=$!\n", "pid=$!; sleep 0.3\n")
    (tmp_path / "early.sh").write_text(early)
    ended, told = ran(tmp_path / "early.sh", "train.py", folder=tmp_path, PYTHON=str(tmp_path / "job"))
    assert (ended, told[-3:]) == (85 if heeds else 138, ["scontrol", "requeue", "7"])


def test_text_that_would_be_shell_code_is_refused(tmp_path: Path, capsys) -> None:
    assert main(["slurm", "make", "-o", str(tmp_path / "x"), "--job-name", "a;b"]) == 2
    assert '--job-name "a;b": has characters that no such value of sbatch has' in capsys.readouterr().err
    assert main(["slurm", "make", "-o", str(tmp_path / "none" / "x")]) == 2
    assert "No such file or directory; give a file that can be written" in capsys.readouterr().err


def test_as_json_the_text_is_told_with_the_file_that_has_it(tmp_path: Path, capsys) -> None:
    text = made(tmp_path / "job.sh", "train.py")
    capsys.readouterr()
    assert main(["slurm", "make", "--json", "-o", str(tmp_path / "job.sh"), "train.py"]) == 0
    assert json.loads(capsys.readouterr().out) == {"output": str(tmp_path / "job.sh"), "text": text}
    assert main(["slurm", "make", "--json", "train.py"]) == 0
    assert json.loads(capsys.readouterr().out)["output"] is None


def test_an_mpi_that_srun_is_not_known_to_start_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Intel(R) MPI Library 2021.9'\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert main(["slurm", "make", "--launcher", "srun", "train.py"]) == 2
    said = r"loads Intel.* 2021\.9, whose way under srun is not known; give pmix or pmi2"
    assert re.search(said, capsys.readouterr().err)
