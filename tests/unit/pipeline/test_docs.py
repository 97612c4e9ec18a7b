"""What docs/training/pipeline.md shows is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mpiparallel.pipeline import SCHEDULES, check, make_schedule, parse, schedule_name

TEXT = (Path(__file__).parents[3] / "docs/training/pipeline.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (.*?) ?\| ([\d.]+) \| (?:.* = )?([\d.]+) \| ([\d.]+)", TEXT, re.MULTILINE)


def test_the_table_has_a_row_for_each_schedule() -> None:
    assert [row[0] for row in ROWS] == list(SCHEDULES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_table_says_what_the_checker_says(row: tuple[str, ...]) -> None:
    name, mindspore, *figures = row
    report = check(make_schedule(name, 4, 8))
    assert [float(figure) for figure in figures] == [report.step, report.bubble, max(report.peaks)]
    if mindspore:
        assert schedule_name(mindspore.split("`")[1], "interleave" in mindspore) == name


def test_the_example_of_ones_own_schedule_can_run() -> None:
    (example,) = re.findall(r"```text\n(schedule mine\n.*?)```", TEXT, re.DOTALL)
    assert check(parse(example)).step == 8


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    programs = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (program,) = (one for one in programs if "check(schedule)" in one)
    exec(compile(program, "docs/training/pipeline.md", "exec"), {})
    assert "step 27, bubble 3" in capsys.readouterr().out
