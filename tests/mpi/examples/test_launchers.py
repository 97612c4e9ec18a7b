"""What the launchers say to wrong arguments, and when asked for help."""

from __future__ import annotations

from pathlib import Path

import pytest

TABLE = Path(__file__).parents[3] / "rank_tables" / "rank_table_2pcs.json"


@pytest.mark.parametrize("name", ["run.sh", "run_cluster.sh"])
@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_help_tells_every_argument_and_starts_nothing(name, asked, launch, tmp_path) -> None:
    ended = launch(name, asked, python="/no/python")
    assert ended.returncode == 0
    assert not ended.stderr
    assert ended.stdout.startswith(f"usage: {name} DATA_PATH ")
    for word in ended.stdout.splitlines()[0].split("[")[0].split()[2:]:
        assert f"\n{word}" in ended.stdout, word
    assert not list(tmp_path.glob("device*"))


@pytest.mark.parametrize("name", ["run_grad_accu.sh", "run_gpu.sh", "recover.sh"])
@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_each_launcher_tells_its_usage(name, asked, launch) -> None:
    ended = launch(name, asked, python="/no/python")
    assert ended.returncode == 0
    assert not ended.stderr
    assert ended.stdout.startswith("usage: ")
    assert name in ended.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("run_gpu.sh", (), "DATA_PATH is needed"),
        ("recover.sh", (".", "2"), "CHECKPOINTS, RANKS and a script are needed"),
        ("recover.sh", ("none", "2", "train.py"), 'CHECKPOINTS "none" is no folder'),
        ("run.sh", (), "DATA_PATH and RANK_SIZE are needed"),
        ("run.sh", ("data",), "DATA_PATH and RANK_SIZE are needed"),
        ("run.sh", ("data", "two"), 'RANK_SIZE is "two"; give a whole number from 1'),
        ("run.sh", ("data", "0"), 'RANK_SIZE is "0"; give a whole number from 1'),
        ("run.sh", ("data", "-1"), 'RANK_SIZE is "-1"; give a whole number from 1'),
        ("run_cluster.sh", ("data", TABLE, "2"), "DATA_PATH, RANK_TABLE_FILE, RANK_SIZE and RANK_START are needed"),
        ("run_cluster.sh", ("data", TABLE, "x", "0"), 'RANK_SIZE is "x"; give a whole number from 1'),
        ("run_cluster.sh", ("data", TABLE, "2", "-1"), 'RANK_START is "-1"; give a whole number from 0'),
        ("run_cluster.sh", ("data", TABLE, "2", "2"), "RANK_START is 2, but RANK_SIZE is 2; give 0 to 1"),
        ("run_cluster.sh", ("data", "none.json", "2", "0"), 'RANK_TABLE_FILE "none.json" is no file'),
    ],
)
def test_wrong_arguments_are_refused_with_the_mend(name, words, message, launch) -> None:
    ended = launch(name, *words, python="/no/python")
    assert ended.returncode == 2
    assert not ended.stdout
    assert ended.stderr.startswith(f"{name}: {message}\nusage: ")


def test_on_the_other_hosts_of_a_cluster_there_is_nothing_to_start(launch) -> None:
    ended = launch("run_cluster.sh", "data", TABLE, "2", "1", python="/no/python")
    assert ended.returncode == 0
    assert "ranks from 1 on are started from the host of rank 0, with RANK_START 0" in ended.stdout


def test_a_rank_size_that_is_not_the_tables_is_refused(launch) -> None:
    ended = launch("run_cluster.sh", "data", TABLE, "4", "0")
    assert ended.returncode != 0
    assert "the rank table has 2 ranks, -n asks for 4" in ended.stderr


def test_a_rank_is_started_for_each_gpu(launch, tmp_path, monkeypatch) -> None:
    stand_in = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("RANK_SIZE", raising=False)
    stand_in.write_text('#!/bin/sh\necho "GPU 0: NVIDIA H100"\necho "GPU 1: NVIDIA H100"\n')
    stand_in.chmod(0o755)
    ended = launch("run_gpu.sh", "images", "--epochs", "1", python="echo")
    words = ended.stdout.split()
    assert words[:5] == ["-m", "mpiparallel", "run", "-n", "2"]
    assert words[6:] == ["--device_target", "GPU", "--epochs", "1"]
    stand_in.write_text("#!/bin/sh\nexit 9\n")
    ended = launch("run_gpu.sh", "images", python="echo")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("run_gpu.sh: nvidia-smi lists no GPU; ")


def test_recovery_rebuilds_shards_and_then_goes_on(launch, tmp_path) -> None:
    told = tmp_path / "told"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {told}\n[ "$3" != ckpt ] || exit 1\n')
    python.chmod(0o755)
    (tmp_path / "saved").mkdir()
    ended = launch("recover.sh", "saved", "4", "train.py", "-n", "1", python=python)
    assert ended.returncode == 0
    assert "the newest checkpoint cannot be rebuilt" in ended.stderr
    assert told.read_text().splitlines() == [
        "-m mpiparallel ckpt recover saved",
        "-m mpiparallel run -n 4 train.py -n 1",
    ]
