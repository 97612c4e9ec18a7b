"""Where each rank runs, as a dry run shows it: on the hosts that are named, or on those that nobody knows yet."""

from __future__ import annotations

import pytest

from mpiparallel.cluster.hostfile import Host
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.launch.job.host_selection import HostSelection
from mpiparallel.launch.job.mapping import mapping, places

TWO = (Host("n1", 2), Host("node2", 1))
TABLE = RankTable(
    (
        Server("n1", (Device(4, "1.1.1.1", 2), Device(11, "1.1.1.2", 0))),
        Server("node2", (Device(7, "1.1.1.3", 1),)),
    )
)


@pytest.mark.parametrize(
    ("ranks", "selection", "table", "found"),
    [
        (3, HostSelection((), 3, False), None, [(0, "localhost", 0), (1, "localhost", 1), (2, "localhost", 2)]),
        (3, HostSelection(TWO, 2, True), None, [(0, "n1", 0), (1, "n1", 1), (2, "node2", 0)]),
        (2, HostSelection(TWO, 2, True), None, [(0, "n1", 0), (1, "n1", 1)]),
        (
            3,
            HostSelection(TWO, 2, True, RankOrder((2, 0, 1))),
            TABLE,
            [(0, "n1", 11), (1, "node2", 7), (2, "n1", 4)],
        ),
        (
            4,
            HostSelection((), 2, True),
            None,
            [(rank, "(of the allocation)", rank % 2) for rank in range(4)],
        ),
    ],
)
def test_each_rank_has_the_host_that_mpi_fills_and_the_device_of_the_table(
    ranks: int, selection: HostSelection, table: RankTable | None, found: list[tuple[int, str, int]]
) -> None:
    assert [tuple(place) for place in places(ranks, selection, table)] == found


def test_columns_are_as_wide_as_their_longest_word() -> None:
    assert mapping(3, HostSelection(TWO, 2, True, RankOrder((2, 0, 1))), TABLE).splitlines() == [
        "rank  host   device",
        "0     n1     11",
        "1     node2  7",
        "2     n1     4",
    ]
