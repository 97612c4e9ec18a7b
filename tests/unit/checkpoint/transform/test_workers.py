"""A process of a conversion carries out its share of a request and tells what it did, or why it could not."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.transform.folder_request import FolderRequest
from mpiparallel.checkpoint.transform.report import TransformReport
from mpiparallel.checkpoint.transform.workers import main, run_workers
from mpiparallel.errors import CheckpointError, ConfigurationError, MpiParallelError, StrategyFileError, TransformError
from tests.unit.checkpoint.transform.perceptron import LAYOUTS, WHOLE
from tests.unit.checkpoint.transform.stored_slices import assert_same, read_slices, slices_of


@pytest.fixture
def request_of_four(eight: Path, tmp_path: Path, strategies: dict[int, Path | None]) -> FolderRequest:
    source, target = str(strategies[8]), str(strategies[4])
    return FolderRequest(str(eight), str(tmp_path / "out"), "net", source, target, None, "refuse", False)


def carried_out(monkeypatch: pytest.MonkeyPatch, content: dict[str, Any], *shares: str) -> int:
    monkeypatch.setattr(sys, "argv", ["workers.py", *shares])
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(content)))
    return main()


@pytest.mark.parametrize(("share", "shares", "ranks"), [("0", "1", [0, 1, 2, 3]), ("1", "3", [1]), ("0", "3", [0, 3])])
def test_a_process_makes_each_so_many_th_file_and_says_so(
    share: str,
    shares: str,
    ranks: list[int],
    request_of_four: FolderRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert carried_out(monkeypatch, asdict(request_of_four), share, shares) == 0
    report = TransformReport.from_json(capsys.readouterr().out)
    assert sorted(report.files) == ranks
    for rank, path in report.files.items():
        assert_same(read_slices(path), slices_of(WHOLE, LAYOUTS[4], rank))


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"source_strategy": "nowhere.ckpt"}, "StrategyFileError", "nowhere.ckpt: cannot be read"),
        (
            {"output_format": "zip"},
            "ConfigurationError",
            "output_format is 'zip'; give one of h5, ckpt, safetensors, npz",
        ),
        ({"source_folder": "nowhere"}, "TransformError", "nowhere: cannot be read as a folder of checkpoints"),
    ],
)
def test_a_process_that_cannot_tells_the_kind_of_error_and_its_words(
    change: dict[str, Any],
    kind: str,
    said: str,
    request_of_four: FolderRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert carried_out(monkeypatch, {**asdict(request_of_four), **change}, "0", "1") == 1
    told, words = json.loads(capsys.readouterr().out)
    assert (told, words.startswith(said)) == (kind, True)


@pytest.mark.parametrize(
    ("printed", "code", "kind", "said"),
    [
        ('["StrategyFileError", "a"]', 1, StrategyFileError, "a"),
        ('["ConfigurationError", "b"]', 1, ConfigurationError, "b"),
        ('["CheckpointError", "c"]', 1, CheckpointError, "c"),
        ('["TransformError", "d"]', 1, TransformError, "d"),
        ('["MemoryError", "e"]', 1, TransformError, "e"),
        ("torn", 7, TransformError, "a process of process_num ended with 7 (last words); try fewer of them"),
    ],
)
def test_what_a_process_told_before_it_failed_is_raised(
    printed: str,
    code: int,
    kind: type[MpiParallelError],
    said: str,
    request_of_four: FolderRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "program"
    program.write_text(
        f"#!/bin/sh\ncat > /dev/null\necho '{printed}'\necho first >&2\necho last words >&2\nexit {code}\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(kind) as caught:
        run_workers(request_of_four, 2)
    assert (type(caught.value), str(caught.value)) == (kind, said)


def test_reports_of_all_processes_are_put_together(
    request_of_four: FolderRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    report = TransformReport({}, {7: "is gone"}, ("mean",), ("w",)).to_json()
    told = report.replace('"files": {}', '"files": {"\'$3\'": "file\'$3of$4\'"}')
    program.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{told}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    found = run_workers(replace(request_of_four, prefix="other"), 3)
    assert found.files == {share: Path(f"file{share}of3") for share in range(3)}
    assert (found.replaced, found.replicated, found.omitted) == ({7: "is gone"}, ("mean",), ("w",))
