"""A rank table as text: a box for each host, in it its devices and the ranks that own them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mpiparallel.cluster.rank_order import runs
from mpiparallel.cluster.rank_table import Device, RankTable, Server

_A_ROW = 8
_HALF = 4
_MOST_BOXES = 16
_MOST_LINES = 40
_PLAIN = str.maketrans({"┌": "+", "┐": "+", "└": "+", "┘": "+", "─": "-", "│": "|", "┊": ":"})


def boxes(table: RankTable, plain: bool = False) -> Iterator[str]:
    """Yield the lines: boxes for up to 16 hosts, a line a host for more; ``plain`` for a terminal without Unicode.

    A dotted line parts the halves 0-3 and 4-7 of a host, which HCCL takes for separate networks.

    >>> table = RankTable((Server("node1", (Device(3, "1.1.1.1", 0), Device(4, "1.1.1.2", 1))),))
    >>> print(*boxes(table), sep=chr(10))
    ┌─ node1 ───────────┐
    │ device    3 ┊   4 │
    │ rank      0 ┊   1 │
    └───────────────────┘
    """
    servers = sorted(table.servers, key=lambda server: min(device.rank_id for device in server.devices))
    lines = _boxes(servers) if len(servers) <= _MOST_BOXES else _short(servers)
    yield from (line.translate(_PLAIN) for line in lines) if plain else lines


def _boxes(servers: Sequence[Server]) -> Iterator[str]:
    cell = max(3, *(len(str(device.rank_id)) for server in servers for device in server.devices))
    contents = [[line for row in _rows(server) for line in _row(row, cell)] for server in servers]
    width = max(len(line) for content in contents for line in content)
    width = max(width, *(len(server.server_id) + 2 for server in servers))
    for server, content in zip(servers, contents, strict=True):
        yield f"┌─ {server.server_id} {'─' * (width - len(server.server_id) - 1)}┐"
        yield from (f"│ {line:<{width}} │" for line in content)
        yield f"└{'─' * (width + 2)}┘"


def _rows(server: Server) -> Iterator[Sequence[Device]]:
    devices = sorted(server.devices, key=lambda device: device.device_id)
    for start in range(0, len(devices), _A_ROW):
        yield devices[start : start + _A_ROW]


def _row(devices: Sequence[Device], cell: int) -> tuple[str, str]:
    first, second = "device ", "rank   "
    for place, device in enumerate(devices):
        if place and device.device_id // _HALF != devices[place - 1].device_id // _HALF:
            first, second = f"{first} ┊", f"{second} ┊"
        first, second = f"{first} {device.device_id:>{cell}}", f"{second} {device.rank_id:>{cell}}"
    return first, second


def _short(servers: Sequence[Server]) -> Iterator[str]:
    shown = servers if len(servers) <= _MOST_LINES else [*servers[: _MOST_LINES - 3], *servers[-2:]]
    width = max(len(server.server_id) for server in shown)
    for place, server in enumerate(shown):
        if place == _MOST_LINES - 3 and len(shown) < len(servers):
            yield f"  ... {len(servers) - len(shown):,} hosts more; --json tells all"
        by_rank = sorted(server.devices, key=lambda device: device.rank_id)
        ranks, devices = (
            runs([device.rank_id for device in by_rank]),
            runs([device.device_id for device in by_rank]),
        )
        yield f"  {server.server_id:<{width}}  ranks {ranks} on devices {devices}"
