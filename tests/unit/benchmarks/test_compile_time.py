from __future__ import annotations

import re

import compile_time
import pytest


def test_a_compilation_has_a_line_with_its_limit(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(compile_time, "LAYERS", [(1, 8)])
    compile_time.main(["--only", "1 layers", "--repetitions", "1"])
    (row,) = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"1 layers on 8 ranks +[\d.]+ CPU s \(.*local graph [\d.]+, memory [\d.]+\)", row)


def test_stages_of_a_training_stand_beside_their_limits() -> None:
    stages = ("built", "step", "step and save", "loaded", "first to 2", "to 4", "to 2")
    figures = {f"{stage}, {unit}": 1.5 for stage in stages for unit in ("CPU s", "s")}
    told = compile_time.lines("20000 small parameters", figures)
    assert [line.split("; limit ")[1:] for line in told] == [[], ["20"], ["2"], ["2"], ["5"], ["5"], ["5"]]


def test_a_name_that_fits_no_case_is_refused() -> None:
    with pytest.raises(SystemExit, match="fits no case"):
        compile_time.main(["--only", "nothing"])
