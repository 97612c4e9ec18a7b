"""Machines in files: what is read and written, and every fault by line and field."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.errors import ConfigurationError
from mpiparallel.search.machine import kept
from mpiparallel.search.machine.cluster_file import load_machine, machine_json, parse_machine
from mpiparallel.search.machine.kernel_times import PARTS, KernelTimes
from mpiparallel.search.machine.machine import COLLECTIVES, CollectiveTimes, Link, Machine

TWO_HOSTS = """{
  "hosts": 2,
  "ranks_per_host": 16,
  "memory_gb": 32,
  "products": [[1000, 1.5], [1000000, 40]],
  "kernels": {"MaxPool": {"call_us": 3, "bytes_read_ps": 20}}, "collectives": {"gather": {"2": [[1000, 20]]}},
  "between": {"latency_us": 15, "bandwidth_gb": 12.5}
}"""


def test_a_file_says_what_it_says_and_leaves_the_rest_as_it_is() -> None:
    found = parse_machine(TWO_HOSTS, "two.json")
    assert (found.hosts, found.ranks_per_host, found.memory) == (2, 16, 32e9)
    assert found.products == ((1000, 1.5e9), (1e6, 40e9))
    assert found.collectives == (CollectiveTimes("gather", 2, ((1000.0, pytest.approx(20e-6)),)),)
    assert found.kernels == (KernelTimes("MaxPool", call=pytest.approx(3e-6), bytes_read=pytest.approx(20e-12)),)
    assert found.between == Link(pytest.approx(15e-6), 12.5e9)
    assert (found.inside, found.launch) == (Machine().inside, Machine().launch)


amounts = st.floats(1e-3, 1e6).map(lambda number: float(f"{number:.4g}"))
links = st.builds(lambda latency, rate: Link(latency * 1e-6, rate * 1e9), amounts, amounts)


times = st.builds(CollectiveTimes, st.sampled_from(COLLECTIVES), st.integers(2, 9), st.just(((1e3, 5e-6), (2e3, 8e-6))))
collectives = st.lists(times, max_size=4, unique_by=lambda one: (one.kind, one.ranks)).map(tuple)

seconds = st.one_of(st.just(0.0), st.floats(1e-12, 1e-3).map(lambda number: float(f"{number:.4g}")))
kernels = st.builds(KernelTimes, st.sampled_from(("Conv2D", "MaxPool", "element-wise")), *[seconds] * len(PARTS))
all_kernels = st.lists(kernels, max_size=3, unique_by=lambda one: one.name).map(tuple)
machines = st.builds(
    Machine,
    st.integers(1, 99),
    st.integers(1, 99),
    inside=links,
    between=links,
    kernels=all_kernels,
    collectives=collectives,
)


@given(machines)
def test_what_is_written_is_read_again(machine) -> None:
    again = parse_machine(machine_json(machine), "copy")
    assert (again.hosts, again.ranks_per_host, again.products) == (
        machine.hosts,
        machine.ranks_per_host,
        machine.products,
    )
    told = {(one.kind, one.ranks): pytest.approx(np.ravel(one.times)) for one in machine.collectives}
    assert {(one.kind, one.ranks): np.ravel(one.times) for one in again.collectives} == told
    assert [one.name for one in again.kernels] == [one.name for one in machine.kernels]
    for read, written in zip(again.kernels, machine.kernels, strict=True):
        assert [getattr(read, part) for part in PARTS] == pytest.approx([getattr(written, part) for part in PARTS])
    for read, written in ((again.inside, machine.inside), (again.between, machine.between)):
        assert read.latency == pytest.approx(written.latency, rel=1e-5)
        assert read.bandwidth == pytest.approx(written.bandwidth, rel=1e-5)


FAULTS = {
    '"hosts": 2': ('"hosts": 0', "two.json:2: hosts: 0 must be a whole number above 0"),
    '"memory_gb": 32': ('"memory_gb": "32"', 'two.json:4: memory_gb: "32" must be a number above 0'),
    "[1000000, 40]": ("[100, 40]", "two.json:5: products[1]: 100 operations come after 1000; begin with the smallest"),
    '"gather"': (
        '"gathers"',
        "two.json:6: collectives.gathers: is not known; known are reduce, reduce_scatter, gather,",
    ),
    '"2":': ('"two":', 'two.json:6: collectives.gather.two: "two" must be a number of ranks, 2 or more'),
    "[[1000, 20]]": ("20", 'two.json:6: collectives.gather["2"]: 20 must be a list of [bytes, microseconds]'),
    '{"2": [[1000, 20]]}': (
        "[]",
        "two.json:6: collectives.gather: [] is no object; write {...} with numbers of ranks",
    ),
    '"call_us"': ('"call"', "two.json:6: kernels.MaxPool.call: is not known; known are call_us, operand_us,"),
    '{"call_us": 3, "bytes_read_ps": 20}': (
        "7",
        "two.json:6: kernels.MaxPool: 7 is no object; write {...} with call_us, operand_us,",
    ),
    "[1000, 1.5]": ("[1000]", "two.json:5: products[0]: [...] must be a pair [operations, gflops]"),
    '"latency_us": 15, ': ("", "two.json:7: between: latency_us is missing; give latency_us and bandwidth_gb"),
    '{"latency_us": 15, "bandwidth_gb": 12.5}': (
        "7",
        "two.json:7: between: 7 is no object; write {...} with latency_us",
    ),
    "ranks_per_host": ("ranks", "two.json:3: ranks: is not known; known are hosts, ranks_per_host,"),
    '"hosts": 2,': ('"hosts": 2', "two.json:3: Expecting ',' delimiter"),
}


@pytest.mark.parametrize("right", FAULTS)
def test_a_fault_is_told_by_its_line_and_field(right) -> None:
    wrong, told = FAULTS[right]
    with pytest.raises(ConfigurationError) as raised:
        parse_machine(TWO_HOSTS.replace(right, wrong), "two.json")
    assert str(raised.value).startswith(told)


def test_a_measured_machine_is_kept_and_one_that_cannot_be_read_is_not_used(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert kept.kept_machine() == Machine()
    path = kept.keep_machine(Machine(ranks_per_host=3))
    assert kept.kept_machine() == load_machine(path)
    assert kept.kept_machine().ranks_per_host == 3
    path.write_text("{")
    assert kept.kept_machine() == Machine()
