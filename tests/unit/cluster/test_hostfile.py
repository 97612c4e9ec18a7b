from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.hostfile import Host, Hostfile
from mpiparallel.cluster.rank_table import Device, RankTable, Server
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
        ("node[08-10,3]:2\nlogin,node3", [("node08", 2), ("node09", 2), ("node10", 2), ("node3", 3), ("login", 1)]),
        ("n[1-2] slots=4", [("n1", 4), ("n2", 4)]),
        ("[fe80::1]:4\n[fe80:0::2]\nfe80::3%eth0 slots=2", [("fe80::1", 4), ("fe80::2", 1), ("fe80::3%eth0", 2)]),
        ("[::1]:2\nlocalhost:1", [("localhost", 3)]),
    ],
)
def test_each_dialect_is_read(text: str, hosts: list[tuple[str, int]]) -> None:
    hostfile = Hostfile.parse(text, "hosts")
    assert [(host.name, host.slots) for host in hostfile.hosts] == hosts
    assert hostfile.slots == sum(slots for _, slots in hosts)


FAULTS = [
    ("node1 slot=2", '"slot=2" is unknown; write "name slots=n" or "name:n"'),
    ("node1:0", '"node1:0": "0" is no count; write a whole number from 1 to 999999'),
    ("node1 slots=-1", '"slots=-1": "-1" is no count; write a whole number from 1 to 999999'),
    ("node1 slots=", '"slots=": "" is no count; write a whole number from 1 to 999999'),
    ("node1 slots=1000000", '"slots=1000000": "1000000" is no count; write a whole number from 1 to 999999'),
    ("node1:x", '"node1:x": "x" is no count; write a whole number from 1 to 999999'),
    ("node1 8", '"8" stands alone; write "node1 slots=8"'),
    ("a b", '"b" is unknown; write "name slots=n" or "name:n"'),
    (
        "-x:2",
        '"-x" is no host name: those have letters, digits, dots and hyphens, a letter or digit first; write',
    ),
    ("10.0.0.300:2", '"10.0.0.300" is no IPv4 address: each of its four numbers is 0 to 255; write "name slots=n"'),
    ("17:2", '"17" is a number, not a host; write "name slots=n" or "name:n"'),
    ("node1:2:3", '"node1:2:3" has more than one ":"; write "name slots=n" or "name:n"'),
    ("fe80::1:4", '"fe80::1:4" looks like an IPv6 address; write it in brackets, as in [fe80::1]:4'),
    ("[fe80::1:4", '"[fe80::1:4" has more than one ":"; write "name slots=n" or "name:n"'),
    ("[fe80:1]:4", '"[fe80:1]:4": no IPv6 address is in the brackets; write one, as in [fe80::1]:4'),
    ("node1:2 slots=2", '"node1:2" and "slots=" both give a count; keep one'),
    ("node1 slots=2 slots=3", '"slots=3": "slots" is given twice; keep one'),
    ("node1 slots=4 max_slots=2", '"max_slots=2" is less than the 4 slots; raise it, or lower the slots'),
    ("ann@node1:2", '"ann@node1:2" names a user; say it in the User of ~/.ssh/config, and write the host alone'),
    (
        "node1:2 user=ann",
        '"user=ann" is not read from hostfiles; say it in the User of ~/.ssh/config, and',
    ),
    ("node[1-3:2", 'node list "node[1-3": a bracket has no other; write it as in "node[01-03,7],login"'),
    ("node[3-1]", 'node list "node[3-1]": the range "3-1" goes backwards; write it as in "node[01-03,7],login"'),
    ("node[0-999999]", 'node list "node[0-999999]": it has more than 100000 hosts; write it as'),
    ("n[0-999]m[0-999]", 'node list "n[0-999]m[0-999]": it has more than 100000 hosts; write it as'),
    ("a,,b", 'node list "a,,b": a name is empty, or a bracket has no other; write it as'),
]


@pytest.mark.parametrize(("line", "told"), FAULTS, ids=[line for line, _ in FAULTS])
def test_problem_is_named_with_line_value_and_mend(line: str, told: str) -> None:
    with pytest.raises(RankTableError) as caught:
        Hostfile.parse(f"node0:1\n{line}", "hosts")
    assert str(caught.value).startswith(f"hosts:2: {told}")


def test_all_faults_come_at_once() -> None:
    with pytest.raises(RankTableError, match=r"hosts: 2 problems\nhosts:1:.*\nhosts:3:"):
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


def test_every_shipped_hostfile_of_two_hosts_says_the_same() -> None:
    told = {path.name: Hostfile.load(path) for path in SHIPPED.iterdir() if path.name.endswith("_2x8")}
    assert set(told) == {"openmpi_2x8", "mpich_2x8", "repeated_2x8", "slurm_2x8"}
    assert set(told.values()) == {Hostfile((Host("node1", 8), Host("node2", 8)))}
    assert Hostfile.load(SHIPPED / "localhost").hosts[0].is_local
    assert [host.name for host in Hostfile.load(SHIPPED / "ipv6").hosts] == ["fd00::1", "fd00::2"]


def test_rank_table_is_a_hostfile_in_the_order_of_ranks(tmp_path: Path) -> None:
    table = RankTable(
        (
            Server("b", (Device(0, "1.1.1.1", 2),)),
            Server("a", (Device(0, "1.1.2.1", 1), Device(1, "1.1.2.2", 0))),
        )
    )
    (tmp_path / "table").write_text(table.to_json())
    assert Hostfile.load(tmp_path / "table").hosts == (Host("a", 2), Host("b", 1))
    shipped = Path(__file__).parents[3] / "rank_tables" / "rank_table_16pcs.json"
    assert Hostfile.load(shipped).hosts == (Host("localhost", 16),)
    with pytest.raises(RankTableError, match="version: is missing"):
        Hostfile.parse('{"server_list": []}', "hosts")


def test_ipv6_and_limits_are_written_as_each_mpi_reads_them() -> None:
    hostfile = Hostfile.parse("[fe80::1] slots=2 max_slots=4", "hosts")
    # Open MPI 5.0.11 starts its daemon on "fe80::1" for this line, and reports a parse error for "[fe80::1]".
    assert hostfile.to_openmpi() == "fe80::1 slots=2 max_slots=4\n"
    with pytest.raises(RankTableError, match='host "fe80::1": MPICH reads no IPv6'):
        hostfile.to_mpich()


@pytest.mark.parametrize("text", ["n[0-99999]\n" * 1000, "x" * 1_000_000 + "[0-99999]", "a" + " " * 1_000_000 + "b"])
def test_bomb_is_refused_soon(text: str) -> None:
    with pytest.raises(RankTableError, match="hosts"):
        Hostfile.parse(text, "hosts")


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RankTableError, match="give the path of a hostfile"):
        Hostfile.load(tmp_path / "absent")


@pytest.mark.parametrize(
    ("text", "openmpi", "mpich"),
    [
        ("a:2\nb max_slots=3", "a slots=2\nb slots=1 max_slots=3\n", "a:2\nb:1\n"),
        ("localhost", "localhost slots=1\n", "localhost:1\n"),
    ],
)
def test_each_mpi_gets_a_line_a_host(text: str, openmpi: str, mpich: str) -> None:
    hostfile = Hostfile.parse(text, "hosts")
    assert (hostfile.to_openmpi(), hostfile.to_mpich()) == (openmpi, mpich)


def test_an_address_that_mpich_does_not_read_is_refused_with_the_mend() -> None:
    with pytest.raises(RankTableError) as caught:
        Hostfile.parse("a:1\n[fe80::1]:2", "hosts").to_mpich()
    assert str(caught.value) == (
        'host "fe80::1": MPICH reads no IPv6 addresses in hostfiles; give the host a name in /etc/hosts or DNS and '
        "write that, or use Open MPI"
    )


def test_servers_of_a_table_that_are_this_machine_are_one_host_in_the_order_of_their_lowest_rank() -> None:
    servers = (
        Server("b", (Device(0, "1.1.1.1", 3),)),
        Server("127.0.0.1", (Device(0, "1.1.2.1", 2), Device(1, "1.1.2.2", 0))),
        Server("10.*.*.*", (Device(0, "1.1.3.1", 1),)),
    )
    hosts = Hostfile.of_table(RankTable(servers)).hosts
    assert hosts == (Host("localhost", 3), Host("b", 1))
    assert [host.is_local for host in hosts] == [True, False]


@pytest.mark.parametrize("text", ["", " \n# none\n"])
def test_a_hostfile_without_a_host_is_told_what_to_write(text: str) -> None:
    with pytest.raises(RankTableError) as caught:
        Hostfile.parse(text, "hosts")
    assert str(caught.value) == 'hosts: lists no host; write one a line, "name slots=n" or "name:n"'
