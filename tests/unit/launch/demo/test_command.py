"""The demo's command without its jobs: what it refuses, and what it makes of their reports."""

from __future__ import annotations

import argparse
import json
import math
import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.launch.cli import main
from mpiparallel.launch.demo import command
from mpiparallel.launch.demo.arguments import add_size_arguments, size_words
from mpiparallel.launch.demo.command import verdict
from mpiparallel.launch.demo.job import make_parser
from mpiparallel.launch.demo.picture import can_draw, draw
from mpiparallel.launch.demo.report import DemoReport
from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.installation import Installation
from mpiparallel.launch.job.mpirun_command import MpirunCommand
from mpiparallel.launch.watching.job_outcome import JobOutcome
from tests.conformance import patience

LOSSES = [8.0 - 0.1 * step for step in range(30)]


def phase(ranks: int, first_step: int, losses: list[float], **cut: Any) -> dict[str, Any]:
    default = {"data_parallel": 1, "model_parallel": ranks, "optimizer_parallel": False, "seconds_per_step": 0.0125}
    return {"ranks": ranks, "first_step": first_step, "losses": losses} | default | cut


@pytest.fixture
def report(tmp_path: Path) -> DemoReport:
    whole = [[[0, 0], [6, 4]]]
    moving = {
        "phases": [
            phase(4, 1, LOSSES[:18], data_parallel=2, model_parallel=2, optimizer_parallel=True),
            phase(2, 19, LOSSES[18:], seconds_per_step=1.5),
        ],
        "bytes_moved": 3_500_000,
        "bytes_kept": 12_000_000,
        "reshard_seconds": 0.25,
        "slices": [
            {
                "name": "head.weight",
                "shape": [6, 4],
                "before": [[[0, 0], [2, 4]], [[3, 0], [5, 4]], [[2, 0], [3, 4]], [[5, 0], [6, 4]]],
                "after": [[[0, 0], [3, 4]], [[3, 0], [6, 4]]],
            },
            {"name": "table", "shape": [6, 4], "before": whole * 4, "after": whole * 2},
        ],
    }
    alone, moved = tmp_path / "alone.json", tmp_path / "moved.json"
    alone.write_text(json.dumps({"phases": [phase(1, 1, LOSSES)]}))
    moved.write_text(json.dumps(moving))
    return DemoReport.load("float32", alone, moved)


def with_difference(report: DemoReport, step: int, difference: float) -> DemoReport:
    losses = list(LOSSES)
    losses[step - 1] *= 1 + difference
    return replace(report, alone=replace(report.alone, losses=losses))


def test_table_tells_phases_losses_and_bytes(report: DemoReport) -> None:
    assert str(report).splitlines() == [
        "phase         ranks  cut              steps  loss, first -> last   ms/step",
        "------------  -----  ---------------  -----  --------------------  -------",
        "one rank          1  -                1-30   8.000000 -> 5.100000     12.5",
        "4 ranks           4  dp2 x mp2 + opt  1-18   8.000000 -> 6.300000     12.5",
        "then 2 ranks      2  dp1 x mp2        19-30  6.200000 -> 5.100000   1500.0",
        "",
        "relative difference of losses  largest  promised",
        "-----------------------------  -------  --------  --",
        "steps 1-20                     0.0e+00     2e-05  OK",
        "steps 1-30                     0.0e+00     1e-03  OK",
        "",
        "The move: weights and optimizer state from 4 ranks to 2, live, in 0.25 s:",
        "3.5 MB went from rank to rank, 12.0 MB stayed where they were.",
    ]


def test_as_json_it_tells_phases_losses_and_whether_they_agree(report: DemoReport) -> None:
    told = json.loads(json.dumps(report.document))
    assert told["before"]["losses"] + told["after"]["losses"] == LOSSES
    assert told["holds"] is True
    apart = with_difference(report, 5, 1e-2).document
    assert (apart["holds"], [one["holds"] for one in apart["checks"]]) == (False, [False, False])


@pytest.mark.parametrize(
    ("dtype", "step", "difference", "code"),
    [
        ("float32", 20, 1e-5, 0),
        ("float32", 20, 3e-5, 1),
        ("float32", 21, 3e-5, 0),
        ("float32", 30, 2e-3, 1),
        ("float32", 5, math.nan, 1),
        ("float32", 25, math.inf, 1),
        ("float64", 30, 5e-10, 0),
        ("float64", 30, 2e-9, 1),
    ],
)
def test_losses_farther_apart_than_promised_end_with_code_1(
    report: DemoReport, dtype: str, step: int, difference: float, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = replace(with_difference(report, step, difference), dtype=dtype)
    assert verdict(changed) == code
    assert ("EXCEEDED" in str(changed)) == bool(code)
    assert math.isfinite(difference) or "steps 1-30                         inf     1e-03  EXCEEDED\n" in str(changed)
    assert ("more than the" in capsys.readouterr().err) == bool(code)


def test_how_far_apart_losses_are_is_told_with_what_to_try(
    report: DemoReport, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verdict(with_difference(report, 30, -2e-3)) == 1
    assert capsys.readouterr().err == (
        "mpiparallel: error: the losses differ by 2.0e-03 from those of one rank, more than the 1e-03 promised; a "
        "smaller --lr magnifies rounding less, and --dtype float64 shows whether it was that\n"
    )


def test_few_steps_are_held_to_the_limit_of_the_first(report: DemoReport) -> None:
    short = replace(
        report,
        alone=replace(report.alone, losses=LOSSES[:10]),
        before=replace(report.before, losses=LOSSES[:6]),
        after=replace(report.after, losses=LOSSES[6:10]),
    )
    assert [(check.last_step, check.limit) for check in short.checks] == [(10, 2e-5)]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--file_path", "absent.txt"], "--file_path absent.txt: there is no such file; give English<TAB>French lines"),
        (["--ranks", "6"], "--ranks 6 is not --dp 2 x --mp 4 = 8; leave --ranks out"),
        (["--mp", "1"], "--target_dp 1 x --target_mp 4 needs 4 ranks, but the job has 2"),
        (["--dir", "file/below"], "--dir file/below: Not a directory; give a folder that can be written"),
    ],
)
def test_demo_that_cannot_be_is_refused_before_anything_starts(
    words: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main(["demo", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"mpiparallel: error: {reason}")
    assert captured.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("words", [["--steps", "0"], ["--batch_size", "two"], ["--dtype", "float16"], ["--mp", "-1"]])
def test_wrong_sizes_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", *words])
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_job_gets_the_sizes_of_the_command() -> None:
    job = make_parser()
    default = job.parse_args(["--out", "x"])
    given = ["--file_path", "a file.txt", "--steps", "7", "--lr", "2e-05", "--dtype", "float64", "--num_heads", "2"]
    wanted = job.parse_args(["--out", "x", *given])
    assert wanted != default
    assert job.parse_args(["--out", "x", *size_words(wanted)]) == wanted
    assert job.parse_args(["--out", "x", *size_words(default)]) == default
    assert (default.dp, default.mp, default.target_dp, default.target_mp) == (1, 1, 1, 0)


def test_command_needs_neither_numpy_nor_matplotlib_to_load() -> None:
    program = (
        "import sys, mpiparallel.launch.demo.command\n"
        "print(sorted({'numpy', 'mpi4py', 'matplotlib'} & set(sys.modules)))"
    )
    ended = patience.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@pytest.mark.skipif(not can_draw(), reason="needs matplotlib")
def test_picture_is_drawn_in_both_formats(report: DemoReport, tmp_path: Path) -> None:
    paths = [tmp_path / "demo.svg", tmp_path / "demo.png"]
    draw(report, paths)
    assert "<svg" in paths[0].read_text(encoding="utf-8")
    image = paths[1].read_bytes()
    assert image.startswith(b"\x89PNG")
    # 13 by 7.2 inches of 110 pixels.
    assert struct.unpack(">II", image[16:24]) == (1430, 792)
    again = tmp_path / "again.svg"
    draw(report, [again])
    assert again.read_bytes() == paths[0].read_bytes()


def test_output_that_could_not_be_shown_is_said_and_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def supervised(built: MpirunCommand, ranks: int, folder: Path, console: Console) -> JobOutcome:
        with monkeypatch.context() as broken:
            broken.setattr(sys, "stdout", None)
            console.show(b"12345")
        return JobOutcome(0)

    arguments = argparse.ArgumentParser()
    add_size_arguments(arguments)
    monkeypatch.setattr(command, "supervise", supervised)
    runner = command._Runner(arguments.parse_args([]), Installation("openmpi", "Open MPI", "mpirun"))
    assert runner.run(1, tmp_path, []) == 0
    said = "stdout took no more: 5 bytes"
    assert said in capsys.readouterr().err
    assert said in (tmp_path / "launcher.log").read_text()
