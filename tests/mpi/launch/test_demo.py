"""The demo from its command line to its files, and the example script, on real ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mpiparallel.launch.demo.picture import can_draw
from mpiparallel.launch.demo.report import DemoReport
from tests.conformance import patience

pytestmark = pytest.mark.mpi

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "translation" / "train.py"
OUTER = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "RANK_", "DEVICE_ID", "OPENBLAS_", "MPI_LOCAL", "GROUP_INFO_FILE")
SIZES = {"d_model": 16, "num_heads": 4, "batch_size": 6, "src_len": 5, "tgt_len": 6, "vocab_size": 50}
WORDS = ["--file_path=text", *(f"--{name}={size}" for name, size in SIZES.items())]
ENGLISH = ("the", "a", "dog", "cat", "house", "red", "old", "sees", "has", "likes", "never", "always")
FRENCH = ("le", "un", "chien", "chat", "maison", "rouge", "vieux", "voit", "a", "aime", "jamais", "toujours")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small parallel text, which is also where ``mpi_run`` starts its ranks."""
    lines = []
    for number in range(72):
        words = [(number * 5 + place * (number % 7 + 1)) % len(ENGLISH) for place in range(3 + number % 4)]
        lines.append("\t".join(" ".join(language[word] for word in words) for language in (ENGLISH, FRENCH)))
    (tmp_path / "text").write_text("\n".join(lines))
    return tmp_path


def mpiparallel(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
    return patience.run(
        [sys.executable, "-m", "mpiparallel", *words],
        cwd=folder,
        env=kept | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("cuts", "ranks", "survivors"),
    [
        pytest.param(["--dp=2", "--mp=4", "--target_mp=4"], 8, 4, id="8-to-4"),
        pytest.param(["--dp=1", "--mp=3", "--target_dp=2", "--target_mp=1"], 3, 2, id="3-to-2-uneven"),
    ],
)
def test_losses_before_and_after_the_move_are_those_of_one_rank(
    folder: Path, cuts: list[str], ranks: int, survivors: int
) -> None:
    lengths = ["--steps", "14", "--more_steps", "12", "--lr", "1e-3", "--dtype", "float64"]
    ended = mpiparallel(folder, "demo", "--dir", "results", *WORDS, *cuts, *lengths)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("OK") == 2
    moving = folder / "results" / f"{ranks}_ranks"
    report = DemoReport.load("float64", folder / "results" / "1_rank" / "report.json", moving / "report.json")
    assert max(report.differences) <= 1e-9
    assert report.losses[-1] < report.losses[0] - 0.1
    assert (report.before.ranks, report.after.ranks) == (ranks, survivors)
    assert report.bytes_moved > 0
    for rank in range(ranks):
        device = moving / f"device{rank}"
        assert (device / f"train.log{rank}").is_file()
        assert (device / "group_info.pb").stat().st_size > 0
        assert len(list((moving / "checkpoints" / f"rank_{rank}").glob("*.h5"))) == 1
    assert {"src_strategy.ckpt", "dst_strategy.ckpt"} <= {path.name for path in moving.iterdir()}
    assert (folder / "results" / "demo.svg").is_file() == can_draw()


def test_job_that_fails_ends_the_demo_with_its_error(folder: Path) -> None:
    (folder / "text").write_text("one text only\n")
    ended = mpiparallel(folder, "demo", "--dir", "results", *WORDS)
    assert ended.returncode == 1
    assert "text:1: 1 tab-separated texts" in ended.stderr
    assert "[2/3]" not in ended.stdout


def losses(output: str) -> list[float]:
    return [float(line.rpartition(" ")[2]) for line in output.splitlines() if "loss is" in line]


def test_example_runs_alone_under_the_launcher_and_under_bare_mpirun(folder: Path, mpi_run: Callable[..., str]) -> None:
    words = [*WORDS, "--epochs", "3", "--lr", "1e-3"]
    alone = losses(mpi_run(0, EXAMPLE, *words, "--checkpoints", "alone"))
    assert len(alone) == 3
    assert losses(mpi_run(4, EXAMPLE, *words, "--mp", "2", "--checkpoints", "bare")) == pytest.approx(alone, rel=2e-5)
    ended = mpiparallel(folder, "run", "-n", "4", str(EXAMPLE), *words, "--mp", "2", "--checkpoints", "launched")
    assert ended.returncode == 0, ended.stderr
    assert losses(ended.stdout) == pytest.approx(alone, rel=2e-5)
    for name, ranks in (("alone", 1), ("bare", 4), ("launched", 4)):
        assert len(list((folder / name).glob("rank_*/*.h5"))) == ranks
