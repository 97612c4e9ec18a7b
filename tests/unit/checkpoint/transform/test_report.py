"""A conversion tells what it wrote and did, also from one process to another, and its files say whose they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.formats.registry import open_file, write_file
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank, transform_checkpoints
from mpiparallel.checkpoint.transform.file_owner import FileOwner, owner_in, told_of_itself
from mpiparallel.checkpoint.transform.report import TransformReport
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform.perceptron import LAYOUTS, WHOLE
from tests.unit.checkpoint.transform.stored_slices import assert_same, numbers, read_slices, slices_of, write_layouts

REPORT = TransformReport({2: Path("b"), 11: Path("a")}, {3: "is gone", 1: "is torn"}, ("mean", "var"), ("w",))


def test_a_report_says_what_was_written_and_what_was_done_for_want_of_better() -> None:
    assert str(REPORT) == (
        "2 files written\nrank 1: is torn\nrank 3: is gone\nin no source strategy, the same on all ranks: mean, var\n"
        "in no target strategy, left out: w"
    )
    assert str(TransformReport({})) == "0 files written"


def test_a_report_comes_back_from_another_process() -> None:
    assert TransformReport.from_json(REPORT.to_json()) == REPORT
    assert TransformReport.from_json(TransformReport({}).to_json()) == TransformReport({})


def test_reports_of_two_shares_are_one_by_the_ranks() -> None:
    both = REPORT | TransformReport({0: Path("c"), 7: Path("d")}, {5: "is empty"}, ("mean", "var"), ("w",))
    assert list(both.files.items()) == [(0, Path("c")), (2, Path("b")), (7, Path("d")), (11, Path("a"))]
    assert both.replaced == {1: "is torn", 3: "is gone", 5: "is empty"}
    assert (both.replicated, both.omitted) == (("mean", "var"), ("w",))


@pytest.mark.parametrize(
    ("attributes", "owner"),
    [
        ({"rank": 0, "ranks": 1}, FileOwner(0, 1)),
        ({"rank": "12", "ranks": "16", "note": "a"}, FileOwner(12, 16)),
        ({"rank": -1, "ranks": 4}, None),
        ({"rank": 1.0, "ranks": 4}, None),
        ({"rank": "²", "ranks": 4}, None),
        ({"rank": "", "ranks": 4}, None),
        ({"ranks": 4}, None),
        ({"rank": 3}, None),
        ({}, None),
    ],
)
def test_a_file_says_whose_it_is_by_two_numbers(attributes: dict[str, Any], owner: FileOwner | None) -> None:
    assert owner_in(attributes) == owner


@pytest.mark.parametrize(
    ("attributes", "names"),
    [
        ({"prefix": "a", "epoch": 1, "step": 2, "rank": 3, "note": "b"}, {"prefix", "epoch", "step", "rank"}),
        (
            {"prefix": "a", "epoch": 1, "step": 2, "rank": 3, "ranks": 4},
            {"prefix", "epoch", "step", "rank", "ranks"},
        ),
        ({"prefix": "a", "epoch": 1, "step": 2}, set()),
        ({"rank": 1, "ranks": 2, "step": 3}, {"rank", "ranks"}),
    ],
)
def test_what_a_shard_tells_of_itself_is_not_of_what_was_saved(attributes: dict[str, Any], names: set[str]) -> None:
    assert told_of_itself(attributes) == names


def told_by(path: Path) -> dict[str, Any]:
    with open_file(path) as file:
        return dict(file.attributes)


def write_told(path: Path, array: Any, attributes: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, infos_of({"w": array}), [("w", array)], attributes)


def test_a_converted_file_keeps_what_all_sources_tell_alike_and_says_whose_it_is(tmp_path: Path) -> None:
    rows = write_layouts(tmp_path / "rows.ckpt", {"w": Layout((4,), DeviceMatrix((2,)), ((0,),))})
    for rank in range(2):
        told = {"note": "same", "own": f"of {rank}", "rank": rank, **({"last": 1} if rank else {})}
        write_told(tmp_path / "in" / f"rank_{rank}" / "net-1_7.h5", numbers((2,)), told)
    report = transform_checkpoints(tmp_path / "in", tmp_path / "out", "net", rows, rows)
    assert [told_by(report.files[rank]) for rank in range(2)] == [
        {"note": "same", "rank": rank, "ranks": 2} for rank in range(2)
    ]
    report = transform_checkpoints(tmp_path / "in", tmp_path / "other", "net", rows, rows, output_format="safetensors")
    assert [told_by(report.files[rank]) for rank in range(2)] == [
        {"rank": str(rank), "ranks": "2"} for rank in range(2)
    ]


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_share_the_targets_and_each_reports_its_own(
    ranks: int, eight: Path, tmp_path: Path, strategies: dict[int, Path | None]
) -> None:
    def convert(world: Any) -> TransformReport:
        return transform_checkpoints(
            eight,
            tmp_path / "out",
            "net",
            strategies[8],
            strategies[4],
            compare_replicas=True,
            communicator=world,
        )

    reports = run_world(ranks, convert)
    assert [sorted(report.files) for report in reports] == [list(range(rank, 4, ranks)) for rank in range(ranks)]
    for rank in range(4):
        path = tmp_path / "out" / f"rank_{rank}" / f"net{rank}.ckpt"
        assert reports[rank % ranks].files[rank] == path
        assert_same(read_slices(path), slices_of(WHOLE, LAYOUTS[4], rank))


@pytest.mark.parametrize("prefix", ["", "a/b", ".net", "a\nb", "a\0"])
def test_a_prefix_that_begins_no_name_is_refused(prefix: str, eight: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        transform_checkpoints(eight, tmp_path / "out", prefix)
    assert str(caught.value) == f"ckpt_prefix {prefix!r} cannot begin a file's name; use letters and digits"


def test_what_stood_at_the_place_of_a_target_file_is_replaced(tmp_path: Path) -> None:
    for rank, array in ((0, numbers((2,))), (1, numbers((2,), start=2))):
        write_told(tmp_path / f"{rank}.ckpt", array, {})
    rows = write_layouts(tmp_path / "rows.ckpt", {"w": Layout((4,), DeviceMatrix((2,)), ((0,),))})
    write_told(tmp_path / "whole.ckpt", numbers((9,)), {})
    files = {rank: tmp_path / f"{rank}.ckpt" for rank in range(2)}
    report = transform_checkpoint_by_rank(0, files, tmp_path / "whole.ckpt", rows)
    assert str(report) == "1 files written"
    np.testing.assert_array_equal(read_slices(tmp_path / "whole.ckpt")["w"], numbers((4,)))
