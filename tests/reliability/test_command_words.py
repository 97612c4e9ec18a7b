"""Whatever stands on a command line and in the files that it names: a message or a result, and nothing else touched."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.maintenance.export import export
from mpiparallel.checkpoint.strategy.group_file import write_group_info
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.cluster.flight import format as layout
from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.launch import cli, run
from mpiparallel.launch.demo import command as demo
from mpiparallel.launch.doctor import consultation
from mpiparallel.launch.job.installation import Installation
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.watching.job_outcome import JobOutcome
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import LAYOUTS, save
from tests.reliability.child import exit_status
from tests.reliability.command_words import Try, copied, drawn, state_of
from tests.reliability.counts import count, record

ROOT = Path(__file__).parents[2]
TRIES = 2000
A_FORK = 50
# How long before it counts as a hang, on however busy a machine.
MOST_SECONDS = 300
# What changes files; the first argument of each is a path, of some the second too.
EVENTS = {
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"),
    *("os.chmod", "os.chown", "os.utime", "shutil.rmtree", "shutil.move"),
}
_TWO_PATHS = ("os.rename", "os.link", "shutil.move")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command lines name, in ``work``; beside it what none names."""
    folder = tmp_path_factory.mktemp("place")
    work, outside = folder / "work", folder / "outside"
    for made in (work / "saved", outside, folder / "tmp"):
        made.mkdir(parents=True)
    (outside / "kept").write_text("kept\n")
    for step in (76, 77):
        save(work / "saved", step)
    for suffix in ("h5", "ckpt", "safetensors", "npz"):
        export(work / "saved", work / f"state.{suffix}")
    wide = {name: layout for name, layout in LAYOUTS.items() if name != "table"}
    narrow = {name: Layout.replicated(layout.global_shape, DeviceMatrix((4,))) for name, layout in wide.items()}
    for name, layouts in (("src", wide), ("dst", narrow)):
        for suffix in ("json", "ckpt"):
            write_strategy(work / f"{name}.{suffix}", StrategyRecord.of(layouts, {}))
    write_group_info(work / "group_info.pb", [(0, 4), (0, 1, 2, 3)], (0, 4))
    for name, table in (("table", "rank_table_4pcs.json"), ("other", "rank_table_2pcs.json")):
        shutil.copy(ROOT / "rank_tables" / table, work / f"{name}.json")
    (work / "train.py").write_text("print(1)\n")
    (work / "hosts").write_text("localhost slots=4\nnode2 slots=4\n")
    (work / "hccn.conf").write_text("address_0=10.0.0.1\naddress_1=10.0.0.2\n")
    (work / "pairs.txt").write_text("one\tun\n")
    for rank in range(2):
        device = RankFolder(work / "logs", rank)
        device.path.mkdir(parents=True)
        recorder = FlightRecorder(device.flight, rank, 2)
        recorder.change_state(layout.RUNNING)
        recorder.enter(recorder.group(range(2)), recorder.text("all_reduce <f4 sum"), recorder.text("w"), 12)
        device.write_failure(Failure(rank, 1.0, "ValueError: no", "Traceback", 1))
    return folder


@pytest.mark.parametrize("first", range(0, count(TRIES, 100), A_FORK))
def test_a_changed_command_line_ends_in_words_and_touches_nothing_else(
    first: int, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith(("SLURM_", "PMI_", "PMIX_", "OMPI_", "RANK_", "MPIPARALLEL_")):
            monkeypatch.delenv(name)
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cli.sys, "dont_write_bytecode", True)
    _start_nothing(monkeypatch)
    findings = tmp_path / "findings"
    seeds = range(first, first + A_FORK)
    # The hook cannot be taken out again, so it is put into a fork.
    assert exit_status(lambda: _try_all(seeds, place, tmp_path, findings), MOST_SECONDS * 2) == 0
    told = [json.loads(line) for line in findings.read_text().splitlines()]
    assert [one for one in told if one["found"]] == []
    codes = Counter(one["code"] for one in told)
    assert set(codes) <= {0, 1, 2}, f"exit codes {codes}"
    assert sum(codes.values()) == A_FORK
    record("changed command line: all subcommands", tries=A_FORK, refused=codes[2], tracebacks=0, touched_outside=0)


def _start_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs end as soon as they would start, and other hosts be left alone."""
    installation = Installation("openmpi", "Open MPI v5", "mpirun")
    for module in (run, demo):
        monkeypatch.setattr(module, "find_installation", lambda *_: installation)
        monkeypatch.setattr(module, "supervise", lambda *_: JobOutcome(1, "the job was not started"))
    monkeypatch.setattr("mpiparallel.launch.slurm.make.mpi_library", lambda: "Open MPI v5")
    monkeypatch.setattr(consultation, "CHECKS", [check for check in consultation.CHECKS if "folders" in str(check)])
    monkeypatch.setattr(consultation, "examine_hosts", lambda *_: [])


def _try_all(seeds: range, place: Path, scratch: Path, findings: Path) -> None:
    guard = _Guard(scratch)
    sys.addaudithook(guard)
    signal.signal(signal.SIGALRM, _hang)
    with findings.open("w") as stream:
        for seed in seeds:
            folder = scratch / str(seed)
            copied(place, folder)
            one = drawn(seed, folder / "work")
            before = state_of(folder)
            code, problem = _ended(one, folder, guard)
            problem += "".join(_changed(one, before, state_of(folder), folder))
            told = f"{[word[:80] for word in one.words]} {one.variables} {one.damage}"
            stream.write(json.dumps({"seed": seed, "tried": told, "code": code, "found": problem[-3000:]}) + "\n")
            os.chdir(scratch)
            shutil.rmtree(folder)


def _ended(one: Try, folder: Path, guard: _Guard) -> tuple[object, str]:
    """Return the exit code of one try, and what was wrong with it, empty if nothing was."""
    former, problem, code = dict(os.environ), "", None
    tempfile.tempdir = str(folder / "tmp")
    os.environ.update({"TMPDIR": str(folder / "tmp")} | one.variables)
    with tempfile.TemporaryFile(dir=folder) as out:
        real = [os.dup(number) for number in (1, 2)]
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        sys.stdout, sys.stderr = _stream(1, "strict"), _stream(2, "backslashreplace")
        signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
        guard.is_on = True
        try:
            code = cli.main(one.words)
        except SystemExit as end:
            code = end.code
        except BaseException:
            problem = traceback.format_exc()
        finally:
            guard.is_on = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, descriptor in enumerate(real, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
            os.environ.clear()
            os.environ.update(former)
        out.seek(0)
        said = out.read().decode(errors="replace")
    if "Traceback (most" in said:
        problem += said
    if code == 2 and not said.strip():
        problem += "refused without a word"
    problem += "".join(guard.touched)
    guard.touched.clear()
    return code, problem


def _changed(one: Try, before: Any, after: Any, folder: Path) -> Iterator[str]:
    asked = one.asked()
    for path in before.keys() | after.keys():
        if before.get(path) == after.get(path) or path == folder / "work":
            continue
        if not any(path.is_relative_to(place) or place.is_relative_to(path) for place in asked):
            yield f"changed {path.relative_to(folder)}; "


def _stream(number: int, errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.FileIO(os.dup(number), "w"), "utf-8", errors, write_through=True)


def _hang(number: int, frame: Any) -> None:
    raise TimeoutError(f"it did not end within {MOST_SECONDS} s")


class _Guard:
    """Stops what would change a file outside of ``allowed``, and notes it, while it ``is_on``."""

    def __init__(self, allowed: Path) -> None:
        self.touched: list[str] = []
        self.is_on = False
        self._allowed = allowed.resolve()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event not in EVENTS and not (event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES):
            return
        names = arguments[1:2] if event == "os.symlink" else arguments[: 2 if event in _TWO_PATHS else 1]
        for name in names:
            if not isinstance(name, str | bytes | os.PathLike):
                continue
            path = Path(os.path.realpath(os.fsdecode(name)))
            if path != Path(os.devnull) and not path.is_relative_to(self._allowed):
                self.touched.append(f"{event} {path}; ")
                raise PermissionError(f"not allowed to touch {path}")
