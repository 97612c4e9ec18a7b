"""The benchmarks that start no ranks: what compiling, planning and searching take."""

from __future__ import annotations

import re
from collections.abc import Callable

import compile_time
import pytest
import reshard_plan
import search


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


@pytest.mark.parametrize("main", [compile_time.main, reshard_plan.main])
def test_a_name_that_fits_no_case_is_refused(main: Callable[[list[str]], None]) -> None:
    with pytest.raises(SystemExit, match="fits no case"):
        main(["--only", "nothing"])


def test_a_case_has_a_line_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    reshard_plan.main(["--only", "Transformer, columns", "--repetitions", "1"])
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.startswith("10,000 tensors")
    assert re.fullmatch(r"Transformer, columns 16384 -> 12288( +[0-9.]+){7}", row)


def test_every_case_is_of_ten_thousand_tensors_and_has_a_name_of_its_own() -> None:
    cases = reshard_plan.all_cases()
    assert len({case.title for case in cases}) == len(cases)
    assert {len(dict(case.shapes())) for case in cases} == {10_000}


def test_a_search_has_a_line_with_what_it_took_and_what_it_found(capsys, monkeypatch) -> None:
    words = ["search.py", "--layers", "1", "--ranks", "2", "--modes", "recursive_programming", "optimal"]
    monkeypatch.setattr("sys.argv", words)
    search.main()
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[4] for row in rows] == ["recursive_programming", "optimal"]
    assert all(re.search(r"Transformer, 1 layers +2 .* [\d.]+ +[\d.]+ +[\d.]+ +[\d.]+% +[\d.]+$", row) for row in rows)


def test_what_others_took_stands_below_in_the_same_columns_with_who_says_so(capsys, monkeypatch) -> None:
    words = ["search.py", "--layers", "1", "--ranks", "2", "--modes", "recursive_programming", "--peers"]
    monkeypatch.setattr("sys.argv", words)
    search.main()
    heading, ours, told, *theirs = capsys.readouterr().out.splitlines()
    end = heading.index("CPU s") + len("CPU s")
    assert re.search(r" [\d.]+$", ours[:end])
    assert "not measured here" in told
    assert len(theirs) == len(search.PEERS)
    assert all(re.search(r"  (<=? )?[\d.]+( \+ \d+)?$", row[:end]) and row[end : end + 2] == "  " for row in theirs)
    assert all(len(row[end:].split()) > 1 for row in theirs)
