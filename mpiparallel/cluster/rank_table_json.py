"""Reading the JSON of a rank table, with every fault of the file found in one pass."""

from __future__ import annotations

import difflib
import re
from typing import Any

from mpiparallel.cluster.faults import Faults
from mpiparallel.cluster.host_name import host_fault, is_address, is_placeholder
from mpiparallel.cluster.json_document import child, read_json, shown
from mpiparallel.cluster.rank_table_entries import DeviceEntry, ServerEntry, check_whole
from mpiparallel.cluster.rank_table_versions import describe_version, other_form

VERSION = "1.0"
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_MOST_NAME_CHARACTERS = 63
_MOST_KEYS_COMPARED = 50


def read(text: str, faults: Faults) -> tuple[ServerEntry, ...]:
    """Read the JSON text of a version 1.0 rank table; what is wrong with it is added to ``faults``, never raised."""
    document = read_json(text, faults)
    if document is None and faults:
        return ()
    if not isinstance(document, dict):
        faults.add(
            "", f"{shown(document)} is not a JSON object; write version, server_count, server_list and status in one"
        )
        return ()
    form = other_form(document)
    if form is not None:
        _check_version(document, faults, form)
        return ()
    _check_version(document, faults)
    _check_status(document, faults)
    items = _items(document, "", "server_list", faults)
    _check_count(document, items, faults)
    servers = tuple(_server(item, child("server_list", index), faults) for index, item in enumerate(items or ()))
    check_whole(servers, faults)
    return servers


def _check_version(document: dict[str, Any], faults: Faults, form: str | None = None) -> None:
    version = _field(document, "", "version", faults, f'write "{VERSION}"')
    if version is not None and version != VERSION:
        told = describe_version(version, document)
        faults.add("version", f'{shown(version)} {told}; write a version "{VERSION}" table')
    elif form is not None:
        faults.add(
            "", f'the file is {form}, which is not supported; write a version "{VERSION}" table with server_list'
        )


def _check_status(document: dict[str, Any], faults: Faults) -> None:
    status = _field(document, "", "status", faults, 'write "completed"')
    if status is not None and status != "completed":
        faults.add("status", f'{shown(status)} is not usable; once the table is complete, write "completed"')


def _check_count(document: dict[str, Any], items: list[Any] | None, faults: Faults) -> None:
    count = _number(document, "", "server_count", faults, "write the number of servers")
    if count is not None and items is not None and count != len(items):
        mend = f'write "{len(items)}", or list the missing servers'
        faults.add("server_count", f'"{count}" does not match the {len(items)} servers of server_list; {mend}')


def _server(item: object, path: str, faults: Faults) -> ServerEntry:
    if not isinstance(item, dict):
        faults.add(path, f"{shown(item)} is not a JSON object; write a server: server_id and device")
        return ServerEntry(path, None, ())
    server_id = _server_id(item, path, faults)
    items = _items(item, path, "device", faults)
    devices = (_device(entry, f"{path}.device[{index}]", faults) for index, entry in enumerate(items or ()))
    return ServerEntry(path, server_id, tuple(devices))


def _server_id(item: dict[str, Any], path: str, faults: Faults) -> str | None:
    mend = "write the host's address or name"
    server_id = _field(item, path, "server_id", faults, mend)
    if server_id is None:
        return None
    if not isinstance(server_id, str):
        reason: str | None = "is not a string"
    elif len(server_id) > _MOST_NAME_CHARACTERS:
        reason = f"has {len(server_id)} characters, which HCCL limits to {_MOST_NAME_CHARACTERS}"
    else:
        reason = None if is_placeholder(server_id) else host_fault(server_id)
    if reason is None:
        return str(server_id)
    faults.add(f"{path}.server_id", f"{shown(server_id)} {reason}; {mend}")
    return None


def _device(item: object, path: str, faults: Faults) -> DeviceEntry:
    if not isinstance(item, dict):
        faults.add(path, f"{shown(item)} is not a JSON object; write a device: device_id, device_ip and rank_id")
        return DeviceEntry(path, None, None, None)
    return DeviceEntry(
        path,
        _number(item, path, "device_id", faults, "write the device's number on its server"),
        _address(item, path, faults),
        _number(item, path, "rank_id", faults, "write the rank, counted from 0"),
    )


def _address(item: dict[str, Any], path: str, faults: Faults) -> str | None:
    mend = "write the address of the device's network interface, as in address_0 of /etc/hccn.conf"
    address = _field(item, path, "device_ip", faults, mend)
    if address is None:
        return None
    if isinstance(address, str) and is_address(address.replace("*", "0") if is_placeholder(address) else address):
        return address
    faults.add(f"{path}.device_ip", f"{shown(address)} is not an IP address; {mend}")
    return None


def _field(item: dict[str, Any], path: str, key: str, faults: Faults, mend: str) -> Any:
    value = item.get(key)
    if value is None:
        state = "is null" if key in item else "is missing"
        faults.add(child(path, key), f"{state}; {mend}{'' if faults.is_full else _meant(item, key)}")
    return value


def _meant(item: dict[str, Any], key: str) -> str:
    """Return a question about the key that was written in place of ``key``, if one looks like it."""
    others = [other[: 2 * len(key)] for other in list(item)[:_MOST_KEYS_COMPARED] if other != key]
    near = difflib.get_close_matches(key, others, n=1, cutoff=0.7)
    return f" (is {shown(near[0])} meant to be it?)" if near else ""


def _number(item: dict[str, Any], path: str, key: str, faults: Faults, mend: str) -> int | None:
    value = _field(item, path, key, faults, mend)
    if value is None:
        return None
    digits = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(digits, str) and _NUMBER.fullmatch(digits):
        return int(digits)
    faults.add(child(path, key), f'{shown(value)} is not a whole number from 0; {mend}, as in "0"')
    return None


def _items(item: dict[str, Any], path: str, key: str, faults: Faults) -> list[Any] | None:
    noun = "server" if key == "server_list" else "device"
    mend = f"list at least one {noun}"
    value = _field(item, path, key, faults, mend)
    if isinstance(value, list) and value:
        return value
    if value is not None:
        faults.add(child(path, key), f"{shown(value)} is not a list of {noun}s; {mend}")
    return None
