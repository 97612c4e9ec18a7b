from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.launch.cli import main
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding, Severity
from mpiparallel.launch.doctor.registry import Check


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[ExaminedMachine]:
    """Let the doctor find nothing; return the machines that it looks at."""
    return finding_of(monkeypatch, "ok")


def finding_of(monkeypatch: pytest.MonkeyPatch, state: Severity) -> list[ExaminedMachine]:
    machines: list[ExaminedMachine] = []

    def find(machine: ExaminedMachine) -> Iterator[Finding]:
        machines.append(machine)
        yield Finding("subject", state, "what", "mend")

    monkeypatch.setattr("mpiparallel.launch.doctor.consultation.CHECKS", (Check("check", "Group", find),))
    return machines


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("note", 0), ("warning", 0), ("error", 1)])
@pytest.mark.parametrize("options", [(), ("--fix-hints",), ("--json",)])
def test_only_errors_end_with_code_1(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: Severity,
    code: int,
    options: tuple[str, ...],
) -> None:
    finding_of(monkeypatch, state)
    assert main(["doctor", *options]) == code
    output = capsys.readouterr().out
    assert json.loads(output)["counts"][state] == 1 if "--json" in options else "subject" in output


def test_ranks_and_folders_reach_the_checks(seen: list[ExaminedMachine], tmp_path: Path) -> None:
    main(["doctor", "-n", "7", "--log-dir", "logs", "--checkpoint-dir", str(tmp_path)])
    (machine,) = seen
    assert (machine.ranks, machine.log_dir, machine.checkpoint_dir) == (7, Path.cwd() / "logs", tmp_path)


def test_ranks_of_this_host_are_its_slots(seen: list[ExaminedMachine], tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("localhost slots=5\n")
    assert main(["doctor", "--hostfile", str(tmp_path / "hosts")]) == 0
    assert seen[0].ranks == 5


def test_ranks_of_this_host_are_its_devices_in_the_rank_table(seen: list[ExaminedMachine], tmp_path: Path) -> None:
    devices = tuple(Device(number, f"10.0.0.{number}", number) for number in range(3))
    (tmp_path / "table.json").write_text(RankTable((Server("127.0.0.1", devices),)).to_json())
    assert main(["doctor", "--rank-table", str(tmp_path / "table.json")]) == 0
    assert [machine.ranks for machine in seen] == [3]


def test_ranks_are_the_cores_and_checkpoints_lie_in_the_logs_where_nothing_is_said(
    seen: list[ExaminedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", {0: {0, 3, 5}}.__getitem__)
    assert main(["doctor"]) == 0
    assert (seen[0].ranks, seen[0].checkpoint_dir) == (3, seen[0].log_dir)
    # Both are of this process, which has number 0 there.
    assert seen[0].cores == {0, 3, 5}


def test_faulty_hostfile_is_refused(
    seen: list[ExaminedMachine], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts").write_text("node1 slots=many\n")
    assert main(["doctor", "--hostfile", str(tmp_path / "hosts")]) == 2
    assert "hosts" in capsys.readouterr().err
    assert not seen
