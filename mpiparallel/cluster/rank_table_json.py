"""Reading the JSON of a rank table, with every problem of the file found in one pass."""

from __future__ import annotations

import difflib
import re
from typing import Any

from mpiparallel.cluster.file_problems import FileProblems
from mpiparallel.cluster.host_name import host_problem, is_address, is_placeholder
from mpiparallel.cluster.json_document import child, read_json, shown
from mpiparallel.cluster.rank_table_entries import DeviceEntry, ServerEntry, check_whole
from mpiparallel.cluster.rank_table_versions import describe_version, other_form

VERSION = "1.0"
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_MOST_NAME_CHARACTERS = 63
_MOST_KEYS_COMPARED = 50
_KEYS = frozenset(
    {"version", "server_count", "server_list", "status", "server_id", "device", "device_id", "device_ip", "rank_id"}
)


def read(text: str, problems: FileProblems) -> tuple[ServerEntry, ...]:
    """Read the JSON text of a version 1.0 rank table; what is wrong with it is added to ``problems``, never raised."""
    document = read_json(text, problems)
    if document is None and problems:
        return ()
    if not isinstance(document, dict):
        problems.add(
            "", f"{shown(document)} is not a JSON object; write version, server_count, server_list and status in one"
        )
        return ()
    form = other_form(document)
    if form is not None:
        _check_version(document, problems, form)
        return ()
    _check_version(document, problems)
    _check_status(document, problems)
    items = _items(document, "", "server_list", problems)
    _check_count(document, items, problems)
    servers = tuple(_server(item, child("server_list", index), problems) for index, item in enumerate(items or ()))
    check_whole(servers, problems)
    return servers


def _check_version(document: dict[str, Any], problems: FileProblems, form: str | None = None) -> None:
    version = _field(document, "", "version", problems, f'write "{VERSION}"')
    if version is not None and version != VERSION:
        told = describe_version(version, document)
        problems.add("version", f'{shown(version)} {told}; write a version "{VERSION}" table')
    elif form is not None:
        problems.add(
            "", f'the file is {form}, which is not supported; write a version "{VERSION}" table with server_list'
        )


def _check_status(document: dict[str, Any], problems: FileProblems) -> None:
    status = _field(document, "", "status", problems, 'write "completed"')
    if status is not None and status != "completed":
        problems.add("status", f'{shown(status)} is not usable; once the table is complete, write "completed"')


def _check_count(document: dict[str, Any], items: list[Any] | None, problems: FileProblems) -> None:
    count = _number(document, "", "server_count", problems, "write the number of servers")
    if count is not None and items is not None and count != len(items):
        mend = f'write "{len(items)}", or list the missing servers'
        problems.add("server_count", f'"{count}" does not match the {len(items)} servers of server_list; {mend}')


def _server(item: object, path: str, problems: FileProblems) -> ServerEntry:
    if not isinstance(item, dict):
        problems.add(path, f"{shown(item)} is not a JSON object; write a server: server_id and device")
        return ServerEntry(path, None, ())
    server_id = _server_id(item, path, problems)
    items = _items(item, path, "device", problems)
    devices = (_device(entry, f"{path}.device[{index}]", problems) for index, entry in enumerate(items or ()))
    return ServerEntry(path, server_id, tuple(devices))


def _server_id(item: dict[str, Any], path: str, problems: FileProblems) -> str | None:
    mend = "write the host's address or name"
    server_id = _field(item, path, "server_id", problems, mend)
    if server_id is None:
        return None
    if not isinstance(server_id, str):
        reason: str | None = "is not a string"
    elif len(server_id) > _MOST_NAME_CHARACTERS:
        reason = f"has {len(server_id)} characters, which HCCL limits to {_MOST_NAME_CHARACTERS}"
    else:
        reason = None if is_placeholder(server_id) else host_problem(server_id)
    if reason is None:
        return str(server_id)
    problems.add(f"{path}.server_id", f"{shown(server_id)} {reason}; {mend}")
    return None


def _device(item: object, path: str, problems: FileProblems) -> DeviceEntry:
    if not isinstance(item, dict):
        problems.add(path, f"{shown(item)} is not a JSON object; write a device: device_id, device_ip and rank_id")
        return DeviceEntry(path, None, None, None)
    return DeviceEntry(
        path,
        _number(item, path, "device_id", problems, "write the device's number on its server"),
        _address(item, path, problems),
        _number(item, path, "rank_id", problems, "write the rank, counted from 0"),
    )


def _address(item: dict[str, Any], path: str, problems: FileProblems) -> str | None:
    mend = "write the address of the device's network interface, as in address_0 of /etc/hccn.conf"
    address = _field(item, path, "device_ip", problems, mend)
    if address is None:
        return None
    if isinstance(address, str) and is_address(address.replace("*", "0") if is_placeholder(address) else address):
        return address
    problems.add(f"{path}.device_ip", f"{shown(address)} is not an IP address; {mend}")
    return None


def _field(item: dict[str, Any], path: str, key: str, problems: FileProblems, mend: str) -> Any:
    value = item.get(key)
    if value is None:
        state = "is null" if key in item else "is missing"
        problems.add(child(path, key), f"{state}; {mend}{'' if problems.is_full else _meant(item, key)}")
    return value


def _meant(item: dict[str, Any], key: str) -> str:
    """Return a question about the key that was written in place of ``key``, if one looks like it."""
    others = [other[: 2 * len(key)] for other in list(item)[:_MOST_KEYS_COMPARED] if other not in _KEYS]
    near = difflib.get_close_matches(key, others, n=1, cutoff=0.7)
    return f" (is {shown(near[0])} meant to be it?)" if near else ""


def _number(item: dict[str, Any], path: str, key: str, problems: FileProblems, mend: str) -> int | None:
    value = _field(item, path, key, problems, mend)
    if value is None:
        return None
    digits = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(digits, str) and _NUMBER.fullmatch(digits):
        return int(digits)
    problems.add(child(path, key), f'{shown(value)} is not a whole number from 0; {mend}, as in "0"')
    return None


def _items(item: dict[str, Any], path: str, key: str, problems: FileProblems) -> list[Any] | None:
    noun = "server" if key == "server_list" else "device"
    mend = f"list at least one {noun}"
    value = _field(item, path, key, problems, mend)
    if isinstance(value, list) and value:
        return value
    if value is not None:
        problems.add(child(path, key), f"{shown(value)} is not a list of {noun}s; {mend}")
    return None
