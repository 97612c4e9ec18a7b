"""What HCCL would refuse of a table that runs here: told with the place, the reason and the mend."""

from __future__ import annotations

import pytest

from mpiparallel.cluster.device_rules import device_warnings, placeholders
from mpiparallel.cluster.rank_table import Device, RankTable, Server


def table(*servers: tuple[str, list[int]], addresses: list[str] | None = None) -> RankTable:
    """A table of servers by name and the numbers of their devices, ranks in order, each with an address of its own."""
    found, rank = [], 0
    for name, numbers in servers:
        devices = []
        for number in numbers:
            devices.append(Device(number, addresses[rank] if addresses else f"1.1.1.{rank}", rank))
            rank += 1
        found.append(Server(name, tuple(devices)))
    return RankTable(tuple(found))


def halves(told: str) -> str:
    return (
        f"server_list[0].device: devices {told} are in both halves of the server; HCCL connects 0-3 and 4-7 only each "
        "among themselves: take all from one half"
    )


def count(number: int, fewer: int) -> str:
    return f"server_list[0].device: {number} devices on the only server; HCCL takes 1, 2, 4 or 8: list {fewer}"


@pytest.mark.parametrize(
    ("numbers", "warning"),
    [
        ([7], None),
        ([0, 3], None),
        ([4, 7], None),
        ([3, 4], halves("3, 4")),
        ([5, 2], halves("2, 5")),
        ([0, 1, 2, 3], None),
        ([4, 5, 6, 7], None),
        ([1, 2, 3, 4], halves("1, 2, 3, 4")),
        (list(range(8)), None),
        ([0, 1, 2], count(3, 2)),
        ([0, 1, 2, 3, 4], count(5, 4)),
        (list(range(7)), count(7, 4)),
        (list(range(9)), count(9, 8)),
    ],
)
def test_one_server_has_as_many_devices_as_hccl_takes_of_one_half(numbers: list[int], warning: str | None) -> None:
    assert device_warnings(table(("a", numbers))) == (() if warning is None else (warning,))


EIGHT = list(range(8))


@pytest.mark.parametrize(
    ("servers", "warnings"),
    [
        ([("a", EIGHT), ("b", EIGHT)], []),
        ([("a", EIGHT), ("b", list(range(16)))], []),
        (
            [("a", EIGHT), ("b", [0])],
            [
                'server_list[1].device: server "b" has 1 device; HCCL takes 8 of each of several servers: list '
                "them all",
            ],
        ),
        (
            [("a", [0, 1]), ("b", EIGHT), ("c", [0]), ("d", [0])],
            [
                'server_list[0].device: server "a" has 2 devices, and so for 2 more servers; HCCL takes 8 of each of '
                "several servers: list them all",
            ],
        ),
        (
            [("b", EIGHT), ("a", EIGHT)],
            [
                "server_list[1].device[0].rank_id: rank 8 is on a, rank 7 on b; HCCL wants ranks in the lexicographic "
                "order of server_id: number them so, as mpiparallel ranktable merge --sort does"
            ],
        ),
        ([("10.*.*.2", EIGHT), ("10.*.*.1", EIGHT)], []),
    ],
)
def test_several_servers_have_all_their_devices_and_their_ranks_in_order(
    servers: list[tuple[str, list[int]]], warnings: list[str]
) -> None:
    assert list(device_warnings(table(*servers))) == warnings


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        (["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"], None),
        (["10.*.*.*", "10.*.*.*", "1.1.1.3", "1.1.1.4"], None),
        (["1.1.1.1", "1.1.1.1", "1.1.1.3", "1.1.1.4"], ("1", "1.1.1.1", "0", "")),
        (["1.1.1.1", "1.1.1.2", "1.1.1.2", "1.1.1.1"], ("2", "1.1.1.2", "1", ", and so for 1 more device")),
        (["1.1.1.1"] * 4, ("1", "1.1.1.1", "0", ", and so for 2 more devices")),
    ],
)
def test_each_device_has_an_address_of_its_own(addresses: list[str], words: tuple[str, str, str, str] | None) -> None:
    found = device_warnings(table(("a", [0, 1, 2, 3]), addresses=addresses))
    if words is None:
        assert found == ()
        return
    place, address, first, more = words
    assert found == (
        f'server_list[0].device[{place}].device_ip: "{address}" is used twice (also server_list[0].device[{first}])'
        f"{more}; HCCL wants one address for each device: see /etc/hccn.conf of its server",
    )


@pytest.mark.parametrize(
    ("server", "addresses", "path", "more"),
    [
        ("10.*.*.*", ["1.1.1.1", "1.1.1.2"], "server_list[0].server_id", ""),
        ("a", ["1.1.1.1", "1.*.*.2"], "server_list[0].device[1].device_ip", ""),
        ("10.*.*.*", ["1.*.*.1", "1.1.1.2"], "server_list[0].server_id", ", and so for 1 more value"),
        ("10.*.*.*", ["1.*.*.1", "1.*.*.2"], "server_list[0].server_id", ", and so for 2 more values"),
    ],
)
def test_what_is_still_to_be_filled_in_is_told_once(server: str, addresses: list[str], path: str, more: str) -> None:
    assert placeholders(table((server, [0, 1]), addresses=addresses)) == (
        f"{path}: is a placeholder{more}; for HCCL write the addresses, which /etc/hccn.conf of each server has",
    )


def test_a_table_with_all_its_addresses_has_nothing_to_be_filled_in() -> None:
    assert placeholders(table(("a", [0, 1]))) == ()
