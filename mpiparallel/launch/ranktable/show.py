"""``mpiparallel ranktable show``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from mpiparallel.cluster.device_rules import device_warnings
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.launch.ckpt.output import answer
from mpiparallel.launch.command_line.output_file import write_output
from mpiparallel.launch.ranktable.boxes import boxes
from mpiparallel.launch.ranktable.drawing import draw


def execute(arguments: argparse.Namespace) -> int:
    """Show the table that ``arguments`` name; return 0."""
    table = RankTable.load(arguments.table)
    if arguments.svg is not None:
        write_output("--svg", arguments.svg, draw(table).encode())
    plain = not (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")
    lines = [f"{arguments.table}: {table.summary}", *boxes(table, plain)]
    lines += [f"warning: {warning}" for warning in device_warnings(table)]
    answer(_told(table), lines, arguments.json)
    return 0


def _told(table: RankTable) -> dict[str, Any]:
    servers = [
        {
            "server_id": server.server_id,
            "devices": [
                {"device_id": device.device_id, "device_ip": device.device_ip, "rank_id": device.rank_id}
                for device in server.devices
            ],
        }
        for server in table.servers
    ]
    return {"ranks": table.rank_count, "servers": servers, "warnings": list(device_warnings(table))}
