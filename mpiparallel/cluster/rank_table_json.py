"""Reading the JSON of a rank table, with every fault of the file found in one pass."""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

VERSION = "1.0"
_OTHER_VERSIONS = {"1.2": "super-pods", "2.0": "super-pods and UB links"}
_NAME = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._*-]{0,62}")
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


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


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, and the faults met on the way."""

    servers: tuple[ServerEntry, ...]
    faults: tuple[str, ...]


def is_placeholder(server_id: str) -> bool:
    """Tell whether ``server_id`` stands for no host yet, as the tutorial's ``10.*.*.*`` does."""
    return "*" in server_id


def read(text: str) -> Reading:
    """Read the JSON text of a version 1.0 rank table; never raises for a malformed one."""
    faults: list[str] = []
    try:
        document = json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, faults))
    except json.JSONDecodeError as error:
        return Reading((), (f"line {error.lineno} column {error.colno}: {error.msg}; write well-formed JSON",))
    except (ValueError, RecursionError) as error:
        return Reading((), (f"cannot be read as JSON ({error}); write well-formed JSON",))
    if not isinstance(document, dict):
        return Reading(
            (), (f"{_shown(document)} is not a JSON object; write version, server_count, server_list and status",)
        )
    _check_version(document, faults)
    _check_status(document, faults)
    items = _items(document, "", "server_list", faults)
    _check_count(document, items, faults)
    servers = tuple(_server(item, f"server_list[{index}]", faults) for index, item in enumerate(items or ()))
    faults += repetitions(servers)
    return Reading(servers, tuple(faults))


def repetitions(servers: Iterable[ServerEntry]) -> list[str]:
    """Return the faults that only show when all entries are seen: repeated ids, and ranks outside 0 to n - 1."""
    entries = tuple(servers)
    faults = _repeated(
        [
            (f"{server.path}.server_id", server.server_id)
            for server in entries
            if server.server_id is not None and not is_placeholder(server.server_id)
        ],
        "list each server once, with all its devices",
    )
    for server in entries:
        faults += _repeated(
            [(f"{device.path}.device_id", device.device_id) for device in server.devices],
            "give every device of a server its own device_id",
        )
    ranks = [(f"{device.path}.rank_id", device.rank_id) for server in entries for device in server.devices]
    mend = f"give every device its own rank_id, 0 to {len(ranks) - 1}"
    faults += [
        f'{path}: "{rank}" is above {len(ranks) - 1}, and there are {len(ranks)} devices; {mend}'
        for path, rank in ranks
        if rank is not None and rank >= len(ranks)
    ]
    return faults + _repeated(ranks, mend)


def _repeated(claims: Iterable[tuple[str, object]], mend: str) -> list[str]:
    first: dict[object, str] = {}
    faults = []
    for path, value in claims:
        if value is None:
            continue
        if value in first:
            faults.append(f'{path}: "{value}" is used twice (also {first[value].rpartition(".")[0]}); {mend}')
        first.setdefault(value, path)
    return faults


def _object(pairs: list[tuple[str, Any]], faults: list[str]) -> dict[str, Any]:
    counts = Counter(key for key, _ in pairs)
    faults += [
        f"{_shown(key)} is written {count} times in one object; keep one" for key, count in counts.items() if count > 1
    ]
    return dict(pairs)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_version(document: dict[str, Any], faults: list[str]) -> None:
    version = _field(document, "", "version", faults, f'write "{VERSION}"')
    if version is None or version == VERSION:
        return
    other = _OTHER_VERSIONS.get(version) if isinstance(version, str) else None
    reason = f"is the rank table of {other}, which is not supported" if other else "is not a rank table version"
    faults.append(f'version: {_shown(version)} {reason}; write a version "{VERSION}" table')


def _check_status(document: dict[str, Any], faults: list[str]) -> None:
    status = _field(document, "", "status", faults, 'write "completed"')
    if status is not None and status != "completed":
        faults.append(f'status: {_shown(status)} is not usable; once the table is complete, write "completed"')


def _check_count(document: dict[str, Any], items: list[Any] | None, faults: list[str]) -> None:
    count = _number(document, "", "server_count", faults, "write the number of servers")
    if count is not None and items is not None and count != len(items):
        mend = f'write "{len(items)}", or list the missing servers'
        faults.append(f'server_count: "{count}" does not match the {len(items)} servers of server_list; {mend}')


def _server(item: object, path: str, faults: list[str]) -> ServerEntry:
    if not isinstance(item, dict):
        faults.append(f"{path}: {_shown(item)} is not a JSON object; write a server: server_id and device")
        return ServerEntry(path, None, ())
    server_id = _field(item, path, "server_id", faults, "write the host's address or name")
    if server_id is not None and not (isinstance(server_id, str) and _NAME.fullmatch(server_id)):
        faults.append(f"{path}.server_id: {_shown(server_id)} is not a host; write its IPv4 address or name")
        server_id = None
    items = _items(item, path, "device", faults)
    devices = (_device(entry, f"{path}.device[{index}]", faults) for index, entry in enumerate(items or ()))
    return ServerEntry(path, server_id, tuple(devices))


def _device(item: object, path: str, faults: list[str]) -> DeviceEntry:
    if not isinstance(item, dict):
        faults.append(f"{path}: {_shown(item)} is not a JSON object; write a device: device_id, device_ip and rank_id")
        return DeviceEntry(path, None, None, None)
    return DeviceEntry(
        path,
        _number(item, path, "device_id", faults, "write the device's number on its server"),
        _address(item, path, faults),
        _number(item, path, "rank_id", faults, "write the rank, counted from 0"),
    )


def _address(item: dict[str, Any], path: str, faults: list[str]) -> str | None:
    mend = "write the address of the device's network interface"
    address = _field(item, path, "device_ip", faults, mend)
    if address is None:
        return None
    try:
        if isinstance(address, str):
            ipaddress.ip_address(address.replace("*", "0"))
            return address
    except ValueError:
        pass
    faults.append(f"{path}.device_ip: {_shown(address)} is not an IP address; {mend}")
    return None


def _field(item: dict[str, Any], path: str, key: str, faults: list[str], mend: str) -> Any:
    if item.get(key) is None:
        state = "is null" if key in item else "is missing"
        faults.append(f"{path}.{key} {state}; {mend}".removeprefix("."))
    return item.get(key)


def _number(item: dict[str, Any], path: str, key: str, faults: list[str], mend: str) -> int | None:
    value = _field(item, path, key, faults, mend)
    if value is None:
        return None
    digits = str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9 else value
    if isinstance(digits, str) and _NUMBER.fullmatch(digits):
        return int(digits)
    faults.append(f'{path}.{key}: {_shown(value)} is not a whole number from 0; {mend}, as in "0"'.removeprefix("."))
    return None


def _items(item: dict[str, Any], path: str, key: str, faults: list[str]) -> list[Any] | None:
    noun = "server" if key == "server_list" else "device"
    mend = f"list at least one {noun}"
    value = _field(item, path, key, faults, mend)
    if isinstance(value, list) and value:
        return value
    if value is not None:
        faults.append(f"{path}.{key}: {_shown(value)} is not a list of {noun}s; {mend}".removeprefix("."))
    return None
