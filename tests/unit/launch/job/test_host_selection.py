from __future__ import annotations

import pytest

from mpiparallel.cluster.hostfile import Hostfile
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.errors import RankTableError
from mpiparallel.launch.job.host_selection import HostSelection, allocated_ranks, place


def table(*servers: tuple[str, tuple[int, ...]]) -> RankTable:
    return RankTable(
        tuple(
            Server(name, tuple(Device(number, "1.1.1.1", rank) for number, rank in enumerate(ranks)))
            for name, ranks in servers
        )
    )


def hosts(selection: HostSelection) -> list[tuple[str, int]]:
    return [(host.name, host.slots) for host in selection.hosts]


@pytest.mark.parametrize(
    "given_table",
    [
        None,
        table(("10.0.0.1", (0, 1, 2))),
        table(("127.0.0.1", (0, 1)), ("127.0.0.2", (2,))),
        table(("10.*", (0, 1, 2))),
    ],
)
def test_ranks_are_here_unless_other_hosts_are_named(given_table: RankTable | None) -> None:
    assert place(3, given_table, None, {}) == HostSelection((), 3, False)


def test_servers_of_the_table_are_the_hosts() -> None:
    selection = place(3, table(("10.0.0.1", (0, 1)), ("10.0.0.2", (2,))), None, {})
    assert hosts(selection) == [("10.0.0.1", 2), ("10.0.0.2", 1)]
    assert (selection.local_ranks, selection.spans_hosts) == (2, True)


def test_ranks_scattered_over_servers_are_ordered_as_mpi_fills_the_hosts() -> None:
    selection = place(4, table(("10.0.0.1", (3, 0)), ("10.0.0.2", (1, 2))), None, {})
    assert hosts(selection) == [("10.0.0.1", 2), ("10.0.0.2", 2)]
    assert selection.order == RankOrder((0, 3, 1, 2))


def test_servers_are_filled_in_the_order_of_their_ranks() -> None:
    selection = place(3, table(("b", (1, 2)), ("a", (0,))), None, {})
    assert (hosts(selection), selection.order) == ([("a", 1), ("b", 2)], None)


def test_hostfile_in_another_order_than_the_table_changes_nothing() -> None:
    two = table(("a", (0, 1)), ("b", (2, 3)))
    selection = place(4, two, Hostfile.parse("b:8\na:8\nc:8", "hosts"), {})
    assert (hosts(selection), selection.order) == ([("a", 2), ("b", 2)], None)


def test_hostfile_is_followed() -> None:
    selection = place(4, None, Hostfile.parse("node1:3\nnode2:2", "hosts"), {})
    assert hosts(selection) == [("node1", 3), ("node2", 2)]
    assert (selection.local_ranks, selection.spans_hosts) == (3, True)


def test_hostfile_of_this_machine_spans_no_hosts() -> None:
    assert not place(2, None, Hostfile.parse("localhost:4", "hosts"), {}).spans_hosts


def test_hostfile_with_too_few_slots_is_refused() -> None:
    with pytest.raises(RankTableError, match="5 slots for 6 ranks"):
        place(6, None, Hostfile.parse("node1:3\nnode2:2", "hosts"), {})


def test_hostfile_must_fit_the_servers_of_the_table() -> None:
    two = table(("10.0.0.1", (0, 1)), ("10.0.0.2", (2, 3)))
    assert hosts(place(4, two, Hostfile.parse("c:2\nd:4", "hosts"), {})) == [("c", 2), ("d", 2)]
    with pytest.raises(RankTableError, match=r"\[3, 1\] ranks.*\[2, 2\] devices"):
        place(4, two, Hostfile.parse("a:3\nb:1", "hosts"), {})


@pytest.mark.parametrize(("variables", "local"), [({"SLURM_JOB_NUM_NODES": "3"}, 3), ({"SLURM_NNODES": "2"}, 4)])
def test_allocation_spreads_the_ranks(variables: dict[str, str], local: int) -> None:
    assert place(8, None, None, variables) == HostSelection((), local, True)


@pytest.mark.parametrize(
    ("variables", "ranks"),
    [
        ({}, None),
        ({"SLURM_NTASKS": "6"}, None),
        ({"SLURM_JOB_ID": "1", "SLURM_NTASKS": "6", "SLURM_TASKS_PER_NODE": "2(x3)"}, 6),
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_TASKS_PER_NODE": "1(x2)"}, 2),
        ({"SLURM_JOB_ID": "1", "SLURM_NNODES": "3", "SLURM_TASKS_PER_NODE": "4(x2),1"}, 9),
        *(({"SLURM_JOB_ID": "1", "SLURM_NNODES": wrong, "SLURM_TASKS_PER_NODE": "4"}, 4) for wrong in ("", "0", "two")),
    ],
)
def test_an_allocation_has_as_many_ranks_as_tasks(variables, ranks) -> None:
    assert allocated_ranks(variables) == ranks


@pytest.mark.parametrize(
    ("servers", "text", "found"),
    [
        # By their names, whatever their order, where they have just as many slots as their servers have devices.
        ((("a", (0, 1)), ("b", (2, 3))), "b:2\na:2", [("a", 2), ("b", 2)]),
        # By their order, the last with fewer ranks than slots, and those left out that get none.
        ((("10.0.0.1", (0, 1, 2)), ("10.0.0.2", (3,))), "c:3\nd:3", [("c", 3), ("d", 1)]),
        ((("10.0.0.1", (0, 1)), ("10.0.0.2", (2, 3))), "c:2\nd:2\ne:9", [("c", 2), ("d", 2)]),
        ((("10.0.0.2", (2, 3)), ("10.0.0.1", (0, 1))), "c:2\nd:2", [("c", 2), ("d", 2)]),
    ],
)
def test_hosts_of_a_file_are_the_servers_by_their_names_or_by_their_order(
    servers: tuple[tuple[str, tuple[int, ...]], ...], text: str, found: list[tuple[str, int]]
) -> None:
    assert hosts(place(4, table(*servers), Hostfile.parse(text, "hosts"), {})) == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a:2\nb:1", "the hostfile has 3 slots for 4 ranks; raise the slots of its hosts"),
        (
            "b:1\na:3",
            "the hosts of the hostfile would run [1, 3] ranks, the servers of the rank table have [2, 2] devices; list "
            "the hosts in the table's order, or under its server_id, each with as many slots as its server has devices",
        ),
    ],
)
def test_a_hostfile_that_does_not_fit_its_table_is_refused_word_for_word(text: str, told: str) -> None:
    with pytest.raises(RankTableError) as caught:
        place(4, table(("a", (0, 1)), ("b", (2, 3))), Hostfile.parse(text, "hosts"), {})
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("ranks", "nodes", "local", "spans"), [(7, "3", 3, True), (6, "3", 2, True), (1, "2", 1, True), (4, "1", 4, False)]
)
def test_an_allocation_has_at_most_so_many_ranks_on_a_node(ranks: int, nodes: str, local: int, spans: bool) -> None:
    assert place(ranks, None, None, {"SLURM_JOB_NUM_NODES": nodes}) == HostSelection((), local, spans)


def test_a_host_has_no_more_ranks_than_the_job() -> None:
    selection = place(3, None, Hostfile.parse("localhost:2\nnode1:8", "hosts"), {})
    assert (selection.local_ranks, selection.spans_hosts, selection.order) == (3, True, None)


@pytest.mark.parametrize(("tasks", "ranks"), [("", 4), ("6x", 4), ("\u0663", 4), ("0", 0), ("12", 12)])
def test_a_number_of_tasks_that_is_none_is_counted_by_nodes(tasks: str, ranks: int) -> None:
    variables = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": tasks, "SLURM_TASKS_PER_NODE": "4"}
    assert allocated_ranks(variables) == ranks
