"""The benchmark of checkpoints: its states and numbers here, its ranks in tests/mpi."""

from __future__ import annotations

import json
import sys
from math import prod

import checkpoint
import numpy as np
import pytest
from checkpointing import transform
from checkpointing.report import summarise, table
from checkpointing.states import LOADS, STATES, arrays_of, difference, layouts_of
from resharding import launch

JOB = {
    "kind": "load",
    "state": "transformer",
    "source": "rows",
    "load": "columns",
    "saved_ranks": 2,
    "place": "/a/folder",
    "file_system": "tmpfs",
}
FOUND = {
    "seconds": {"raw": {"0": 1.0, "1": 3.0}, "ours": {"0": 2.0, "1": 4.0}, "PyTorch DCP": {"1": 30.0}},
    "methods_left_out": {"safetensors": "no python"},
    "bytes": 6_000_000_000,
    "load_average": [0.5, 1.5],
}


def test_a_share_is_the_median_over_the_rounds_that_both_ran_in() -> None:
    methods = summarise(FOUND)["methods"]
    assert methods["ours"]["share"] == (1.0 / 2.0 + 3.0 / 4.0) / 2
    assert methods["ours"]["share_of_fastest"] == 0.5
    assert methods["ours"]["gigabytes_per_second"] == 2.0
    assert methods["PyTorch DCP"]["share"] == 0.1


def test_the_table_names_every_method_and_why_others_are_left_out() -> None:
    text = table(JOB | summarise(FOUND))
    for words in ("rows to columns, 2 -> 2 ranks", "(tmpfs), load 0.5 to 1.5", "PyTorch DCP", "left out: no python"):
        assert words in text


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", ["rows", "columns", "whole"])
def test_what_ranks_hold_is_all_of_a_state_and_every_wrong_element_is_seen(state: str, kind: str) -> None:
    shapes = STATES[state].shapes(4)
    layouts = layouts_of(shapes, kind, 4)
    whole = arrays_of(layouts_of(shapes, "whole", 1), 0)
    for rank in range(4):
        arrays = arrays_of(layouts, rank)
        assert difference(layouts, rank, arrays) == ""
        for name, array in arrays.items():
            box = layouts[name].box(rank)
            np.testing.assert_array_equal(array, whole[name][tuple(map(slice, box.start, box.stop))])
        arrays[name].flat[-1] += 1
        assert difference(layouts, rank, arrays) == name


def test_a_state_has_about_the_size_that_is_asked_for() -> None:
    for name, state in STATES.items():
        nbytes = 4 * sum(map(prod, state.shapes(64).values()))
        assert nbytes == 2000 * 4096 if name == "small" else 64 << 20 <= nbytes < 65 << 20


def test_ranks_that_fail_are_told_after_what_the_others_found(tmp_path, monkeypatch, capsys) -> None:
    jobs = []

    def run_ranks(library, ranks, job, seconds, program):
        jobs.append((job["kind"], job["load"], ranks))
        if job["load"] == "fewer":
            raise launch.RanksFailedError("1 ranks ended with exit code 1", {})
        return FOUND

    monkeypatch.setattr(checkpoint, "library_of", lambda python: launch.Library(python, "mpirun", []))
    monkeypatch.setattr(checkpoint, "run_ranks", run_ranks)
    file = tmp_path / "reports.json"
    given = ["--kinds", "save", "load", "--states", "large", "--ranks", "1", "2", "--cases", "same", "fewer"]
    with pytest.raises(SystemExit, match="1 ranks ended with exit code 1"):
        checkpoint.main([*given, "--folder", str(tmp_path), "--json", str(file)])
    assert jobs[:2] == [("save", "same", 1), ("load", "same", 1)]
    assert jobs[2:5] == [("save", "same", 2), ("load", "same", 2), ("load", "fewer", 1)]
    assert LOADS[json.loads(file.read_text(encoding="utf-8"))[1]["load"]].ranks(1) == 1
    assert "load large" in capsys.readouterr().out


def test_a_transform_is_measured_in_a_process_of_its_own(tmp_path) -> None:
    ways = dict.fromkeys((transform.COPY, transform.OURS, transform.OURS_SHARDS), sys.executable)
    found = transform.measure(tmp_path, "large", 1, ways | {transform.MINDSPORE: "/no/python"}, 1, 60)
    assert found["methods"].keys() == ways.keys()
    assert all(numbers["min_ms"] > 0 for numbers in found["methods"].values())
    assert found["methods_left_out"].keys() == {transform.MINDSPORE}
    assert transform.MINDSPORE in transform.table(found | JOB | {"load_average": [0, 0]})
