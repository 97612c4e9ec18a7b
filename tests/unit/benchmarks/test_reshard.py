"""The benchmark of resharding: its cases and numbers here, its ranks in tests/mpi."""

from __future__ import annotations

import json

import pytest
import reshard
from resharding import launch
from resharding.cases import CASES
from resharding.report import summarise, table

from mpiparallel.reshard.planning.plan import plan_reshard

FOUND = {
    "library": "An MPI",
    "ranks": 2,
    "cores": 4,
    "cases": {
        "transpose": {
            "seconds": {
                "memcpy": {"0": 1.0, "1": 3.0},
                "shared window": {"0": 2.0, "1": 3.0},
                "pack+Alltoallv": {"0": 4.0, "1": 6.0},
                "ours": {"0": 3.0},
            },
            "extra_bytes": {"memcpy": 0, "shared window": 1 << 20, "pack+Alltoallv": 0, "ours": 0},
            "notes": {"ours": "shared"},
            "methods_left_out": {"Heat resplit_": "not installed: heat"},
            "load": [0.5, 1.5],
        },
        "huge": {"left_out": "9.0 GiB before and after, and 1.0 GiB of memory are free"},
    },
}


def test_a_ratio_is_the_median_over_the_rounds_that_both_methods_ran_in() -> None:
    methods = summarise(FOUND)["cases"]["transpose"]["methods"]
    assert methods["ours"]["ratio"] == {"memcpy": 3.0, "shared window": 1.5, "pack+Alltoallv": 0.75}
    assert methods["pack+Alltoallv"]["ratio"]["memcpy"] == (4.0 + 2.0) / 2
    assert methods["pack+Alltoallv"]["ratio_of_minima"]["memcpy"] == 4.0


def test_the_table_names_every_method_and_why_others_are_left_out() -> None:
    text = table(summarise(FOUND))
    for name in ("An MPI, 2 ranks on 4 cores", "load 0.5 to 1.5", "ours", "not installed: heat", "1.0 GiB of memory"):
        assert name in text


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_every_element_after_comes_from_somewhere(name: str, ranks: int) -> None:
    layouts = CASES[name].layouts(ranks, 16)
    for rank in range(ranks):
        plan = plan_reshard(layouts, rank)
        found = sum(transfer.box.size for transfer in (*plan.receives, *plan.copies))
        found += sum(layouts[tensor][1].box(rank).size for tensor in plan.kept)
        assert found == sum(target.box(rank).size for _, target in layouts.values() if rank in target.devices)


def test_the_case_of_large_displacements_has_some_beyond_what_32_bits_hold() -> None:
    source, target = CASES["huge"].layouts(2, 1)["weight"]
    assert min(4 * layout.box(0).size for layout in (source, target)) > 2**31


def test_a_pattern_that_fits_no_method_ends_the_program() -> None:
    with pytest.raises(SystemExit, match="fits none of"):
        reshard.main(["--peers", "nothing of the kind"])


def test_ranks_that_fail_are_told_after_what_the_others_found(tmp_path, monkeypatch, capsys) -> None:
    def run_ranks(library, ranks, job, seconds):
        if ranks == 4:
            raise launch.RanksFailedError("4 ranks ended with exit code 1", {})
        return FOUND

    monkeypatch.setattr(reshard, "library_of", lambda python: launch.Library(python, "mpirun", ["-bind-to", "none"]))
    monkeypatch.setattr(reshard, "run_ranks", run_ranks)
    file = tmp_path / "reports.json"
    with pytest.raises(SystemExit, match="4 ranks ended with exit code 1"):
        reshard.main(["--ranks", "4", "2", "--json", str(file)])
    assert "flags -bind-to none" in capsys.readouterr().out
    (report,) = json.loads(file.read_text(encoding="utf-8"))
    assert report["cases"]["huge"]["left_out"].startswith("9.0 GiB")
