"""The text of a cluster file, as it is written, and each way in which a field of one may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.search.machine.cluster_file import load_machine, machine_json, parse_machine
from mpiparallel.search.machine.kept import keep_machine, kept_machine
from mpiparallel.search.machine.kernel_times import KernelTimes
from mpiparallel.search.machine.machine import CollectiveTimes, Link, Machine

FULL = Machine(
    hosts=2,
    ranks_per_host=16,
    cores=4,
    memory=32e9,
    libraries=2e8,
    products=((1e3, 1.5e9), (1e6, 4e10)),
    products_16=((1e3, 3e9),),
    operand_bandwidth=7e9,
    operation_rate=2e9,
    memory_bandwidth=5e9,
    launch=4e-6,
    resuming=9e-6,
    inside=Link(3e-6, 2e9),
    between=Link(15e-6, 12.5e9),
    reduction_rate=6e9,
    kernels=(KernelTimes("MaxPool", 1e-6, 2e-6, 3e-12, 4e-12, 5e-12, 6e-12, 7e-12), KernelTimes("ReLU", call=1e-6)),
    collectives=(
        CollectiveTimes("gather", 2, ((1e3, 20e-6),)),
        CollectiveTimes("reduce", 2, ((1e3, 30e-6),)),
        CollectiveTimes("gather", 4, ((1e3, 40e-6), (2e3, 50e-6))),
    ),
)
TEXT = """{
  "hosts": 2,
  "ranks_per_host": 16,
  "cores": 4,
  "memory_gb": 32.0,
  "libraries_gb": 0.2,
  "operands_gb": 7.0,
  "gflops": 2.0,
  "memory_bandwidth_gb": 5.0,
  "reduction_gb": 6.0,
  "launch_us": 4.0,
  "resuming_us": 9.0,
  "products": [[1000.0, 1.5], [1000000.0, 40.0]],
  "products_16": [[1000.0, 3.0]],
  "inside": {"latency_us": 3.0, "bandwidth_gb": 2.0},
  "between": {"latency_us": 15.0, "bandwidth_gb": 12.5},
  "collectives": {"gather": {"2": [[1000.0, 20.0]], "4": [[1000.0, 40.0], [2000.0, 50.0]]}, \
"reduce": {"2": [[1000.0, 30.0]]}},
  "kernels": {"MaxPool": {"call_us": 1.0, "operand_us": 2.0, "operations_ps": 3.0, "bytes_read_ps": 4.0, \
"bytes_written_ps": 5.0, "bytes_gathered_ps": 6.0, "bytes_turned_ps": 7.0}, "ReLU": {"call_us": 1.0}}
}
"""


def test_all_of_a_machine_is_written_a_field_a_line_in_the_units_of_the_file() -> None:
    assert machine_json(FULL) == TEXT


def test_all_of_a_file_is_read_in_the_units_of_the_file() -> None:
    found = parse_machine(TEXT, "full.json")
    for name, wanted in vars(FULL).items():
        if isinstance(wanted, float):
            assert getattr(found, name) == pytest.approx(wanted, rel=1e-12), name
    assert (found.hosts, found.ranks_per_host, found.cores) == (2, 16, 4)
    assert machine_json(found) == TEXT


def test_what_is_not_known_of_a_machine_is_not_written() -> None:
    text = machine_json(Machine(operation_rate=inf, resuming=0.0))
    for name in ("cores", "memory_gb", "libraries_gb", "operands_gb", "gflops", "resuming_us", "products_16"):
        assert f'"{name}"' not in text
    for name in ("collectives", "kernels"):
        assert name not in text
    assert text.startswith('{\n  "hosts": 1,\n  "ranks_per_host": 8,\n  "memory_bandwidth_gb": 5.0,')


def test_numbers_are_written_with_six_digits() -> None:
    assert '"gflops": 1.23457' in machine_json(Machine(operation_rate=1.23456789e9))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "file.json:1: [] is no object; write {...} with hosts, ranks_per_host, cores, memory_gb, "),
        ('{\n"hosts": 1.0}', "file.json:2: hosts: 1.0 must be a whole number above 0"),
        ('{"hosts": true}', "file.json:1: hosts: true must be a whole number above 0"),
        ('{"cores": -1}', "file.json:1: cores: -1 must be a whole number above 0"),
        ('{"gflops": 0}', "file.json:1: gflops: 0 must be a number above 0"),
        ('{"gflops": true}', "file.json:1: gflops: true must be a number above 0"),
        ('{"gflops": Infinity}', "file.json:1: gflops: Infinity must be a number above 0"),
        ('{"products": []}', "file.json:1: products: [] must be a list of [operations, gflops]"),
        ('{"products": [[1, 2, 3]]}', "file.json:1: products[0]: [...] must be a pair [operations, gflops]"),
        ('{"products": [3]}', "file.json:1: products[0]: 3 must be a pair [operations, gflops]"),
        ('{"products": [[0, 2]]}', "file.json:1: products[0][0]: 0 must be a number above 0"),
        ('{"products": [[1, "2"]]}', 'file.json:1: products[0][1]: "2" must be a number above 0'),
        (
            '{"products": [[1, 1], [5, 1], [3, 1]]}',
            "file.json:1: products[2]: 3 operations come after 5; begin with the smallest",
        ),
        # What is no number is not held against those beside it.
        ('{"products": [[2, 1], ["x", 1]]}', 'file.json:1: products[1][0]: "x" must be a number above 0'),
        ('{"products": [["x", 1], [0.5, 1]]}', 'file.json:1: products[0][0]: "x" must be a number above 0'),
        (
            '{"products_16": [[9, 1], [9, 2]]}',
            "file.json:1: products_16[1]: 9 operations come after 9; begin with the smallest",
        ),
        (
            '{"inside": {"latency_us": 1}}',
            "file.json:1: inside: bandwidth_gb is missing; give latency_us and bandwidth_gb",
        ),
        (
            '{"inside": {"latency_us": 1, "bandwidth_gb": 1, "more": 1}}',
            "file.json:1: inside.more: is not known; known are latency_us, bandwidth_gb",
        ),
        (
            '{"inside": {"latency_us": 0, "bandwidth_gb": 1}}',
            "file.json:1: inside.latency_us: 0 must be a number above 0",
        ),
        ('{"kernels": 1}', "file.json:1: kernels: 1 is no object; write {...} with names of kernels"),
        ('{"kernels": {"A": {"call_us": 0}}}', "file.json:1: kernels.A.call_us: 0 must be a number above 0"),
        (
            '{"collectives": {"reduce": {"1": [[1, 1]]}}}',
            'file.json:1: collectives.reduce["1"]: "1" must be a number of ranks, 2 or more',
        ),
        *(
            (
                f'{{"collectives": {{"reduce": {{"{ranks}": [[1, 1]]}}}}}}',
                f'file.json:1: collectives.reduce{path}: "{ranks}" must be a number of ranks, 2 or more',
            )
            for ranks, path in (("0", '["0"]'), ("-2", '["-2"]'), ("2.0", '["2.0"]'), ("two", ".two"))
        ),
        (
            '{"collectives": {"reduce": {"2": [[2, 1], [1, 1]]}}}',
            'file.json:1: collectives.reduce["2"][1]: 1 bytes come after 2; begin with the smallest',
        ),
    ],
)
def test_a_field_that_is_wrong_is_named_with_what_it_must_be(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_machine(text, "file.json")
    assert str(raised.value).startswith(told)
    assert "\n" not in str(raised.value)


def test_all_faults_are_told_at_once_by_their_lines() -> None:
    text = '{\n"products": [[2, 0],\n[1, 1]],\n"hosts": 0,\n"word": 1}'
    with pytest.raises(ConfigurationError) as raised:
        parse_machine(text, "file.json")
    assert [line.partition(" must")[0].partition(" is not")[0] for line in str(raised.value).split("\n")] == [
        "file.json:2: products[0][1]: 0",
        "file.json:3: products[1]: 1 operations come after 2; begin with the smallest",
        "file.json:4: hosts: 0",
        "file.json:5: word:",
    ]


FAULTY = """{"inside": {},
"between": {"bandwidth_gb": 1},
"products": [3, [1, 0],
[2, 1, 1], [0, 1],
[0.5, 1]],
"collectives": {"reduce": {"1": [[1, 1]], "0": [],
"2": []}, "gather": 5},
"kernels": {"A": 1,
"B": {"call_us": 0, "word": 1}},
"hosts": 0}"""


def test_no_fault_hides_those_after_it() -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_machine(FAULTY, "file.json")
    assert [line.removeprefix("file.json:").partition("; ")[0] for line in str(raised.value).split("\n")] == [
        "1: inside: latency_us is missing",
        "2: between: latency_us is missing",
        "3: products[0]: 3 must be a pair [operations, gflops]",
        "3: products[1][1]: 0 must be a number above 0",
        "4: products[2]: [...] must be a pair [operations, gflops]",
        "4: products[3][0]: 0 must be a number above 0",
        "5: products[4]: 0.5 operations come after 1",
        '6: collectives.reduce["0"]: "0" must be a number of ranks, 2 or more',
        '6: collectives.reduce["1"]: "1" must be a number of ranks, 2 or more',
        "7: collectives.gather: 5 is no object",
        '7: collectives.reduce["2"]: [] must be a list of [bytes, microseconds]',
        "8: kernels.A: 1 is no object",
        "9: kernels.B.call_us: 0 must be a number above 0",
        "9: kernels.B.word: is not known",
        "10: hosts: 0 must be a whole number above 0",
    ]


def test_text_that_is_no_json_is_told_by_its_line_and_endless_nesting_by_the_first() -> None:
    with pytest.raises(ConfigurationError, match=r"^file\.json:3: .*; write well-formed JSON$"):
        parse_machine("{\n\n]", "file.json")
    with pytest.raises(ConfigurationError, match=r"^file\.json:1: .*; write well-formed JSON$"):
        parse_machine("[" * 100_000, "file.json")


def test_a_file_that_cannot_be_read_is_told_as_one_of_a_cluster(tmp_path: Path) -> None:
    narrow = tmp_path / "narrow.json"
    narrow.write_bytes(b"\xff")
    for path in (tmp_path / "none.json", narrow):
        with pytest.raises(ConfigurationError) as raised:
            load_machine(path)
        assert str(raised.value).startswith(f"{path}: cannot be read (")
        assert str(raised.value).endswith("; give the path of a cluster file")


def test_a_fault_in_a_file_is_told_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text('{"hosts": 0}')
    with pytest.raises(ConfigurationError, match=rf"^{tmp_path}/two\.json:1: hosts: 0 must be"):
        load_machine(tmp_path / "two.json")
    (tmp_path / "two.json").write_text('{"hosts": 2}')
    assert load_machine(tmp_path / "two.json") == Machine(hosts=2)


@pytest.mark.parametrize("content", [b"{", b"\xff"], ids=["no-json", "no-text"])
def test_a_measured_machine_that_cannot_be_read_is_told_and_not_used(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remarks: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "new" / "folder"))
    path = keep_machine(Machine(ranks_per_host=3))
    assert (kept_machine().ranks_per_host, path.name, remarks()) == (3, "machine.json", [])
    path.write_bytes(content)
    assert kept_machine() == Machine()
    (told,) = remarks()
    assert told.startswith(f"the measured machine is not used: {path}:")
    assert told.endswith("; measure it again by mpiparallel calibrate")


def test_what_is_measured_again_takes_the_place_of_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remarks: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert kept_machine() == Machine()
    paths = {keep_machine(Machine(ranks_per_host=ranks)) for ranks in (3, 5)}
    assert kept_machine().ranks_per_host == 5
    assert (len(paths), remarks()) == (1, [])
