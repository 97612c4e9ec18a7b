"""What a rank table holds, as far as it could be read, and the problems that only show when all of it is seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mpiparallel.cluster.file_problems import FileProblems
from mpiparallel.cluster.host_name import is_placeholder

_MOST_LISTED = 8


class DeviceEntry(NamedTuple):
    """One device as the file has it; a field that could not be read is None."""

    path: str
    device_id: int | None
    device_ip: str | None
    rank_id: int | None


class ServerEntry(NamedTuple):
    """One server as the file has it; a field that could not be read is None."""

    path: str
    server_id: str | None
    devices: tuple[DeviceEntry, ...]


def check_whole(servers: Sequence[ServerEntry], problems: FileProblems) -> None:
    """Add the problems of repeated ids, and of ranks that are not 0 to n - 1."""
    named = [(f"{server.path}.server_id", server.server_id) for server in servers]
    _check_repeated(
        [(path, name) for path, name in named if name is not None and not is_placeholder(name)],
        "list each server once, with all its devices",
        problems,
    )
    for server in servers:
        _check_repeated(
            [(f"{device.path}.device_id", device.device_id) for device in server.devices],
            "give every device of a server its own device_id",
            problems,
        )
    _check_ranks(servers, problems)


def _check_ranks(servers: Sequence[ServerEntry], problems: FileProblems) -> None:
    ranks = [(f"{device.path}.rank_id", device.rank_id) for server in servers for device in server.devices]
    mend = f"number the devices 0 to {len(ranks) - 1}, each once"
    if len(servers) > 1:
        mend += " (mpiparallel ranktable merge does)"
    for path, rank in ranks:
        if rank is not None and rank >= len(ranks):
            problems.add(path, f'"{rank}" is above {len(ranks) - 1}, and there are {len(ranks)} devices; {mend}')
    _check_repeated(ranks, mend, problems)
    known = {rank for _, rank in ranks}
    missing = [rank for rank in range(len(ranks)) if rank not in known]
    # Where a rank_id could not be read, it may be the missing one.
    if missing and None not in known:
        problems.add("server_list", f"no device has rank_id {_listed(missing)}; {mend}")


def _check_repeated(claims: Iterable[tuple[str, object]], mend: str, problems: FileProblems) -> None:
    first: dict[object, str] = {}
    for path, value in claims:
        if value is None:
            continue
        if value in first:
            problems.add(path, f'"{value}" is used twice (also {first[value].rpartition(".")[0]}); {mend}')
        first.setdefault(value, path)


def _listed(numbers: Sequence[int]) -> str:
    told = ", ".join(map(str, numbers[:_MOST_LISTED]))
    return f"{told} and {len(numbers) - _MOST_LISTED} more" if len(numbers) > _MOST_LISTED else told
