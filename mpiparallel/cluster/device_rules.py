"""What HCCL wants of a rank table beyond its form: how many devices, which together, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mpiparallel.cluster.host_name import is_placeholder
from mpiparallel.cluster.rank_table import RankTable

_SINGLE_SERVER_COUNTS = (1, 2, 4, 8)
_DEVICES_PER_SERVER = 8
_HALF = 4


def device_warnings(table: RankTable) -> tuple[str, ...]:
    """Return what HCCL would refuse or may do badly, although ``table`` can be run here; each begins with a JSON path.

    On one server HCCL takes 1, 2, 4 or 8 devices, and 2 or 4 must not cross the halves 0-3 and 4-7; on several, 8 a
    server, whose ranks follow the lexicographic order of their ``server_id`` (MindSpore tutorial "Parallel Distributed
    Training Example (Ascend)", sections Calling the Collective Communication Library and Multi-host Training).

    >>> from mpiparallel.cluster.rank_table import Device, Server
    >>> table = RankTable((Server("a", (Device(3, "1.1.1.1", 0), Device(4, "1.1.1.2", 1))),))
    >>> device_warnings(table)[0].partition(";")[0]
    'server_list[0].device: devices 3, 4 are in both halves of the server'
    """
    counts = _several(table) if len(table.servers) > 1 else _single(table)
    return (*counts, *_order(table), *_addresses(table))


def _single(table: RankTable) -> Iterator[str]:
    path = "server_list[0].device"
    numbers = sorted(device.device_id for device in table.servers[0].devices)
    if len(numbers) not in _SINGLE_SERVER_COUNTS:
        fewer = max(count for count in _SINGLE_SERVER_COUNTS if count <= len(numbers))
        yield f"{path}: there are {len(numbers)} devices on the only server; HCCL takes 1, 2, 4 or 8: list {fewer}"
    elif len(numbers) in (2, 4) and numbers[0] // _HALF != numbers[-1] // _HALF:
        told = ", ".join(map(str, numbers))
        yield (
            f"{path}: devices {told} are in both halves of the server; HCCL connects 0-3 and 4-7 only each among "
            "themselves: take all from one half"
        )


def _several(table: RankTable) -> Iterator[str]:
    for index, server in enumerate(table.servers):
        if len(server.devices) % _DEVICES_PER_SERVER:
            yield (
                f'server_list[{index}].device: server "{server.server_id}" has {len(server.devices)} devices; HCCL '
                f"takes {_DEVICES_PER_SERVER} of each of several servers: list them all"
            )


def _order(table: RankTable) -> Iterator[str]:
    if any(is_placeholder(server.server_id) for server in table.servers):
        return
    for rank in range(1, table.rank_count):
        before, here = table.server_of(rank - 1), table.server_of(rank)
        if before.server_id > here.server_id:
            yield (
                f"{_path(table, rank)}: rank {rank} is on {here.server_id} and rank {rank - 1} on {before.server_id}; "
                "HCCL wants ranks in the lexicographic order of server_id: mpiparallel ranktable merge --sort numbers "
                "them so"
            )
            return


def _addresses(table: RankTable) -> Iterator[str]:
    places: dict[str, list[int]] = {}
    for rank in range(table.rank_count):
        address = table.device_of(rank).device_ip
        if not is_placeholder(address):
            places.setdefault(address, []).append(rank)
    for address, ranks in places.items():
        if len(ranks) > 1:
            yield (
                f'{_path(table, ranks[1])}: device_ip "{address}" is used {len(ranks)} times, first by rank {ranks[0]}; '
                "HCCL wants one for each device: see /etc/hccn.conf of the server"
            )


def _path(table: RankTable, rank: int) -> str:
    for index, server in enumerate(table.servers):
        numbers: Sequence[int] = [device.rank_id for device in server.devices]
        if rank in numbers:
            return f"server_list[{index}].device[{numbers.index(rank)}]"
    return "server_list"
