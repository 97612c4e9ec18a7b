"""The demo from end to end, with threads for ranks: what its jobs do and write, and what its command says."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import config
from mpiparallel.launch.cli import main
from mpiparallel.launch.demo import command, job
from mpiparallel.launch.demo.report import DemoReport
from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.installation import Installation
from mpiparallel.launch.job.mpirun_command import MpirunCommand
from mpiparallel.launch.watching.job_outcome import JobOutcome

JOB = "mpiparallel.launch.demo.job"
SIZES = {
    "batch_size": 4,
    "src_len": 4,
    "tgt_len": 4,
    "vocab_size": 20,
    "d_model": 8,
    "num_heads": 2,
    "steps": 3,
    "more_steps": 2,
    "dtype": "float64",
}
CUTS = {"dp": 2, "mp": 2, "target_dp": 1, "target_mp": 2}
OTHER_CUTS = {"dp": 2, "mp": 2, "target_dp": 2, "target_mp": 1}
TEXT = "".join(f"word {one} and {two}\tmot {one} et {two}\n" for one in "abcd" for two in "efg")


class Variables:
    """An environment of each thread's own: processes have theirs."""

    def __init__(self) -> None:
        self._own = threading.local()
        self.set: list[tuple[str, str]] = []
        self.removed: list[str] = []

    def __setitem__(self, name: str, value: str) -> None:
        setattr(self._own, name, value)
        self.set.append((name, value))

    def __delitem__(self, name: str) -> None:
        delattr(self._own, name)
        self.removed.append(name)


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Variables]:
    (tmp_path / "text").write_text(TEXT)
    made = Variables()
    before = config.get_prefetch_size()
    monkeypatch.setattr(job, "os", SimpleNamespace(environ=made))
    yield made
    config.set_prefetch_size(before)


def options(**given: object) -> list[str]:
    return [f"--{name}={value}" for name, value in given.items()]


def reports(folder: Path, ranks: int, **changes: int) -> list[dict[str, Any]]:
    words = options(out=folder, file_path=folder / "text", **SIZES | changes)

    def program(communicator: Communicator) -> dict[str, Any]:
        return job.run(job.make_parser().parse_args(words))

    return run_world(ranks, program)


def covered(boxes: Sequence[Any], shape: Sequence[int]) -> set[int]:
    """Return how many ranks hold an element, for all elements."""
    held = np.zeros(shape, int)
    for start, stop in boxes:
        held[tuple(map(slice, start, stop))] += 1
    return set(held.flat)


def check_files(folder: Path, variables: Variables) -> None:
    """See to it that four ranks have left shards, strategies and names for the files of their groups."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    shards = [f"checkpoints/rank_{rank}/translation-1_3.h5" for rank in range(4)]
    assert [name for name in names if name.endswith(".h5")] == shards
    assert {"src_strategy.ckpt", "dst_strategy.ckpt", "checkpoints/translation-1_3.manifest.json"} <= set(names)
    files = [("GROUP_INFO_FILE", f"{folder}/device{rank}/group_info.pb") for rank in range(4)]
    assert sorted(variables.set) == files
    assert variables.removed == ["GROUP_INFO_FILE"] * 4
    assert all((folder / f"device{rank}").is_dir() for rank in range(4))


def test_four_ranks_save_move_to_two_and_go_on_with_the_losses_of_one_rank(
    tmp_path: Path, variables: Variables, capsys: pytest.CaptureFixture[str]
) -> None:
    (alone,) = reports(tmp_path, 1)
    assert list(tmp_path.iterdir()) == [tmp_path / "text"]
    assert (variables.set, capsys.readouterr().out.splitlines()[0]) == (
        [],
        f"12 English-French pairs of {tmp_path}/text: 3 batches an epoch",
    )
    # The launcher has put logs there.
    (tmp_path / "device1").mkdir()
    moving, second, *waiting = reports(tmp_path, 4, **CUTS)
    said = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("epoch")]
    assert said[1] == f"saved 4 shards in {tmp_path}/checkpoints"
    assert said[2] == f"moved 0.0 MB in {moving['reshard_seconds']:.2f} s; 2 ranks go on"
    assert len(said) == 3
    (whole,) = alone["phases"]
    before, after = moving["phases"]
    assert (whole["first_step"], before["first_step"], after["first_step"]) == (1, 1, 4)
    assert [len(phase["losses"]) for phase in (whole, before, after)] == [5, 3, 2]
    np.testing.assert_allclose([*before["losses"], *after["losses"]], whole["losses"], rtol=1e-9, atol=0)
    told = [
        (phase["ranks"], phase["data_parallel"], phase["model_parallel"], phase["optimizer_parallel"])
        for phase in (whole, before, after)
    ]
    assert told == [(1, 1, 1, False), (4, 2, 2, True), (2, 1, 2, False)]
    assert all(phase["seconds_per_step"] > 0 for phase in (whole, before, after))
    assert second["phases"][1]["losses"] == after["losses"]
    assert [(one["phases"][1]["losses"], "slices" in one) for one in waiting] == [([], False)] * 2
    assert moving["bytes_moved"] > 0
    assert moving["bytes_kept"] > 0
    for slices in moving["slices"]:
        assert (len(slices["before"]), len(slices["after"])) == (4, 2)
        assert all(len(covered(slices[when], slices["shape"]) - {0}) == 1 for when in ("before", "after"))
        assert 0 not in covered(slices["before"], slices["shape"])
    # A matrix that is cut most comes first, of those alike the largest.
    parts = [(len(set(slices["before"])), len(set(slices["after"]))) for slices in moving["slices"]]
    assert parts == [(4, 2), (4, 2), (1, 1)]
    assert moving["slices"][0]["shape"] == (20, 8)
    check_files(tmp_path, variables)


def test_two_ranks_cut_the_optimizer_too(tmp_path: Path, variables: Variables) -> None:
    for report in reports(tmp_path, 2, dp=2, steps=1, more_steps=1):
        (phase,) = report["phases"]
        assert (phase["ranks"], phase["optimizer_parallel"], len(phase["losses"])) == (2, True, 2)


@pytest.mark.parametrize(
    ("moments", "seconds"), [([], 0.0), ([5.0], 0.0), ([5.0, 7.0], 2.0), ([1.0, 3.0, 4.0, 10.0], 3.0)]
)
def test_the_first_step_counts_for_nothing_in_the_time_of_a_step(
    moments: list[float], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(moments)
    stopped: list[int] = []
    monkeypatch.setattr(job, "time", SimpleNamespace(perf_counter=lambda: next(left)))
    recorder = job._Recorder(3)
    for step in range(1, len(moments) + 1):
        run_context: Any = SimpleNamespace(
            original_args=lambda step=step: SimpleNamespace(net_outputs=np.float32(step), cur_step_num=step),
            request_stop=lambda step=step: stopped.append(step),
        )
        recorder.step_end(run_context)
    assert recorder.seconds_per_step == seconds
    assert recorder.losses == list(range(1, len(moments) + 1))
    assert stopped == list(range(3, len(moments) + 1))


def test_what_is_said_stands_before_what_the_ranks_print_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_first_rank(words: str) -> None:
        run_world(1, lambda communicator: job._say(words))

    for say in (by_first_rank, command._say):
        printed = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed))
        say("words")
        assert printed.getvalue() == b"words\n"


def made_up(ranks: int) -> dict[str, Any]:
    """Return the report of a job on so many ranks that has run in no time."""
    losses = [5.0, 4.0, 3.0, 2.0, 1.0]
    cut = {"data_parallel": 1, "model_parallel": ranks, "optimizer_parallel": ranks > 1, "seconds_per_step": 0.5}
    steps = ((1, losses[:3]), (4, losses[3:])) if ranks > 1 else ((1, losses),)
    moved = {"bytes_moved": 1, "bytes_kept": 2, "reshard_seconds": 0.25, "slices": []}
    return {"phases": [{"ranks": ranks, "first_step": first, "losses": part, **cut} for first, part in steps], **moved}


class Jobs:
    """Takes the place of mpirun: runs the demo's jobs with threads, or ends with the codes that a test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.codes: list[int] = [0, 0]
        self.run = True
        self.started: list[tuple[int, list[str], Mapping[str, str]]] = []
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(command, "find_installation", lambda: Installation("openmpi", "Open MPI 5", "mpirun"))
        monkeypatch.setattr(command, "check_host", lambda *_: [])
        monkeypatch.setattr(command, "can_draw", lambda: False)
        monkeypatch.setattr(command, "_cores", lambda: 8)
        monkeypatch.setattr(command, "supervise", self.supervise)

    def supervise(self, built: MpirunCommand, ranks: int, folder: Path, console: Console) -> JobOutcome:
        words = list(built.argv[built.argv.index(JOB) + 1 :])
        self.started.append((ranks, words, built.environment))
        assert not (folder / "report.json").exists()
        code = self.codes.pop(0)
        if code:
            return JobOutcome(code, "rank 1 died")
        folder.mkdir(parents=True, exist_ok=True)
        if self.run:
            self._monkeypatch.setattr(sys, "argv", [JOB, *words])
            run_world(ranks, lambda communicator: job.main())
        else:
            (folder / "report.json").write_text(json.dumps(made_up(ranks)))
        return JobOutcome(0)


@pytest.fixture
def jobs(variables: Variables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    return Jobs(monkeypatch)


def demo(*words: str) -> int:
    return main(["demo", "--dir", "found", *options(file_path="text", **SIZES, **OTHER_CUTS), *words])


def test_the_demo_compares_both_jobs_and_tells_where_all_is(
    jobs: Jobs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("demo.svg", "demo.png", "report.json"):
        (tmp_path / "found" / "1_rank").mkdir(parents=True, exist_ok=True)
        (tmp_path / "found" / ("1_rank/" * (name == "report.json") + name)).write_text("of an earlier run")
    assert demo() == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert captured.err == ""
    assert lines[:3] == [
        "mpiparallel demo: Open MPI 5, 8 cores; results in found/",
        "",
        "[1/3] 1 rank: the same program, uncut, 5 steps",
    ]
    second = lines.index("[2/3] 4 ranks, dp2 x mp2 and parallel optimizer: 3 steps, save shards,")
    assert lines[second + 1] == "      move the state live to 2 ranks, dp2 x mp1: 2 more steps"
    third = lines.index("[3/3] compare")
    tables = str(DemoReport.load("float64", Path("found/1_rank/report.json"), Path("found/4_ranks/report.json")))
    assert lines[third:] == [
        "[3/3] compare",
        "",
        *tables.splitlines(),
        "",
        "No picture: matplotlib is not installed; pip install mpiparallel[plot]",
        "",
        "Results, in found/:",
        "  picture     none",
        "  checkpoint  4_ranks/checkpoints/rank_<0-3>/*.h5, *.manifest.json",
        "  strategies  4_ranks/src_strategy.ckpt, dst_strategy.ckpt",
        "  groups      4_ranks/device<0-3>/group_info.pb",
        "  logs        1_rank/device0/train.log0, 4_ranks/device<0-3>/train.log<0-3>",
        "Next:",
        "  mpiparallel demo --dtype float64      the same, with losses equal to 1e-9",
        "  mpiparallel run -n 4 examples/translation/train.py --mp 2      a script as you would write it",
    ]
    assert not list(Path("found").glob("demo.*"))
    assert [ranks for ranks, _, _ in jobs.started] == [1, 4]
    for (_, words, environment), cuts in zip(jobs.started, ({}, OTHER_CUTS), strict=True):
        assert set(options(**SIZES, **cuts)) <= set(words)
        assert any(word.startswith("--dp") for word in words) == bool(cuts)
        assert environment["OPENBLAS_NUM_THREADS"] == "1"


def test_as_json_only_what_was_found_is_on_stdout(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.run = False
    assert demo("--json") == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert (told["results"], told["holds"], told["dtype"]) == ("found", True, "float64")
    assert told["before"]["losses"] + told["after"]["losses"] == told["alone"]["losses"] == [5.0, 4.0, 3.0, 2.0, 1.0]
    assert "[3/3] compare\n" in captured.err


@pytest.mark.parametrize(("codes", "started"), [([7], 1), ([0, 9], 2)])
def test_a_job_that_fails_ends_the_demo_with_its_code_and_why(
    codes: list[int], started: int, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.codes = list(codes)
    assert demo("--json") == codes[-1]
    captured = capsys.readouterr()
    assert (captured.out, len(jobs.started)) == ("", started)
    assert captured.err.splitlines()[-1] == "mpiparallel: error: rank 1 died"
    assert "[3/3]" not in captured.err


def test_what_the_host_lacks_is_told_before_each_job_and_threads_of_blas_are_the_users(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "check_host", lambda *_: ["/dev/shm is small"])
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    jobs.codes = [7]
    assert demo() == 7
    assert "warning: /dev/shm is small\n" in capsys.readouterr().out
    assert jobs.started[0][2]["OPENBLAS_NUM_THREADS"] == "3"


def test_pictures_are_drawn_anew_and_named(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def draw(report: DemoReport, paths: Sequence[Path]) -> None:
        for path in paths:
            assert not path.exists()
            path.write_text("drawn")

    jobs.run = False
    Path("found").mkdir()
    Path("found/demo.svg").write_text("of an earlier run")
    monkeypatch.setattr(command, "can_draw", lambda: True)
    monkeypatch.setattr(command, "draw", draw)
    assert demo() == 0
    assert "  picture     demo.svg, demo.png\n" in capsys.readouterr().out
    assert Path("found/demo.png").read_text() == "drawn"
