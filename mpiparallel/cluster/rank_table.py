"""Rank tables: which device of which server each rank owns."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from mpiparallel.cluster import rank_table_json
from mpiparallel.cluster.text_file import read_text
from mpiparallel.errors import RankTableError

_FAULTS_SHOWN = 20
_SINGLE_SERVER_COUNTS = (1, 2, 4, 8)
_DEVICES_PER_SERVER = 8


@dataclass(frozen=True, slots=True)
class Device:
    """One device: its number on its server, the address of its network interface, and the rank that owns it."""

    device_id: int
    device_ip: str
    rank_id: int


@dataclass(frozen=True, slots=True)
class Server:
    """One host and its devices; ``server_id`` is its address or name."""

    server_id: str
    devices: tuple[Device, ...]

    @property
    def is_local(self) -> bool:
        """Tell whether the server can only be this machine: a loopback address or a placeholder (``10.*.*.*``)."""
        return rank_table_json.is_placeholder(self.server_id) or self.server_id.startswith(("127.", "localhost"))


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
        entries = (
            rank_table_json.ServerEntry(
                f"servers[{index}]",
                server.server_id,
                tuple(
                    rank_table_json.DeviceEntry(f"servers[{index}].devices[{position}]", *_fields(device))
                    for position, device in enumerate(server.devices)
                ),
            )
            for index, server in enumerate(self.servers)
        )
        _refuse("rank table", rank_table_json.repetitions(entries))

    @classmethod
    def load(cls, path: str | Path) -> RankTable:
        """Read the rank table of the file ``path``; raise `RankTableError` with all its faults if it is malformed."""
        return cls.parse(read_text(path, "rank table"), str(path))

    @classmethod
    def parse(cls, text: str, source: str) -> RankTable:
        """Read a rank table from JSON ``text``; ``source`` names it in the message of a `RankTableError`."""
        reading = rank_table_json.read(text)
        _refuse(source, reading.faults)
        return cls(tuple(_server(entry) for entry in reading.servers))

    @cached_property
    def _places(self) -> dict[int, tuple[Server, Device]]:
        return {device.rank_id: (server, device) for server in self.servers for device in server.devices}

    @property
    def rank_count(self) -> int:
        """The number of ranks, which is the number of devices."""
        return len(self._places)

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

    def warnings(self) -> tuple[str, ...]:
        """Return what HCCL would refuse or may do badly, although this table can be run here.

        On one server HCCL takes 1, 2, 4 or 8 devices, and 2 or 4 must not cross the halves 0-3 and 4-7; on several, 8 a
        server, whose ranks follow the order of their ``server_id`` (MindSpore tutorial "Parallel Distributed Training
        Example (Ascend)", section Multi-host Training).
        """
        return (*self._count_warnings(), *self._order_warnings(), *self._address_warnings())

    def _count_warnings(self) -> list[str]:
        if len(self.servers) > 1:
            return [
                f'server "{server.server_id}" has {len(server.devices)} devices; '
                f"HCCL takes a multiple of {_DEVICES_PER_SERVER} on each of several servers"
                for server in self.servers
                if len(server.devices) % _DEVICES_PER_SERVER
            ]
        numbers = sorted(device.device_id for server in self.servers for device in server.devices)
        if len(numbers) not in _SINGLE_SERVER_COUNTS:
            return [f"the only server has {len(numbers)} devices; HCCL takes 1, 2, 4 or 8"]
        if len(numbers) in (2, 4) and numbers[0] // 4 != numbers[-1] // 4:
            return [f"devices {numbers} are in both halves of the server; HCCL wants them within 0-3 or within 4-7"]
        return []

    def _order_warnings(self) -> list[str]:
        if any(rank_table_json.is_placeholder(server.server_id) for server in self.servers):
            return []
        by_rank = [self.server_of(rank).server_id for rank in range(self.rank_count)]
        if by_rank != sorted(by_rank):
            return ["rank_id does not follow the lexicographic order of server_id; HCCL wants the same order"]
        return []

    def _address_warnings(self) -> list[str]:
        counts = Counter(device.device_ip for server in self.servers for device in server.devices)
        return [
            f'device_ip "{address}" is used {count} times; HCCL wants one for each device'
            for address, count in counts.items()
            if count > 1 and "*" not in address
        ]

    def to_json(self) -> str:
        """Return the table as version 1.0 JSON, one device a line, every value a string."""
        servers = ",\n".join(_server_json(server) for server in self.servers)
        return (
            f'{{\n  "version": "{rank_table_json.VERSION}",\n  "server_count": "{len(self.servers)}",\n'
            f'  "server_list": [\n{servers}\n  ],\n  "status": "completed"\n}}\n'
        )


def _fields(device: Device) -> tuple[int, str, int]:
    return device.device_id, device.device_ip, device.rank_id


def _server(entry: rank_table_json.ServerEntry) -> Server:
    # A reading without faults has no field left None.
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


def _refuse(source: str, faults: list[str] | tuple[str, ...]) -> None:
    if not faults:
        return
    if len(faults) == 1:
        raise RankTableError(f"{source}: {faults[0]}")
    shown = [f"  {fault}" for fault in faults[:_FAULTS_SHOWN]]
    if len(faults) > _FAULTS_SHOWN:
        shown.append(f"  and {len(faults) - _FAULTS_SHOWN} more")
    raise RankTableError("\n".join([f"{source}: {len(faults)} faults", *shown]))
