"""``mpiparallel ckpt`` as a whole: hostile folders, what is imported, help, terminals."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.launch.ckpt.command import SUBCOMMANDS
from mpiparallel.launch.cli import main
from mpiparallel.launch.command_line import progress
from tests.conformance import patience

Run = Callable[..., tuple[int, str, str]]
Parsed = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    "words",
    [
        ["cat", "saved", "w", "--box", "3"],
        ["cat", "saved", "w", "--box", "-1:2"],
        ["prune", "saved", "--keep", "0"],
        ["prune", "saved", "--keep", "-1"],
        ["transform", "saved", "new", "--ranks", "0"],
        ["fly"],
        [],
    ],
)
def test_wrong_words_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ckpt", *words])
    assert ended.value.code == 2
    assert "usage: mpiparallel ckpt" in capsys.readouterr().err


def hostile(folder: Path) -> list[Path]:
    """Make folders that pretend to be checkpoints."""
    made = []

    def fake(name: str, change: Callable[[Path], object]) -> None:
        target = folder / name
        shutil.copytree("saved", target)
        change(target)
        made.append(target)

    manifest = "net-1_77.manifest.json"
    fake("cut", lambda path: (path / manifest).write_bytes((path / manifest).read_bytes()[:100]))
    fake("array", lambda path: (path / manifest).write_text("[]"))
    fake("deep", lambda path: (path / manifest).write_text("[" * 100_000))
    fake("linked", lambda path: ((path / manifest).unlink(), (path / manifest).symlink_to("/dev/zero")))
    fake(
        "shard",
        lambda path: [
            (path / f"rank_{rank}" / "net-1_77.h5").write_bytes(b"\x89HDF\r\n\x1a\n" * 999) for rank in range(8)
        ],
    )
    fake("folder", lambda path: (shutil.rmtree(path / "rank_0"), (path / "rank_0").symlink_to("/")))
    return made


@pytest.mark.parametrize(
    "subcommand", ["ls", "show", "verify", "diff", "cat", "transform", "merge", "export", "recover", "prune"]
)
def test_hostile_folders_end_in_a_message(run: Run, tmp_path: Path, subcommand: str) -> None:
    assert set(SUBCOMMANDS) == {
        "ls",
        "show",
        "verify",
        "diff",
        "cat",
        "transform",
        "merge",
        "export",
        "recover",
        "prune",
    }
    (tmp_path / "hostile").mkdir()
    for folder in hostile(tmp_path / "hostile"):
        more = {
            "diff": ["saved"],
            "cat": ["net.w"],
            "transform": [str(folder / "new"), "--ranks", "2"],
            "merge": ["all.h5"],
            "export": ["all.npz"],
            "prune": ["--keep", "1", "--dry-run"],
        }
        for name in (folder, folder / "net-1_77"):
            code, out, err = run(subcommand, str(name), *more.get(subcommand, []))
            assert code in (0, 1, 2)
            assert (code == 2) == err.startswith("mpiparallel: error: ")
            assert bool(out) == (code != 2)


def test_neither_mpi_nor_a_gpu_is_touched() -> None:
    Path("saved/rank_0/net-1_77.h5").unlink()
    commands = {
        "ls saved": 0,
        "show saved --svg a.svg": 0,
        "verify saved": 1,
        "diff saved saved/net-1_76": 1,
        "cat saved net.w": 0,
        "merge saved a.h5": 0,
        "export saved a.safetensors": 0,
        "recover saved": 0,
        "prune saved --keep 1": 0,
        "transform saved new --ranks 2": 0,
    }
    assert {words.split()[0] for words in commands} == set(SUBCOMMANDS)
    program = (
        "import sys; from mpiparallel.launch.cli import main\n"
        "for words in sys.argv[1:]:\n"
        "    code = main(['ckpt', *words.split()])\n"
        "    print(code, *sorted({'mpi4py', 'cupy', 'numba'} & set(sys.modules)), file=sys.stderr)"
    )
    ended = patience.run([sys.executable, "-c", program, *commands], capture_output=True, text=True, check=True)
    assert ended.stderr.splitlines() == [str(code) for code in commands.values()]


def test_listing_loads_no_hdf5_and_no_protobuf() -> None:
    program = "import sys; from mpiparallel.launch.cli import main; main(['ckpt', 'ls', 'saved']); print(*sys.modules)"
    ended = patience.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"h5py", "google.protobuf"} & set(ended.stdout.split())


def test_help_names_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ckpt", "--help"])
    out = capsys.readouterr().out
    for name in SUBCOMMANDS:
        assert f"\n    {name}" in out
    for name in SUBCOMMANDS:
        with pytest.raises(SystemExit):
            main(["ckpt", name, "--help"])
        assert "--json" in capsys.readouterr().out


def test_a_terminal_without_unicode_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["ckpt", "show", "saved"]) == 0
    sys.stdout.flush()
    text = raw.getvalue().decode("ascii")
    assert "`-- table" in text
    assert "|-- net" in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("with_rich", [True, False])
def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, with_rich: bool) -> None:
    if with_rich:
        pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "find_spec", lambda _: with_rich or None)
    with progress.progress_bar("verify") as told:
        assert told is not None
        told(500, 1000)
    text = terminal.getvalue()
    assert "verify" in text
    if not with_rich:
        assert "verify ..." in text
        assert "verify  50% of 1.00 kB" in text
        assert text.endswith("\r")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.progress_bar("verify") as told:
        assert told is None


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("words", [["ls", "saved"], ["ls", "saved", "--json"]])
def test_a_reader_that_has_seen_enough_ends_it_in_silence(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Gone())
    assert main(["ckpt", *words]) == 0
    assert capsys.readouterr().err == ""


def test_on_a_terminal_it_is_shown_how_much_of_a_tensor_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    assert main(["ckpt", "cat", "saved", "table", "-o", "table.npy"]) == 0
    # It is 96 x 512 numbers of 2 bytes, which are written at once.
    assert "cat table 100% of 98.3 kB" in terminal.getvalue()


def test_a_line_of_progress_is_not_drawn_more_often_than_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, now = Terminal(), [100.0]
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with progress.progress_bar("verify") as told:
        assert told is not None
        for moment, done in ((100.0, 10), (100.01, 20), (100.05, 30), (101.0, 40)):
            now[0] = moment
            told(done, 100)
    assert re.findall(r"(\d+)%", terminal.getvalue()) == ["10", "40"]
