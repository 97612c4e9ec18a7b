"""What is measured, on ranks that are threads; and the files that are there."""

from __future__ import annotations

import os
from math import isfinite
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import run_world
from mpiparallel.ops.operations import ReLU
from mpiparallel.search.cost.prices import Prices
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
        assert found.cores == len(os.sched_getaffinity(0))
        assert parse_machine(machine_json(found), "written").ranks_per_host == 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_files_that_are_there_can_be_read(path) -> None:
    ranks = {"one_host_8": 8, "two_hosts_8": 16, "64_hosts_8": 512}[path.stem]
    machine = load_machine(path)
    assert machine.hosts * machine.ranks_per_host == ranks
    # 100 Gbit/s.
    assert machine.between.bandwidth == 12.5e9


def test_ranks_that_outnumber_their_cores_take_turns() -> None:
    relu, spec = ReLU(), TensorSpec((1 << 20,), np.dtype(np.float32))
    own, shared = (Prices(Machine(ranks_per_host=8, cores=cores)).operator(relu, [spec], [spec]) for cores in (0, 2))
    assert shared == pytest.approx(4 * own)
    assert (Machine(ranks_per_host=2, cores=8).turns, Machine(ranks_per_host=8, cores=8).turns) == (1.0, 1.0)
