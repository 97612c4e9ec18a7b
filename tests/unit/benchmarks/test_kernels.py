"""The benchmark of kernels, on the smallest case."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks import kernels
from mpiparallel.graph.execution.runtime import Runtime


def test_a_case_is_measured_beside_its_ceilings(tmp_path, capsys) -> None:
    file = tmp_path / "rows.json"
    kernels.main(["--only", "7x7 32,3,32,64 /2 forward", "--repetitions", "1", "--json", str(file)])
    (row,) = json.loads(file.read_text())
    assert set(row["shares"]) == {"of 1024", "of shape"}
    assert row["rate"] == pytest.approx(2 * 32 * 16 * 16 * 3 * 49 * 64 / row["milliseconds"] / 1e6)
    heading, line = capsys.readouterr().out.splitlines()[1:]
    assert len(heading.rstrip()) >= len(line.rstrip())
    assert re.search(r"GF/s +\d+% +\d+%", line)


def test_names_are_unique_and_every_kernel_can_be_bound() -> None:
    layer = kernels.Layer(2, 4, 6, 8, 3, 2, group=2)
    for case in layer.cases:
        case.bind(Runtime())()
    names = [case.name for case in kernels.all_cases()]
    assert len(set(names)) == len(names)


def test_a_pattern_that_fits_no_case_ends_the_program() -> None:
    with pytest.raises(SystemExit, match="fits no case"):
        kernels.main(["--only", "nothing of the kind"])
