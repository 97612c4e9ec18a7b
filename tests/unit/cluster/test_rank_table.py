from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.device_rules import device_warnings
from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.errors import RankTableError

SHIPPED = Path(__file__).parents[3] / "rank_tables"


def device(rank: int, number: int | None = None) -> dict[str, Any]:
    return {
        "device_id": str(rank if number is None else number),
        "device_ip": f"192.1.27.{rank}",
        "rank_id": str(rank),
    }


def document() -> dict[str, Any]:
    return {
        "version": "1.0",
        "server_count": "2",
        "server_list": [
            {"server_id": "10.0.0.1", "device": [device(0), device(1)], "host_nic_ip": "reserve"},
            {"server_id": "10.0.0.2", "device": [device(2, 0), device(3, 1)], "host_nic_ip": "reserve"},
        ],
        "status": "completed",
    }


def changed(path: tuple[str | int, ...], value: object) -> str:
    table = document()
    place: Any = table
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(table)


def message(text: str) -> str:
    with pytest.raises(RankTableError) as caught:
        RankTable.parse(text, "table.json")
    return str(caught.value)


def test_ranks_have_their_server_and_device() -> None:
    table = RankTable.parse(json.dumps(document()), "table.json")
    assert table.rank_count == 4
    assert [table.server_of(rank).server_id for rank in range(4)] == ["10.0.0.1"] * 2 + ["10.0.0.2"] * 2
    assert [table.device_of(rank).device_id for rank in range(4)] == [0, 1, 0, 1]


def test_written_table_reads_back_the_same() -> None:
    table = RankTable.parse(json.dumps(document()), "table.json")
    assert RankTable.parse(table.to_json(), "copy") == table
    assert json.loads(table.to_json()) == document()


def test_numbers_are_taken_for_strings_of_digits() -> None:
    text = changed(("server_list", 0, "device", 0), {"device_id": 0, "device_ip": "192.1.27.0", "rank_id": 0})
    assert RankTable.parse(text, "numbers") == RankTable.parse(json.dumps(document()), "strings")


def test_placeholder_servers_of_the_tutorial_may_be_equal() -> None:
    table = document()
    for server in table["server_list"]:
        server["server_id"] = "10.*.*.*"
    parsed = RankTable.parse(json.dumps(table), "table.json")
    assert parsed.rank_count == 4
    assert parsed.is_local


D = ("server_list", 0, "device")
FAULTS: list[tuple[tuple[str | int, ...], object, list[str]]] = [
    (("version",), "1.2", ["version:", '"1.2"', "super-pods", '"1.0"']),
    (("version",), "2.0", ["version:", '"2.0"', '"1.0"']),
    (("version",), "7", ["version:", '"7"', '"1.0"']),
    (("version",), [], ["version:", "[]", '"1.0"']),
    (("version",), ..., ["version: is missing", '"1.0"']),
    (("status",), "initializing", ["status:", '"initializing"', '"completed"']),
    (("status",), None, ["status: is null", '"completed"']),
    (("server_count",), "3", ["server_count:", '"3"', "2 servers", 'write "2"']),
    (("server_count",), "x", ["server_count:", '"x"', "whole number"]),
    (("server_list",), {}, ["server_list:", "{}", "at least one server"]),
    (("server_list",), [], ["server_list:", "[]", "at least one server"]),
    (("server_list", 1), "host", ["server_list[1]:", '"host"', "server_id and device"]),
    (("server_list", 1, "server_id"), "10.0.0.1", ["server_list[1].server_id:", "used twice", "server_list[0]"]),
    (("server_list", 1, "server_id"), "a b", ["server_list[1].server_id:", '"a b"', "address or name"]),
    (("server_list", 1, "server_id"), "-x", ["server_list[1].server_id:", '"-x"', "address or name"]),
    (("server_list", 1, "device"), ..., ["server_list[1].device: is missing", "at least one device"]),
    ((*D, 1), 5, ["server_list[0].device[1]:", "5", "device_id, device_ip and rank_id"]),
    ((*D, 1, "device_id"), "0", ["server_list[0].device[1].device_id:", '"0"', "device[0]", "its own device_id"]),
    ((*D, 1, "device_id"), True, ["server_list[0].device[1].device_id:", "true", "whole number"]),
    ((*D, 1, "device_ip"), "nonsense", ["server_list[0].device[1].device_ip:", '"nonsense"', "network interface"]),
    ((*D, 1, "device_ip"), ..., ["server_list[0].device[1].device_ip: is missing", "network interface"]),
    ((*D, 1, "rank_id"), "-1", ["server_list[0].device[1].rank_id:", '"-1"', "from 0"]),
    ((*D, 1, "rank_id"), "²", ["server_list[0].device[1].rank_id:", "from 0"]),
    ((*D, 1, "rank_id"), 10**30, ["server_list[0].device[1].rank_id:", "from 0"]),
    ((*D, 1, "rank_id"), "3", ["server_list[1].device[1].rank_id:", '"3"', "server_list[0].device[1]", "0 to 3"]),
    ((*D, 1, "rank_id"), "9", ["server_list[0].device[1].rank_id:", '"9"', "0 to 3"]),
]


@pytest.mark.parametrize(("path", "value", "parts"), FAULTS, ids=lambda value: str(value)[:40])
def test_fault_is_named_with_path_value_and_mend(path: tuple[str | int, ...], value: object, parts: list[str]) -> None:
    text = message(changed(path, value))
    assert text.startswith("table.json:")
    for part in parts:
        assert part in text


def test_all_problems_come_at_once_each_with_its_line() -> None:
    table = document()
    table["status"] = "initializing"
    table["server_list"][0]["device"][1]["rank_id"] = "3"
    del table["server_list"][1]["device"][0]["device_ip"]
    text = json.dumps(table, indent=1)
    lines = text.splitlines()
    told = message(text).splitlines()
    assert told[0] == "table.json: 4 problems"
    for problem, path, words in zip(
        told[1:],
        ("server_list", "server_list[1].device[0].device_ip", "server_list[1].device[1].rank_id", "status"),
        ('"server_list"', '"rank_id": "2"', '"rank_id": "3"', '"status"'),
        strict=True,
    ):
        line = int(problem.split(":")[1])
        assert problem.startswith(f"table.json:{line}: {path}: ")
        # A field that is not there has the line of the object that lacks it.
        assert any(words in near for near in lines[line - 1 : line + 3])


def test_key_written_twice_is_a_fault() -> None:
    assert '"status" is written 2 times' in message(json.dumps(document())[:-1] + ', "status": "completed"}')
    within = json.dumps(document()).replace('"rank_id": "3"', '"rank_id": "3", "rank_id": "3"')
    assert 'server_list[1].device[1].rank_id: "rank_id" is written 2 times in one object; keep one' in message(within)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000, "9" * 10_000, '{"version": }'])
def test_text_that_is_no_table_is_refused(text: str) -> None:
    assert message(text).startswith("table.json:")


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "absent.json", tmp_path, tmp_path / "binary"):
        with pytest.raises(RankTableError, match="give the path of a rank table"):
            RankTable.load(path)


def test_table_made_in_code_is_checked_too() -> None:
    with pytest.raises(RankTableError, match="rank_id"):
        RankTable((Server("a", (Device(0, "1.1.1.1", 0), Device(1, "1.1.1.2", 0))),))


def test_rank_outside_the_table_is_refused() -> None:
    with pytest.raises(RankTableError, match="ranks 0 to 3"):
        RankTable.parse(json.dumps(document()), "table.json").device_of(4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def paths(value: object, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, inner in entries for path in [(*here, key), *paths(inner, (*here, key))]]


@given(st.sampled_from(paths(document())), JSON)
def test_changed_table_is_read_or_refused(path: tuple[str | int, ...], value: object) -> None:
    with suppress(RankTableError):
        table = RankTable.parse(changed(path, copy.deepcopy(value)), "table.json")
        assert sorted(table.device_of(rank).rank_id for rank in range(table.rank_count)) == list(
            range(table.rank_count)
        )


@given(st.text())
def test_any_text_is_refused_with_our_error(text: str) -> None:
    assert message(text).startswith("table.json:")


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_shipped_table_runs_here_without_a_warning(count: int) -> None:
    table = RankTable.load(SHIPPED / f"rank_table_{count}pcs.json")
    assert (table.rank_count, table.is_local, device_warnings(table)) == (count, True, ())


def single(*numbers: int) -> RankTable:
    return RankTable((Server("a", tuple(Device(n, f"1.1.1.{n}", rank) for rank, n in enumerate(numbers))),))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((0,), None), ((0, 1), None), ((2, 5), "both halves"), ((0, 1, 2), "1, 2, 4 or 8"), (tuple(range(8)), None)],
)
def test_device_counts_of_one_server_are_warnings(numbers: tuple[int, ...], words: str | None) -> None:
    warnings = device_warnings(single(*numbers))
    assert len(warnings) == (words is not None)
    assert all(words in warning for warning in warnings if words)


def test_rules_for_several_servers_are_warnings() -> None:
    table = RankTable((Server("b", (Device(0, "1.1.1.1", 0),)), Server("a", (Device(0, "1.1.1.1", 1),))))
    warnings = "\n".join(device_warnings(table))
    for words in (
        'server "b" has 1 device, and so for 1 more server',
        "lexicographic order",
        '"1.1.1.1" is used twice',
    ):
        assert words in warnings


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"version": "1.0", "group_list": []}, "a table of the form with group_list, which is older than version 1.0"),
        ({"version": "1.0", "rank_list": []}, "a table with rank_list, as version 2.0 has it"),
        ({"version": "1.0", "server_group_list": []}, "a global rank table, with several groups of servers"),
    ],
)
def test_a_table_of_another_form_is_told_by_its_form_and_not_by_each_field(table: dict[str, Any], words: str) -> None:
    told = message(json.dumps(table)).splitlines()
    assert len(told) == 1
    assert f'the file is {words}, which is not supported; write a version "1.0" table with server_list' in told[0]


def test_a_table_of_another_form_and_version_is_told_by_its_version() -> None:
    told = message(json.dumps({"version": "2.0", "rank_list": []})).splitlines()
    assert len(told) == 1
    assert '"2.0" is the rank table of super-pods with UB links (Atlas A5), which is not supported' in told[0]
    assert "there is nothing here for rank_list" in told[0]


def test_fields_of_another_version_are_told_by_their_first_place_and_how_often_they_come() -> None:
    table = document() | {"version": "1.2", "super_pod_list": []}
    for server in table["server_list"]:
        for entry in server["device"]:
            entry["super_device_id"] = "0"
    table["server_list"][1]["device"][0]["device_port"] = "16666"
    told = "nothing here for super_pod_list, server_list[0].device[0].super_device_id (4 places), server_list[1]"
    assert f"{told}.device[0].device_port; write" in message(json.dumps(table))


def test_single_quotes_are_told() -> None:
    told = message("{'version': 1}")
    assert "{'version': 1}" in told
    assert "has single quotes; write double ones" in told


@pytest.mark.parametrize(
    ("servers", "path"),
    [((), "servers"), ((Server("a", (Device(0, "1.1.1.1", 0),)), Server("b", ())), "servers[1].devices")],
)
def test_a_table_made_in_code_has_servers_and_each_of_them_devices(servers: tuple[Server, ...], path: str) -> None:
    with pytest.raises(RankTableError) as caught:
        RankTable(servers)
    words = f"{path}: is empty; a table has at least one server, each with at least one device"
    assert str(caught.value).startswith("rank table")
    assert words in str(caught.value)


def test_the_order_of_servers_without_a_name_yet_is_no_fault() -> None:
    servers = [Server(name, (Device(0, f"1.1.1.{rank}", rank),)) for rank, name in enumerate(("b", "10.*.*.*"))]
    assert not any("lexicographic" in warning for warning in device_warnings(RankTable(tuple(servers))))
