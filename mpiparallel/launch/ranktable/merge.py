"""``mpiparallel ranktable merge``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mpiparallel.cluster.host_name import is_placeholder
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import RankTableError
from mpiparallel.launch.ranktable.numbering import Owned, numbered, write


def execute(arguments: argparse.Namespace) -> int:
    """Write the tables that ``arguments`` name as one; return 0."""
    write(numbered(_owned(_loaded(arguments.tables)), arguments.sort), arguments.output, arguments.json)
    return 0


def _loaded(paths: Sequence[Path]) -> list[tuple[Path, RankTable]]:
    """Return the tables; raise RankTableError with the problems of all the files."""
    found, problems = [], []
    for path in paths:
        try:
            found.append((path, RankTable.load(path)))
        except RankTableError as error:
            problems.append(str(error))
    if problems:
        raise RankTableError("\n".join(problems))
    return found


def _owned(tables: Sequence[tuple[Path, RankTable]]) -> list[Owned]:
    first: dict[str, Path] = {}
    problems, owned = [], []
    for path, table in tables:
        for server in table.servers:
            if server.server_id in first and not is_placeholder(server.server_id):
                problems.append(
                    f'{path}: server "{server.server_id}" is in {first[server.server_id]} too; give each host its own '
                    "server_id, and each file once"
                )
            first.setdefault(server.server_id, path)
            devices = sorted(server.devices, key=lambda device: device.rank_id)
            owned.append(Owned(server.server_id, tuple((device.device_id, device.device_ip) for device in devices)))
    if problems:
        raise RankTableError("\n".join(problems))
    return owned
