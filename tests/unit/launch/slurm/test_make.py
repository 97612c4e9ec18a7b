"""What a batch script says of itself, asks of sbatch, and does with signals, by the options it is made with."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mpiparallel.launch.cli import main


def made(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["slurm", "make", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "title", "usage"),
    [
        ((), "Run a script on one node", "sbatch job.sh train.py --epochs 3"),
        (("--nodes", "3"), "Run a script on 3 nodes", "sbatch job.sh train.py --epochs 3"),
        (("--nodes", "2", "train.py", "-n", "2"), "Run a script on 2 nodes", "sbatch job.sh"),
        (
            ("--requeue", "-m", "package"),
            "Run a script on one node, and go on after a preemption or the loss of a node",
            "sbatch job.sh",
        ),
    ],
)
def test_it_begins_with_what_it_is_for_and_how_it_is_called(
    words: tuple[str, ...], title: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = made(capsys, *words).splitlines()
    assert lines[:4] == ["#!/bin/bash", f"# {title}:", f"#     {usage}", "#"]


def directives(text: str) -> list[str]:
    return re.findall(r"^#SBATCH --(.*)", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ((), []),
        (("--signal", "60"), ["signal=B:USR1@60"]),
        (("--requeue",), ["signal=B:USR1@120", "requeue", "open-mode=append"]),
        (("--requeue", "--signal", "9"), ["signal=B:USR1@9", "requeue", "open-mode=append"]),
        (("--cpus-per-task", "2"), ["cpus-per-task=2"]),
    ],
)
def test_sbatch_is_asked_for_one_task_and_for_what_is_given(
    words: tuple[str, ...], more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ["job-name=mpiparallel", "nodes=1", "ntasks-per-node=1", "output=%x-%j.out"]
    assert sorted(directives(made(capsys, *words))) == sorted([*usual, *more])


@pytest.mark.parametrize(
    ("words", "is_told", "comes_again"),
    [((), False, False), (("--signal", "60"), True, False), (("--requeue",), True, True)],
)
def test_only_a_job_that_is_told_in_time_waits_for_the_signal_and_only_one_that_comes_again_is_requeued(
    words: tuple[str, ...], is_told: bool, comes_again: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    text = made(capsys, *words, "train.py")
    assert ('exec "${job[@]}"' in text, "trap 'told=1;" in text, 'exit "$code"' in text) == (
        not is_told,
        is_told,
        is_told,
    )
    assert ("scontrol requeue" in text, "srun --mpi=none true" in text) == (comes_again, comes_again)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("train.py", "a b"), '"${PYTHON:-python}" -m mpiparallel run --log-dir "$logs" train.py \'a b\''),
        (("-m", "package", "--x"), '"${PYTHON:-python}" -m mpiparallel run --log-dir "$logs" -m package --x'),
        ((), '"${PYTHON:-python}" -m mpiparallel run --log-dir "$logs" "$@"'),
        (
            ("--python", "/opt/py/bin/python3"),
            '"${PYTHON:-/opt/py/bin/python3}" -m mpiparallel run --log-dir "$logs" "$@"',
        ),
    ],
)
def test_the_program_is_run_by_the_python_of_every_node(
    words: tuple[str, ...], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = made(capsys, *words)
    assert f"job=({command})\n" in text
    assert ("usage: sbatch [options of sbatch] job.sh script.py" in text) == (command.endswith('"$@"'))


@pytest.mark.parametrize("launcher", ["run", "pmix", "pmi2"])
def test_the_launcher_that_is_asked_for_is_the_usual_one(launcher: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = made(capsys, "--launcher", launcher, "train.py")
    assert f"\nlauncher=${{MPIPARALLEL_LAUNCHER:-{launcher}}}\n" in text
    assert f"(default: {launcher}). $PYTHON is the Python to use" in text
    assert 'give run, pmix or pmi2" >&2\n    exit 2\n' in text


@pytest.mark.parametrize(
    ("option", "value"),
    [("--job-name", ""), ("--time", "1;2"), ("--partition", "a b"), ("--python", "$(x)"), ("--account", "\u00e4")],
)
def test_a_value_that_the_shell_would_read_as_more_is_refused_by_its_option(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["slurm", "make", option, value]) == 2
    told = f'mpiparallel: error: {option} "{value}": has characters that no such value of sbatch has\n'
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("library", "launcher"), [("Open MPI v5.0.11, package: Open MPI", "pmix"), ("MPICH Version:   5.0.2", "pmi2")]
)
def test_srun_starts_each_mpi_by_the_way_that_it_knows(
    library: str, launcher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{library}'\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert f"launcher=${{MPIPARALLEL_LAUNCHER:-{launcher}}}\n" in made(capsys, "--launcher", "srun", "train.py")


def test_a_script_that_goes_to_a_file_is_not_printed_and_is_called_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.sh"
    assert made(capsys, "-o", str(path)) == ""
    text = path.read_text()
    assert "#     sbatch net.sh train.py --epochs 3\n" in text
    assert 'echo "usage: sbatch [options of sbatch] net.sh script.py [arguments of the script]" >&2\n' in text
    # All is as it would be printed, but for the name.
    assert text == made(capsys).replace("job.sh", "net.sh")
