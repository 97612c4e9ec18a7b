"""A rank table as text: every line of it, for few hosts and for many."""

from __future__ import annotations

import pytest

from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.launch.ranktable.boxes import boxes


def table(*servers: tuple[str, list[tuple[int, int]]]) -> RankTable:
    """A table of servers by name, each with the numbers of its devices and their ranks."""
    return RankTable(
        tuple(
            Server(name, tuple(Device(number, f"1.1.1.{number}", rank) for number, rank in devices))
            for name, devices in servers
        )
    )


def test_hosts_are_boxes_of_one_width_in_the_order_of_their_ranks() -> None:
    two = table(("a-long-name-of-a-host", [(1, 2)]), ("b", [(4, 1), (3, 0)]))
    assert list(boxes(two)) == [
        "┌─ b ─────────────────────┐",
        "│ device    3 ┊   4       │",
        "│ rank      0 ┊   1       │",
        "└─────────────────────────┘",
        "┌─ a-long-name-of-a-host ─┐",
        "│ device    1             │",
        "│ rank      2             │",
        "└─────────────────────────┘",
    ]


def test_a_row_has_eight_devices_and_cells_are_as_wide_as_the_longest_rank() -> None:
    many = table(("a", [(number, number) for number in range(1001)]))
    lines = list(boxes(many))
    assert lines[1:3] == [
        "│ device     0    1    2    3 ┊    4    5    6    7 │",
        "│ rank       0    1    2    3 ┊    4    5    6    7 │",
    ]
    assert lines[-3:-1] == [
        "│ device  1000                                      │",
        "│ rank    1000                                      │",
    ]
    assert len(lines) == 2 + 2 * 126
    assert len({len(line) for line in lines}) == 1


def test_a_terminal_without_unicode_gets_plain_letters() -> None:
    assert list(boxes(table(("n", [(3, 0), (4, 1)])), plain=True)) == [
        "+- n ---------------+",
        "| device    3 :   4 |",
        "| rank      0 :   1 |",
        "+-------------------+",
    ]


@pytest.mark.parametrize(("hosts", "lines"), [(16, 64), (17, 17), (40, 40), (41, 40)])
def test_more_hosts_than_sixteen_are_a_line_each(hosts: int, lines: int) -> None:
    many = table(*((f"n{number}", [(0, number)]) for number in range(hosts)))
    assert len(list(boxes(many))) == lines


def test_a_line_names_ranks_and_devices_in_runs() -> None:
    servers = [(f"n{number}", [(0, number)]) for number in range(15)]
    many = table(*servers, ("long", [(4, 15), (5, 16), (7, 17)]), ("z", [(3, 19), (0, 18)]))
    assert list(boxes(many))[-2:] == ["  long  ranks 15-17 on devices 4-5,7", "  z     ranks 18-19 on devices 0,3"]


def test_of_very_many_hosts_the_last_two_are_shown_and_those_between_counted() -> None:
    many = table(*((f"n{number:04}", [(0, number)]) for number in range(1200)))
    lines = list(boxes(many))
    assert lines[0] == "  n0000  ranks 0 on devices 0"
    assert lines[36:] == [
        "  n0036  ranks 36 on devices 0",
        "  ... 1,161 hosts more; --json tells all",
        "  n1198  ranks 1198 on devices 0",
        "  n1199  ranks 1199 on devices 0",
    ]
