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


def test_each_figure_of_a_measured_machine_has_its_line() -> None:
    machine = Machine(
        cores=2,
        products=((1e4, 5e9),),
        operand_bandwidth=12.5e9,
        memory_bandwidth=7e9,
        libraries=250e6,
        launch=4.5e-6,
        inside=Link(1.5e-6, 2e9),
        between=Link(2e-5, 12.5e9),
    )
    assert summary(machine).splitlines() == [
        "1 x 8 ranks on 2 cores each, all busy at once",
        "products        5 GFLOP/s, from small to large",
        "matrices        12.5 GB/s are taken into products",
        "other kernels   0, by name",
        "memory          7 GB/s a rank",
        "libraries       250 MB a rank",
        "kernel          4.5 us",
        "inside a host   1.5 us, 2 GB/s",
        "between hosts   20 us, 12.5 GB/s",
    ]


@pytest.mark.parametrize(
    ("words", "module", "script_words"),
    [
        ([], "mpiparallel.launch.measuring_ranks", []),
        (["--json"], "mpiparallel.launch.measuring_ranks", ["--json"]),
        (["--gpu"], "mpiparallel.search.machine.measuring_gpus", []),
    ],
)
def test_the_program_that_measures_is_told_how_to_answer(
    words: list[str], module: str, script_words: list[str], started: list[argparse.Namespace]
) -> None:
    assert main(["calibrate", "-n", "2", *words]) == 0
    (job,) = started
    assert (job.module, job.ranks, job.debug) == ([module, *script_words], 2, False)
    # Its logs are in a folder that is gone when it has ended.
    assert job.log_dir.name.startswith("mpiparallel_calibrate_")
    assert not job.log_dir.exists()


def test_a_calibration_that_is_looked_into_is_debugged_too(started: list[argparse.Namespace]) -> None:
    assert main(["--debug", "calibrate", "-n", "2"]) == 0
    assert started[0].debug
