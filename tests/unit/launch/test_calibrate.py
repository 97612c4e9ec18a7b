"""How many ranks ``mpiparallel calibrate`` starts; what they measure is tested on real ones."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from mpiparallel.launch import run
from mpiparallel.launch.cli import main
from mpiparallel.launch.measuring_ranks import summary
from mpiparallel.search.machine.machine import CollectiveTimes, Link, Machine


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


def test_a_measured_machine_is_told_in_a_few_lines() -> None:
    machine = Machine(
        hosts=2,
        ranks_per_host=8,
        cores=4,
        products=((1e4, 5e9), (1e6, 5e10)),
        inside=Link(1e-5, 1e9),
        between=Link(1e-4, 4e9),
        collectives=tuple(CollectiveTimes("reduce_scatter", ranks, ((1e6, ranks * 1e-3),)) for ranks in (2, 8)),
    )
    lines = summary(machine).splitlines()
    assert lines[0] == "2 x 8 ranks on 4 cores each, all busy at once"
    for line in (
        "products        5, 50 GFLOP/s, from small to large",
        "inside a host   10 us, 1 GB/s",
        "between hosts   100 us, 4 GB/s",
    ):
        assert line in lines
    # Of collectives only those of all ranks of a host.
    assert [line for line in lines if "among" in line] == ["reduce scatter  8 ms for 1 MB among 8 ranks"]
