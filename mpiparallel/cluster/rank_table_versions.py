"""Rank tables of other versions than 1.0: what of them there is no support for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mpiparallel.cluster.json_document import child

# From CANN's documentation of the rank table; 1.2 is written for Atlas A3, 2.0 for A5.
_VERSIONS = {"1.2": "super-pods (Atlas A3)", "2.0": "super-pods with UB links (Atlas A5)"}
_FIELDS = (
    "super_pod_list",
    "super_device_id",
    "device_port",
    "host_port",
    "backup_device_ip",
    "backup_device_port",
    "rank_list",
    "level_list",
    "control_plane",
    "server_group_list",
)
_OTHER_FORMS = {
    "group_list": "a table of the form with group_list, which is older than version 1.0",
    "server_group_list": "a global rank table, with several groups of servers",
    "rank_list": "a table with rank_list, as version 2.0 has it",
}


def describe_version(version: object, document: dict[str, Any]) -> str:
    """Return what is wrong with a table of ``version``: for a known one, with what of it has no counterpart here."""
    known = _VERSIONS.get(version) if isinstance(version, str) else None
    if known is None:
        return "is not a rank table version"
    found: dict[str, tuple[str, int]] = {}
    for path, name in _fields(document):
        first, count = found.get(name, (path, 0))
        found[name] = (first, count + 1)
    told = ", ".join(f"{path} ({count} places)" if count > 1 else path for path, count in found.values())
    lacking = f"; there is nothing here for {told}" if told else ""
    return f"is the rank table of {known}, which is not supported{lacking}"


def other_form(document: dict[str, Any]) -> str | None:
    """Return what else than a version 1.0 table ``document`` is, if it has a field that tells."""
    if "server_list" in document:
        return None
    return next((text for field, text in _OTHER_FORMS.items() if field in document), None)


def _fields(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield path and name of each field that only other versions have, at the top, in servers and in devices."""
    yield from _own(document, "")
    servers = document.get("server_list")
    for index, server in enumerate(servers if isinstance(servers, list) else ()):
        path = child("server_list", index)
        yield from _own(server, path)
        devices = server.get("device") if isinstance(server, dict) else None
        for position, device in enumerate(devices if isinstance(devices, list) else ()):
            yield from _own(device, child(f"{path}.device", position))


def _own(item: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(item, dict):
        yield from ((child(path, name), name) for name in _FIELDS if name in item)
