"""Machines in files: what is read and written, and every fault by line and field."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.errors import ConfigurationError
from mpiparallel.search.machine import kept
from mpiparallel.search.machine.cluster_file import load_machine, machine_json, parse_machine
from mpiparallel.search.machine.machine import Link, Machine

TWO_HOSTS = """{
  "hosts": 2,
  "ranks_per_host": 16,
  "memory_gb": 32,
  "products": [[1000, 1.5], [1000000, 40]],
  "between": {"latency_us": 15, "bandwidth_gb": 12.5}
}"""


def test_a_file_says_what_it_says_and_leaves_the_rest_as_it_is() -> None:
    found = parse_machine(TWO_HOSTS, "two.json")
    assert (found.hosts, found.ranks_per_host, found.memory) == (2, 16, 32e9)
    assert found.products == ((1000, 1.5e9), (1e6, 40e9))
    assert found.between == Link(pytest.approx(15e-6), 12.5e9)
    assert (found.inside, found.launch) == (Machine().inside, Machine().launch)


amounts = st.floats(1e-3, 1e6).map(lambda number: float(f"{number:.4g}"))
links = st.builds(lambda latency, rate: Link(latency * 1e-6, rate * 1e9), amounts, amounts)


@given(st.builds(Machine, st.integers(1, 99), st.integers(1, 99), inside=links, between=links))
def test_what_is_written_is_read_again(machine) -> None:
    again = parse_machine(machine_json(machine), "copy")
    assert (again.hosts, again.ranks_per_host, again.products) == (
        machine.hosts,
        machine.ranks_per_host,
        machine.products,
    )
    for read, written in ((again.inside, machine.inside), (again.between, machine.between)):
        assert read.latency == pytest.approx(written.latency, rel=1e-5)
        assert read.bandwidth == pytest.approx(written.bandwidth, rel=1e-5)


FAULTS = {
    '"hosts": 2': ('"hosts": 0', "two.json:2: hosts: 0 must be a whole number above 0"),
    '"memory_gb": 32': ('"memory_gb": "32"', 'two.json:4: memory_gb: "32" must be a number above 0'),
    "[1000000, 40]": ("[100, 40]", "two.json:5: products[1]: 100 operations come after 1000; begin with the smallest"),
    "[1000, 1.5]": ("[1000]", "two.json:5: products[0]: [...] must be a pair [operations, gflops]"),
    '"latency_us": 15, ': ("", "two.json:6: between: latency_us is missing; give latency_us and bandwidth_gb"),
    '{"latency_us": 15, "bandwidth_gb": 12.5}': (
        "7",
        "two.json:6: between: 7 is no object; write {...} with latency_us",
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
