from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.hostfile import Host, Hostfile
from mpiparallel.errors import RankTableError

SHIPPED = Path(__file__).parents[3] / "hostfiles"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node1 slots=2\nnode2 slots=3", [("node1", 2), ("node2", 3)]),
        ("node1:2\nnode2:3", [("node1", 2), ("node2", 3)]),
        ("node1\nnode1\nnode2", [("node1", 2), ("node2", 1)]),
        ("# all\n\n  10.0.0.1   slots = 4  max_slots=8 # two sockets\n", [("10.0.0.1", 4)]),
        ("node1:2\nnode2:1\nnode1 slots=1", [("node1", 3), ("node2", 1)]),
    ],
)
def test_each_dialect_is_read(text: str, hosts: list[tuple[str, int]]) -> None:
    hostfile = Hostfile.parse(text, "hosts")
    assert [(host.name, host.slots) for host in hostfile.hosts] == hosts
    assert hostfile.slots == sum(slots for _, slots in hosts)


@pytest.mark.parametrize("line", ["node1 slot=2", "node1:0", "node1 slots=-1", "node1:x", "a b", "-x:2", "node1:2:3"])
def test_fault_is_named_with_line_value_and_mend(line: str) -> None:
    with pytest.raises(RankTableError) as caught:
        Hostfile.parse(f"node0:1\n{line}", "hosts")
    assert str(caught.value) == f'hosts:2: "{line}" is no host; write "name slots=n" or "name:n"'


def test_all_faults_come_at_once() -> None:
    with pytest.raises(RankTableError, match=r"hosts:1:.*\nhosts:3:"):
        Hostfile.parse("a:0\nb:1\nc:0", "hosts")


@pytest.mark.parametrize("text", ["", "# none\n"])
def test_empty_hostfile_is_refused(text: str) -> None:
    with pytest.raises(RankTableError, match="lists no host"):
        Hostfile.parse(text, "hosts")


names = st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True)


@given(st.dictionaries(names, st.integers(1, 999), min_size=1))
def test_written_hostfile_reads_back_the_same(slots: dict[str, int]) -> None:
    hostfile = Hostfile(tuple(Host(name, count) for name, count in slots.items()))
    assert Hostfile.parse(hostfile.to_openmpi(), "openmpi") == hostfile
    assert Hostfile.parse(hostfile.to_mpich(), "mpich") == hostfile


@given(st.text())
def test_any_text_is_read_or_refused_with_our_error(text: str) -> None:
    with suppress(RankTableError):
        assert Hostfile.parse(text, "hosts").slots >= 1


def test_shipped_hostfiles_are_read() -> None:
    assert Hostfile.load(SHIPPED / "openmpi_2x8") == Hostfile.load(SHIPPED / "mpich_2x8")
    assert Hostfile.load(SHIPPED / "localhost").hosts[0].is_local


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RankTableError, match="give the path of a hostfile"):
        Hostfile.load(tmp_path / "absent")
