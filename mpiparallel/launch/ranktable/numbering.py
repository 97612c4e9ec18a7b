"""Numbering the ranks of servers, and writing the table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from mpiparallel.cluster.device_rules import device_warnings, placeholders
from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.launch.command_line.output_file import write_output
from mpiparallel.launch.job.console import Console


class Owned(NamedTuple):
    """A host and its devices, in the order that their ranks are to have: ``device_id`` and ``device_ip`` of each."""

    server_id: str
    devices: tuple[tuple[int, str], ...]


def numbered(hosts: Iterable[Owned], by_name: bool) -> RankTable:
    """Return the table in which ranks count through the devices of ``hosts``, in order, or in that of ``server_id``.

    >>> table = numbered([Owned("b", ((0, "1.1.1.1"),)), Owned("a", ((0, "1.1.1.2"), (1, "1.1.1.3")))], by_name=True)
    >>> [(server.server_id, [device.rank_id for device in server.devices]) for server in table.servers]
    [('a', [0, 1]), ('b', [2])]
    """
    servers = []
    first = 0
    for host in sorted(hosts, key=lambda host: host.server_id) if by_name else hosts:
        devices = (Device(number, address, first + place) for place, (number, address) in enumerate(host.devices))
        servers.append(Server(host.server_id, tuple(devices)))
        first += len(host.devices)
    return RankTable(tuple(servers))


def write(table: RankTable, output: Path | None, as_json: bool = False) -> None:
    """Write ``table`` to the file ``output``, or to stdout; say on stderr what HCCL would not like about it.

    As JSON it is said on stdout where it was written, and what it holds.
    """
    console = Console()
    for warning in (*device_warnings(table), *placeholders(table)):
        console.say(f"warning: {warning}")
    if output is not None:
        write_output("--output", output, table.to_json().encode())
    if as_json:
        print(json.dumps({"output": output and str(output), "table": json.loads(table.to_json())}), flush=True)
    elif output is None:
        print(table.to_json(), end="", flush=True)
    else:
        console.say(f"{output}: {table.summary}")
