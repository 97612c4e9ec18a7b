"""What is measured, on ranks that are threads; and the files that are there."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import pytest

from mpiparallel.communication.threads import run_world
from mpiparallel.search.machine.calibration import measure
from mpiparallel.search.machine.cluster_file import load_machine, machine_json, parse_machine
from mpiparallel.search.machine.machine import Machine

FILES = sorted(Path("clusters").glob("*.json"))


def test_ranks_of_a_host_measure_rates_and_the_link_inside_and_assume_the_link_between() -> None:
    for found in run_world(2, measure):
        rates = [rate for _, rate in found.products]
        amounts = [*rates, found.operation_rate, found.memory_bandwidth, found.reduction_rate, found.launch]
        assert all(isfinite(one) and one > 0 for one in (*amounts, found.inside.latency, found.inside.bandwidth))
        assert (found.hosts, found.ranks_per_host, found.between) == (1, 2, Machine().between)
        assert parse_machine(machine_json(found), "written").ranks_per_host == 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_files_that_are_there_can_be_read(path) -> None:
    ranks = {"one_host_8": 8, "two_hosts_8": 16, "64_hosts_8": 512}[path.stem]
    machine = load_machine(path)
    assert machine.hosts * machine.ranks_per_host == ranks
    # 100 Gbit/s.
    assert machine.between.bandwidth == 12.5e9
