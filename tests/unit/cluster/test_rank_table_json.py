"""What is told of each fault of a rank table's JSON: the path, the value, and how to mend it, word for word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.errors import RankTableError

DEVICES = [{"device_id": str(number), "device_ip": f"1.1.1.{number}", "rank_id": str(number)} for number in range(2)]
ADDRESS = "write the address of the device's network interface, as in address_0 of /etc/hccn.conf"
NAME = "write the host's address or name"


def told(**changes: Any) -> list[str]:
    """Return the problems of a table of one server with these values; a value that is ... is left out."""
    table = {"version": "1.0", "server_count": "1", "server_list": [{"server_id": "a", "device": DEVICES}]}
    content = {**table, "status": "completed", **changes}
    text = json.dumps({key: value for key, value in content.items() if value is not ...})
    with pytest.raises(RankTableError) as caught:
        RankTable.parse(text, "t")
    return [line.removeprefix("t:1: ").removeprefix("t: ") for line in str(caught.value).splitlines()]


def device(**fields: Any) -> list[dict[str, Any]]:
    """Return servers of which the second device has these fields."""
    changed = {key: value for key, value in {**DEVICES[1], **fields}.items() if value is not ...}
    return [{"server_id": "a", "device": [DEVICES[0], changed]}]


D = "server_list[0].device[1]"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"version": ...}, 'version: is missing; write "1.0"'),
        ({"version": ..., "verison": "1.0"}, 'version: is missing; write "1.0" (is "verison" meant to be it?)'),
        ({"version": "3.0"}, 'version: "3.0" is not a rank table version; write a version "1.0" table'),
        (
            {"version": "1.2"},
            'version: "1.2" is the rank table of super-pods (Atlas A3), which is not supported; write a version "1.0" '
            "table",
        ),
        ({"status": None}, 'status: is null; write "completed"'),
        ({"status": 1}, 'status: 1 is not usable; once the table is complete, write "completed"'),
        ({"server_count": ...}, "server_count: is missing; write the number of servers"),
        (
            {"server_count": "x"},
            'server_count: "x" is not a whole number from 0; write the number of servers, as in "0"',
        ),
        (
            {"server_count": "2"},
            'server_count: "2" does not match the 1 servers of server_list; write "1", or list the missing servers',
        ),
        ({"server_list": 7}, "server_list: 7 is not a list of servers; list at least one server"),
        ({"server_list": ...}, "server_list: is missing; list at least one server"),
        (
            {"server_list": ["a"]},
            'server_list[0]: "a" is not a JSON object; write a server: server_id and device',
        ),
        (
            {"server_list": [{"server_id": "a", "device": []}]},
            "server_list[0].device: [] is not a list of devices; list at least one device",
        ),
        (
            {"server_list": [{"server_id": 7, "device": DEVICES}]},
            f"server_list[0].server_id: 7 is not a string; {NAME}",
        ),
        (
            {"server_list": [{"server_id": "a" * 64, "device": DEVICES}]},
            f'server_list[0].server_id: "{"a" * 55}..." has 64 characters, which HCCL limits to 63; {NAME}',
        ),
        (
            {"server_list": [{"server_id": "17", "device": DEVICES}]},
            f'server_list[0].server_id: "17" is a number, not a host; {NAME}',
        ),
        (
            {"server_list": [{"server_id": "a", "device": [DEVICES[0], 1]}]},
            f"{D}: 1 is not a JSON object; write a device: device_id, device_ip and rank_id",
        ),
        # A key that has a meaning of its own is not taken for another one.
        ({"server_list": device(device_ip=...)}, f"{D}.device_ip: is missing; {ADDRESS}"),
        (
            {"server_list": device(device_ip=..., devise_ip="1.1.1.1")},
            f'{D}.device_ip: is missing; {ADDRESS} (is "devise_ip" meant to be it?)',
        ),
        ({"server_list": device(device_ip="1.1.1.256")}, f'{D}.device_ip: "1.1.1.256" is not an IP address; {ADDRESS}'),
        ({"server_list": device(device_ip=5)}, f"{D}.device_ip: 5 is not an IP address; {ADDRESS}"),
        (
            {"server_list": device(device_id="0")},
            f'{D}.device_id: "0" is used twice (also server_list[0].device[0]); give every device of a server its own '
            "device_id",
        ),
        (
            {"server_list": device(device_id="1234567890")},
            f'{D}.device_id: "1234567890" is not a whole number from 0; write the device\'s number on its server, as '
            'in "0"',
        ),
        (
            {"server_list": device(rank_id=1.0)},
            f'{D}.rank_id: 1.0 is not a whole number from 0; write the rank, counted from 0, as in "0"',
        ),
    ],
)
def test_a_fault_is_told_in_one_line(changes: dict[str, Any], line: str) -> None:
    assert told(**changes) == [line]


def test_ranks_that_are_not_counted_up_are_told_with_those_that_lack() -> None:
    mend = "number the devices 0 to 1, each once"
    found = told(server_list=device(rank_id="0"))
    assert (found[0], sorted(found[1:])) == (
        "2 problems",
        [
            f"server_list: no device has rank_id 1; {mend}",
            f'{D}.rank_id: "0" is used twice (also server_list[0].device[0]); {mend}',
        ],
    )
    found = told(server_list=device(rank_id="2"))
    assert sorted(found[1:]) == [
        f"server_list: no device has rank_id 1; {mend}",
        f'{D}.rank_id: "2" is above 1, and there are 2 devices; {mend}',
    ]


@pytest.mark.parametrize(
    ("count", "listed"), [(2, "1"), (9, "1, 2, 3, 4, 5, 6, 7, 8"), (10, "1, 2, 3, 4, 5, 6, 7, 8 and 1 more")]
)
def test_of_many_ranks_that_lack_eight_are_told_and_several_servers_can_be_merged(count: int, listed: str) -> None:
    servers = [{"server_id": f"n{number}", "device": [{**DEVICES[0], "rank_id": "0"}]} for number in range(count)]
    found = told(server_count=str(count), server_list=servers)
    mend = f"number the devices 0 to {count - 1}, each once (mpiparallel ranktable merge does)"
    assert f"server_list: no device has rank_id {listed}; {mend}" in found


def test_a_rank_that_could_not_be_read_may_be_the_one_that_lacks() -> None:
    (line,) = told(server_list=device(rank_id="x"))
    assert line.startswith(f'{D}.rank_id: "x" is not a whole number')


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[]", "[] is not a JSON object; write version, server_count, server_list and status in one"),
        ("null", "null is not a JSON object; write version, server_count, server_list and status in one"),
        ('"x"', '"x" is not a JSON object; write version, server_count, server_list and status in one'),
    ],
)
def test_what_is_no_object_is_no_table(text: str, line: str) -> None:
    with pytest.raises(RankTableError) as caught:
        RankTable.parse(text, "t")
    assert str(caught.value) == f"t: {line}"


def test_servers_and_addresses_without_values_yet_are_taken() -> None:
    servers = [
        {"server_id": name, "device": [{"device_id": 0, "device_ip": address, "rank_id": rank}]}
        for rank, (name, address) in enumerate([("10.*.*.*", "1.*.*.*"), ("10.*.*.*", "1.*.*.*"), ("a" * 63, "::1")])
    ]
    table = RankTable.parse(
        json.dumps({"version": "1.0", "server_count": 3, "server_list": servers, "status": "completed"}), "t"
    )
    assert [table.server_of(rank).is_local for rank in range(3)] == [True, True, False]
    assert (table.is_local, table.summary) == (False, "3 hosts, 3 ranks")


@pytest.mark.parametrize(
    ("ranks", "summary"), [(1, "1 host, 1 rank"), (2, "1 host, 2 ranks"), (1200, "1 host, 1,200 ranks")]
)
def test_a_table_is_summed_up_by_hosts_and_ranks(ranks: int, summary: str) -> None:
    table = RankTable((Server("a", tuple(Device(rank, "1.1.1.1", rank) for rank in range(ranks))),))
    assert (table.summary, table.is_local) == (summary, True)
    with pytest.raises(
        RankTableError, match=f"^rank {ranks} is not in the rank table; it holds ranks 0 to {ranks - 1}$"
    ):
        table.device_of(ranks)


def test_a_table_is_written_with_a_device_a_line_and_every_value_a_string() -> None:
    table = RankTable(
        (Server("a", (Device(4, "1.1.1.1", 1), Device(5, "1.1.1.2", 0))), Server("b", (Device(0, "::1", 2),)))
    )
    assert (
        table.to_json()
        == """\
{
  "version": "1.0",
  "server_count": "2",
  "server_list": [
    {
      "server_id": "a",
      "device": [
        {"device_id": "4", "device_ip": "1.1.1.1", "rank_id": "1"},
        {"device_id": "5", "device_ip": "1.1.1.2", "rank_id": "0"}
      ],
      "host_nic_ip": "reserve"
    },
    {
      "server_id": "b",
      "device": [
        {"device_id": "0", "device_ip": "::1", "rank_id": "2"}
      ],
      "host_nic_ip": "reserve"
    }
  ],
  "status": "completed"
}
"""
    )


@pytest.mark.parametrize(("count", "places"), [(1, ""), (2, " (2 places)")])
def test_a_field_that_there_is_nothing_for_is_told_with_how_often_it_comes(count: int, places: str) -> None:
    ports = [{"device_port": "1"}] * count + [{}] * (2 - count)
    devices = [{**one, **port} for one, port in zip(DEVICES, ports, strict=True)]
    assert told(version="1.2", server_list=[{"server_id": "a", "device": devices}]) == [
        'version: "1.2" is the rank table of super-pods (Atlas A3), which is not supported; there is nothing here for '
        f'server_list[0].device[0].device_port{places}; write a version "1.0" table'
    ]


def test_a_text_that_is_no_json_has_one_problem_and_a_key_written_twice_hides_no_other() -> None:
    with pytest.raises(RankTableError) as caught:
        RankTable.parse('{"version": "1.0"', "t")
    assert str(caught.value) == (
        "t:1: column 18: the file ends here, in the middle of the table; is it cut off? write the rest"
    )
    table = {"server_count": "1", "server_list": [{"server_id": "a", "device": DEVICES}], "status": "odd"}
    text = json.dumps(table)
    with pytest.raises(RankTableError) as caught:
        RankTable.parse(f'{{"version": "1.0", "version": "1.0", {text[1:]}', "t")
    assert str(caught.value).splitlines()[0] == "t: 2 problems"
