"""Every file that a command writes because its user named it: a regular one, with the mode of the umask, or none."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.launch.cli import main
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import save

TABLE = Path(__file__).parents[3] / "rank_tables" / "rank_table_8pcs.json"
COMMANDS = {
    "job.sh": ["slurm", "make", "-o"],
    "made.json": ["ranktable", "make", "--device-num", "2", "-o"],
    "merged.json": ["ranktable", "merge", str(TABLE), "-o"],
    "table.svg": ["ranktable", "show", str(TABLE), "--svg"],
    "stages.svg": ["show", "--pipeline", "1f1b", "--svg"],
    "held.svg": ["ckpt", "show", "saved", "--svg"],
    "table.npy": ["ckpt", "cat", "saved", "table", "-o"],
    "merged.h5": ["ckpt", "merge", "saved"],
    "whole.npz": ["ckpt", "export", "saved"],
    "plan.png": ["plan", "src.json", "-n", "8", "--picture"],
}


def wanted(name: str) -> list[str]:
    words = COMMANDS[name]
    if "--picture" in words and find_spec("matplotlib") is None:
        pytest.skip("needs matplotlib, of the extra plot")
    return [*words, name]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    save(folder / "saved")
    devices = DeviceMatrix((2, 4))
    write_strategy(folder / "src.json", StrategyRecord.of({"w": Layout((8, 8), devices, ((0,), (1,)))}, {}))
    return folder


@pytest.fixture(autouse=True)
def files(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    Path("kept").write_text("kept")


def device(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(path, 0o020600, os.makedev(1, 3))


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


THINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "device": (device, "it is a device"),
    "pipe": (os.mkfifo, "it is a pipe"),
    "socket": (bound, "it is a socket"),
    "folder": (Path.mkdir, "it is a folder"),
    "link": (lambda path: path.symlink_to("kept"), "it is a link"),
    "link to a device": (lambda path: path.symlink_to("/dev/null"), "it is a link"),
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_regular_file_is_refused_and_stays(
    name: str, thing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, reason = THINGS[thing]
    words = wanted(name)
    make(Path(name))
    before = Path(name).lstat()
    assert main(words) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "warning: " not in line]
    assert len(errors) == 1
    assert name in errors[0]
    assert reason in errors[0]
    after = Path(name).lstat()
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)
    assert Path("kept").read_text() == "kept"
    assert sorted(path.name for path in Path().iterdir()) == sorted(["kept", "saved", "src.json", name])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_is_replaced_by_one_with_the_mode_of_the_umask(name: str) -> None:
    words = wanted(name)
    Path(name).write_text("old")
    before = os.umask(0o027)
    try:
        assert main(words) == 0
    finally:
        os.umask(before)
    assert Path(name).read_bytes() != b"old"
    assert stat.S_IMODE(Path(name).stat().st_mode) == (0o750 if name == "job.sh" else 0o640)
