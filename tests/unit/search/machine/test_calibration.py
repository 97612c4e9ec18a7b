"""What is measured, on ranks that are threads; and the files that are there."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count, pairwise
from math import isfinite
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mpiparallel.backend import jit
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.ops import MatMul, ReLU
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine import calibration, libraries
from mpiparallel.search.machine.calibration import measure
from mpiparallel.search.machine.cluster_file import load_machine, machine_json, parse_machine
from mpiparallel.search.machine.collective_kernels import collective_kernel
from mpiparallel.search.machine.machine import COLLECTIVES, Machine
from mpiparallel.search.machine.stopwatch import Stopwatch

FILES = sorted(Path("clusters").glob("*.json"))


def test_ranks_of_a_host_measure_rates_and_the_link_inside_and_assume_the_link_between(monkeypatch) -> None:
    monkeypatch.setattr(calibration, "_SIZES", (1 << 10, 1 << 14))
    for found in run_world(2, measure):
        rates = [rate for _, rate in found.products]
        amounts = [*rates, found.operation_rate, found.memory_bandwidth, found.reduction_rate, found.launch]
        assert all(isfinite(one) and one > 0 for one in (*amounts, found.inside.latency, found.inside.bandwidth))
        assert (found.hosts, found.ranks_per_host, found.between) == (1, 2, Machine().between)
        assert found.cores == len(os.sched_getaffinity(0))
        assert [(one.kind, one.ranks) for one in found.collectives] == [(kind, 2) for kind in COLLECTIVES]
        for one in found.collectives:
            assert all(low < high for low, high in pairwise(size for size, _ in one.times))
            assert all(0 < short <= long for short, long in pairwise(seconds for _, seconds in one.times))
        assert parse_machine(machine_json(found), "written").ranks_per_host == 2


def test_a_thin_and_a_square_product_tell_what_operations_take_and_what_matrices_take(monkeypatch) -> None:
    rate, bandwidth = 1e11, 1e10

    def product(measuring, rows, extent):
        return 2 * rows * extent**2 / rate + 4 * (extent**2 + 2 * rows * extent) / bandwidth

    monkeypatch.setattr(calibration._Measuring, "_product", product)
    (machine,) = run_world(1, measure)
    assert machine.operand_bandwidth == pytest.approx(bandwidth)
    assert machine.products[-1][1] == pytest.approx(rate)
    assert [operations for operations, _ in machine.products] == [2.0 * n**3 for n in (16, 64, 256, 512, 768)]


def test_rates_of_memory_are_those_of_8_mib_and_that_of_operations_is_what_the_first_cache_holds() -> None:
    """By a clock that ticks once each time it is read, so all that is measured takes a second."""
    ticks = count(1.0)
    measuring = calibration._Measuring(alone(), Stopwatch(lambda: next(ticks)))
    assert (measuring.copied(), measuring.summed(), measuring.operation_rate()) == (2 * 2**23, 2**23, 200 * 2**12)


def test_a_link_has_the_latency_of_few_bytes_and_the_bandwidth_of_what_many_take_longer(monkeypatch) -> None:
    monkeypatch.setattr(calibration, "_gathered", lambda group, size, cores: 2e-5 + (size >= 1 << 20) * 1e-3)
    (link, _, _, _) = run_world(4, lambda everyone: calibration._link(everyone, range(4), 4))
    assert (link.latency, link.bandwidth) == (1e-5, pytest.approx(calibration._MESSAGE * 3 / 4 / 1e-3))


@pytest.mark.parametrize(
    ("kind", "moved"), [("reduce", 1.0), ("reduce_scatter", 1.0), ("gather", 1.0), ("exchange", 0.5)]
)
def test_a_collective_is_measured_on_as_many_bytes_as_a_step_is_priced_by(kind, moved) -> None:
    """Of what one of two ranks has after an exchange, half is its peer's."""

    def job(communicator):
        kernel = collective_kernel(communicator, kind, 2, 1 << 14)
        kernel.run()
        return kernel.size

    assert run_world(4, job) == [moved * (1 << 14)] * 4


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_files_that_are_there_can_be_read(path) -> None:
    hosts, gigabits = {
        "one_host_8": (1, 100),
        "two_hosts_8": (2, 100),
        "64_hosts_8": (64, 100),
        "one_host_8_h100": (1, 3200),
        "64_hosts_8_h100": (64, 3200),
    }[path.stem]
    machine = load_machine(path)
    assert (machine.hosts, machine.ranks_per_host) == (hosts, 8)
    assert machine.between.bandwidth == gigabits * 1e9 / 8
    assert bool(machine.products_16) == path.stem.endswith("h100")


def test_products_of_16_bits_have_rates_of_their_own() -> None:
    machine = Machine(products=((1e3, 1e9),), products_16=((1e3, 8e9),), memory_bandwidth=1e15, launch=0.0)
    of_32, of_16 = ([TensorSpec((64, 64), np.dtype(kind))] * 2 for kind in (np.float32, np.float16))
    priced = [Prices(machine).operator(MatMul(), specs, specs[:1]) for specs in (of_32, of_16)]
    assert priced == pytest.approx([2 * 64**3 / 1e9, 2 * 64**3 / 8e9])
    assert parse_machine(machine_json(machine), "written").products_16 == machine.products_16


def test_ranks_that_outnumber_their_cores_take_turns() -> None:
    relu, spec = ReLU(), TensorSpec((1 << 20,), np.dtype(np.float32))
    own, shared = (Prices(Machine(ranks_per_host=8, cores=cores)).operator(relu, [spec], [spec]) for cores in (0, 2))
    assert shared == pytest.approx(4 * own)
    assert (Machine(ranks_per_host=2, cores=8).turns, Machine(ranks_per_host=8, cores=8).turns) == (1.0, 1.0)


def test_a_product_takes_its_operations_and_its_matrices() -> None:
    machine = Machine(products=((1e3, 1e9),), operand_bandwidth=1e8, memory_bandwidth=1e12, launch=0.0)
    x, weight, y = (TensorSpec(shape, np.dtype(np.float32)) for shape in ((2, 100), (100, 50), (2, 50)))
    seconds = 2 * 2 * 100 * 50 / 1e9 + 4 * (200 + 5000 + 100) / 1e8
    assert Prices(machine).operator(MatMul(), [x, weight], [y]) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("added", "wanted"), [((5e-3, 3e-3, 4e-3), 3e-3), ((0.0, 9e-3, 1e-3), 0.0), ((2e-3, 2e-3, 9e-3), 1e-3)]
)
def test_to_go_on_costs_what_a_collective_adds_to_a_computation_beyond_what_it_takes_alone(
    added: tuple[float, ...], wanted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sizes are computed; what counts is the one in the middle, and never less than nothing."""
    alone, computing = 1e-3, 7e-3
    spent = [alone, *(seconds for one in added for seconds in (computing + one, computing))]

    found, calls = [], iter(spent)
    monkeypatch.setattr(calibration, "_spent", lambda host, run, watch: (run(), next(calls))[1])
    everyone = SimpleNamespace(size=2, all_reduce=lambda numbers: found.append(numbers.nbytes))
    assert calibration._resuming(everyone, 1, Stopwatch()) == pytest.approx(wanted)
    # Once alone, and once with each size.
    assert found == [4096] * 4
    assert next(calls, None) is None


def test_what_a_call_takes_is_the_average_of_all_ranks_once_it_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    def timed(host, run, watch, most_calls, times) -> float:
        assert ran.count(host.rank) == 1
        return [1.0, 2.0, 6.0][host.rank]

    monkeypatch.setattr(calibration, "_timed", timed)
    found = run_world(3, lambda host: calibration._spent(host, lambda: ran.append(host.rank), Stopwatch()))
    assert found == [3.0] * 3


@pytest.mark.parametrize("cores", [2, 3])
def test_where_each_rank_has_a_core_to_go_on_costs_nothing(cores: int) -> None:
    assert calibration._resuming(SimpleNamespace(size=2), cores, Stopwatch()) == 0.0


def test_where_the_system_does_not_say_libraries_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter(["1 100 1", "1 160 1", "1 160 1", "1 100 1"])

    def read(encoding: str) -> str:
        if (text := next(told, None)) is None:
            raise FileNotFoundError(2, "No such file")
        return text

    monkeypatch.setattr(libraries, "Path", lambda name: SimpleNamespace(read_text=read))
    # The last time it has become smaller; after that nothing is told.
    found = [libraries.library_bytes() for _ in range(3)]
    assert found == [60 * os.sysconf("SC_PAGE_SIZE"), 0, 0]


def test_what_compiles_a_loop_does_not_count_as_what_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit, "is_there", lambda: False)
    libraries.compile_elsewhere()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(jit, "is_there", lambda: True)
    monkeypatch.delitem(sys.modules, "llvmlite", raising=False)
    libraries.compile_elsewhere()
    assert [path.suffix for path in (tmp_path / "mpiparallel").iterdir()] == [".o"]
    program = (
        "import sys; from mpiparallel.search.machine import libraries as l; l.library_bytes(); print(*sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert "llvmlite" in told
    assert "numba" not in told
