"""Rank tables: which device of which server each rank owns."""

from __future__ import annotations

import json
from functools import cached_property, partial
from pathlib import Path
from typing import cast

from mpiparallel.cluster.file_problems import FileProblems, refuse
from mpiparallel.cluster.host_name import is_loopback, is_placeholder
from mpiparallel.cluster.json_lines import line_numbers
from mpiparallel.cluster.rank_table_entries import DeviceEntry, ServerEntry, check_whole
from mpiparallel.cluster.rank_table_json import VERSION, read
from mpiparallel.cluster.text_file import read_text
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import RankTableError


@dataclass(frozen=True)
class Device:
    """One device: its number on its server, the address of its network interface, and the rank that owns it."""

    device_id: int
    device_ip: str
    rank_id: int


@dataclass(frozen=True)
class Server:
    """One host and its devices; ``server_id`` is its address or name."""

    server_id: str
    devices: tuple[Device, ...]

    @property
    def is_local(self) -> bool:
        """Tell whether the server can only be this machine: a loopback address or a placeholder (``10.*.*.*``)."""
        return is_placeholder(self.server_id) or is_loopback(self.server_id)


@dataclass(frozen=True)
class RankTable:
    """The servers of a job and their devices, as in the HCCL rank table of version 1.0.

    Ranks are 0 to ``rank_count - 1``, each on one device.

    Raises
    ------
    RankTableError
        A server or a device number is used twice, or the ranks are not 0 to n - 1.

    Examples
    --------
    >>> table = RankTable((Server("10.0.0.1", (Device(0, "192.1.27.6", 0), Device(1, "192.2.27.6", 1))),))
    >>> table.rank_count, table.server_of(1).server_id, table.device_of(1).device_id
    (2, '10.0.0.1', 1)
    >>> RankTable.parse(table.to_json(), "copy") == table
    True
    """

    servers: tuple[Server, ...]

    def __post_init__(self) -> None:
        entries = [
            ServerEntry(
                f"servers[{index}]",
                server.server_id,
                tuple(
                    DeviceEntry(f"servers[{index}].devices[{position}]", *_fields(device))
                    for position, device in enumerate(server.devices)
                ),
            )
            for index, server in enumerate(self.servers)
        ]
        problems = FileProblems()
        for path, items in (("servers", self.servers), *((f"{e.path}.devices", e.devices) for e in entries)):
            if not items:
                problems.add(path, "is empty; a table has at least one server, each with at least one device")
        check_whole(entries, problems)
        refuse("rank table", problems)

    @classmethod
    def load(cls, path: str | Path) -> RankTable:
        """Read the rank table of the file ``path``; raise `RankTableError` with all its problems if it is malformed."""
        return cls.parse(read_text(path, "rank table"), str(path))

    @classmethod
    def parse(cls, text: str, source: str) -> RankTable:
        """Read a rank table from JSON ``text``; ``source`` names it in the message of a `RankTableError`."""
        problems = FileProblems()
        entries = read(text, problems)
        refuse(source, problems, partial(line_numbers, text))
        return cls(tuple(_server(entry) for entry in entries))

    @cached_property
    def _places(self) -> dict[int, tuple[Server, Device]]:
        return {device.rank_id: (server, device) for server in self.servers for device in server.devices}

    @property
    def rank_count(self) -> int:
        """The number of ranks, which is the number of devices."""
        return len(self._places)

    @property
    def summary(self) -> str:
        """Say in words how many hosts and ranks there are."""
        hosts, ranks = len(self.servers), self.rank_count
        return f"{hosts:,} host{'s'[: hosts > 1]}, {ranks:,} rank{'s'[: ranks > 1]}"

    @property
    def is_local(self) -> bool:
        """Tell whether all ranks run on this machine: one server only, or none that names another host."""
        return len(self.servers) == 1 or all(server.is_local for server in self.servers)

    def server_of(self, rank: int) -> Server:
        """Return the server of ``rank``."""
        return self._place(rank)[0]

    def device_of(self, rank: int) -> Device:
        """Return the device of ``rank``."""
        return self._place(rank)[1]

    def _place(self, rank: int) -> tuple[Server, Device]:
        if rank not in self._places:
            raise RankTableError(f"rank {rank} is not in the rank table; it holds ranks 0 to {self.rank_count - 1}")
        return self._places[rank]

    def to_json(self) -> str:
        """Return the table as version 1.0 JSON, one device a line, every value a string."""
        servers = ",\n".join(_server_json(server) for server in self.servers)
        return (
            f'{{\n  "version": "{VERSION}",\n  "server_count": "{len(self.servers)}",\n'
            f'  "server_list": [\n{servers}\n  ],\n  "status": "completed"\n}}\n'
        )


def _fields(device: Device) -> tuple[int, str, int]:
    return device.device_id, device.device_ip, device.rank_id


def _server(entry: ServerEntry) -> Server:
    # A reading without problems has no field left None.
    devices = (
        Device(cast(int, device.device_id), cast(str, device.device_ip), cast(int, device.rank_id))
        for device in entry.devices
    )
    return Server(cast(str, entry.server_id), tuple(devices))


def _server_json(server: Server) -> str:
    devices = ",\n".join(
        "        " + json.dumps({"device_id": str(number), "device_ip": address, "rank_id": str(rank)})
        for number, address, rank in map(_fields, server.devices)
    )
    return (
        f'    {{\n      "server_id": {json.dumps(server.server_id)},\n      "device": [\n{devices}\n      ],\n'
        f'      "host_nic_ip": "reserve"\n    }}'
    )
