"""How many ranks ``mpiparallel calibrate`` starts; what they measure is tested on real ones."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from mpiparallel.launch import run
from mpiparallel.launch.cli import main


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """The jobs that were to be started."""
    jobs: list[argparse.Namespace] = []
    monkeypatch.setattr(run, "execute", lambda arguments: jobs.append(arguments) or 0)
    return jobs


def test_every_slot_of_a_hostfile_is_measured_and_without_one_every_core(
    started: list[argparse.Namespace], tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("n0 slots=70\nn1 slots=90\n")
    for words in ([], ["--hostfile", str(hosts)], ["--hostfile", str(hosts), "-n", "3"]):
        assert main(["calibrate", *words]) == 0
    assert [job.ranks for job in started] == [len(os.sched_getaffinity(0)), 160, 3]
    assert [job.hostfile for job in started] == [None, hosts, hosts]
