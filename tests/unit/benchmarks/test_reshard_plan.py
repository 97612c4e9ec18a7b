from __future__ import annotations

import re

import pytest
import reshard_plan


def test_a_case_has_a_line_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    reshard_plan.main(["--only", "Transformer, columns", "--repetitions", "1"])
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.startswith("10,000 tensors")
    assert re.fullmatch(r"Transformer, columns 16384 -> 12288( +[0-9.]+){7}", row)


def test_every_case_is_of_ten_thousand_tensors_and_has_a_name_of_its_own() -> None:
    cases = reshard_plan.all_cases()
    assert len({case.title for case in cases}) == len(cases)
    assert {len(dict(case.shapes())) for case in cases} == {10_000}


def test_a_name_that_fits_no_case_is_refused() -> None:
    with pytest.raises(SystemExit, match="fits no case"):
        reshard_plan.main(["--only", "nothing"])
