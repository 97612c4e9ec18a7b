"""What HCCL wants of a rank table beyond its form: how many devices, which together, in which order."""

from __future__ import annotations

from collections.abc import Iterator

from mpiparallel.cluster.host_name import is_placeholder
from mpiparallel.cluster.rank_table import RankTable

_SINGLE_SERVER_COUNTS = (1, 2, 4, 8)
_DEVICES_PER_SERVER = 8
_HALF = 4


def device_warnings(table: RankTable) -> tuple[str, ...]:
    """Return what HCCL would refuse or may do badly, although ``table`` can be run here; each begins with a JSON path.

    On one server HCCL takes 1, 2, 4 or 8 devices; 2 or 4 must lie in one of the halves 0-3 and 4-7. On several servers
    it takes 8 devices of each, and ranks must follow the lexicographic order of ``server_id``. Source: MindSpore
    tutorial "Parallel Distributed Training Example (Ascend)", sections Calling the Collective Communication Library and
    Multi-host Training.

    >>> from mpiparallel.cluster.rank_table import Device, Server
    >>> table = RankTable((Server("a", (Device(3, "1.1.1.1", 0), Device(4, "1.1.1.2", 1))),))
    >>> device_warnings(table)[0].partition(";")[0]
    'server_list[0].device: devices 3, 4 are in both halves of the server'
    """
    counts = _several(table) if len(table.servers) > 1 else _single(table)
    return (*counts, *_order(table), *_addresses(table))


def placeholders(table: RankTable) -> tuple[str, ...]:
    """Return what of ``table`` is still to be filled in before HCCL can use it; mpiparallel needs none of it."""
    found = [
        path
        for index, server in enumerate(table.servers)
        for path, value in (
            (f"server_list[{index}].server_id", server.server_id),
            *(
                (f"server_list[{index}].device[{place}].device_ip", device.device_ip)
                for place, device in enumerate(server.devices)
            ),
        )
        if is_placeholder(value)
    ]
    if not found:
        return ()
    return (
        f"{found[0]}: is a placeholder{_others(len(found) - 1, 'value')}; for HCCL write the addresses, which "
        "/etc/hccn.conf of each server has",
    )


def _single(table: RankTable) -> Iterator[str]:
    path = "server_list[0].device"
    numbers = sorted(device.device_id for device in table.servers[0].devices)
    if len(numbers) not in _SINGLE_SERVER_COUNTS:
        fewer = max(count for count in _SINGLE_SERVER_COUNTS if count <= len(numbers))
        yield f"{path}: {len(numbers)} devices on the only server; HCCL takes 1, 2, 4 or 8: list {fewer}"
    elif len(numbers) in (2, 4) and numbers[0] // _HALF != numbers[-1] // _HALF:
        told = ", ".join(map(str, numbers))
        yield (
            f"{path}: devices {told} are in both halves of the server; HCCL connects 0-3 and 4-7 only each among "
            "themselves: take all from one half"
        )


def _several(table: RankTable) -> Iterator[str]:
    odd = [index for index, server in enumerate(table.servers) if len(server.devices) % _DEVICES_PER_SERVER]
    if odd:
        server = table.servers[odd[0]]
        yield (
            f'server_list[{odd[0]}].device: server "{server.server_id}" has {_count(len(server.devices), "device")}'
            f"{_others(len(odd) - 1, 'server')}; HCCL takes {_DEVICES_PER_SERVER} of each of "
            "several servers: list them all"
        )


def _order(table: RankTable) -> Iterator[str]:
    if any(is_placeholder(server.server_id) for server in table.servers):
        return
    for rank in range(1, table.rank_count):
        before, here = table.server_of(rank - 1), table.server_of(rank)
        if before.server_id > here.server_id:
            yield (
                f"{_paths(table)[rank]}.rank_id: rank {rank} is on {here.server_id}, rank {rank - 1} on "
                f"{before.server_id}; HCCL wants ranks in the lexicographic order of server_id: number them so, as "
                "mpiparallel ranktable merge --sort does"
            )
            return


def _addresses(table: RankTable) -> Iterator[str]:
    first: dict[str, int] = {}
    again = []
    for rank in range(table.rank_count):
        address = table.device_of(rank).device_ip
        if not is_placeholder(address) and first.setdefault(address, rank) != rank:
            again.append(rank)
    if again:
        address, paths = table.device_of(again[0]).device_ip, _paths(table)
        yield (
            f'{paths[again[0]]}.device_ip: "{address}" is used twice (also {paths[first[address]]})'
            f"{_others(len(again) - 1, 'device')}; HCCL wants one address for each device: see "
            "/etc/hccn.conf of its server"
        )


def _paths(table: RankTable) -> dict[int, str]:
    return {
        device.rank_id: f"server_list[{index}].device[{position}]"
        for index, server in enumerate(table.servers)
        for position, device in enumerate(server.devices)
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _others(number: int, noun: str) -> str:
    return f", and so for {number} more {noun}{'' if number == 1 else 's'}" if number else ""
