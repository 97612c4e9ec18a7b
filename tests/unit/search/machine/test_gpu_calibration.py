"""GPUs that are not there are measured by a clock of a millisecond a call, so that every rate is known beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.errors import ConfigurationError
from mpiparallel.search.machine.cluster_file import machine_json, parse_machine
from mpiparallel.search.machine.gpu_calibration import measure_gpus
from mpiparallel.search.machine.machine import COLLECTIVES, Machine
from tests.conformance.hidden_arrays.backend import hidden_backend
from tests.conformance.hidden_arrays.ranks import gpus_of_their_own, travel_by

EXTENTS, MESSAGES, BYTES = (4, 8), (64, 4096), 1 << 12


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        yield patch


def measured(communicator: Any) -> Machine:
    return measure_gpus(communicator, hidden_backend(), EXTENTS, MESSAGES, BYTES)


@pytest.mark.parametrize("way", ["nccl", "staging"])
def test_rates_are_those_of_the_clock_and_a_cluster_file_has_them(device: pytest.MonkeyPatch, way: str) -> None:
    travel_by(device, way)
    machine, *others = run_world(4, measured)
    assert machine.ranks_per_host == 4
    for found in (machine.products, machine.products_16):
        np.testing.assert_allclose(found, [(2.0 * extent**3, 2.0 * extent**3 / 1e-3) for extent in EXTENTS])
    np.testing.assert_allclose(machine.memory_bandwidth, 2 * BYTES / 1e-3)
    np.testing.assert_allclose(machine.launch, 1e-3)
    np.testing.assert_allclose(machine.reduction_rate, BYTES / 1e-3)
    # Numbers that the caches hold are added in a call, too.
    np.testing.assert_allclose(machine.operation_rate, (1 << 20) / 1e-3)
    # By this clock messages take no time, which counts as a nanosecond: two rounds, and three quarters from others.
    assert machine.inside.latency == pytest.approx(1e-9 / 2)
    assert machine.inside.bandwidth == pytest.approx(3 / 4 * MESSAGES[-1] / 1e-9)
    assert (machine.hosts, machine.cores, machine.between) == (1, 0, Machine().between)
    assert [(one.kind, one.ranks) for one in machine.collectives] == [(kind, n) for n in (2, 4) for kind in COLLECTIVES]
    for one in machine.collectives:
        assert all(low < high for low, high in pairwise(size for size, _ in one.times))
        assert all(0 < short <= long for short, long in pairwise(seconds for _, seconds in one.times))
    again = parse_machine(machine_json(machine), "what was measured")
    assert again.products_16 == pytest.approx(np.array(machine.products_16), rel=1e-5)
    assert all(one.products == machine.products for one in others)


def test_one_gpu_has_no_links_and_those_stay_as_they_are_assumed(device: pytest.MonkeyPatch) -> None:
    (machine,) = run_world(1, measured)
    assert (machine.inside, machine.between, machine.collectives) == (Machine().inside, Machine().between, ())


def test_ranks_without_gpus_are_told_so(device: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="without --gpu"):
        measure_gpus(alone(), NumpyBackend())
