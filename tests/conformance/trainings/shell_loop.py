"""Shell scripts that start one process for each rank, in a folder of its own: on one host, and on each of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mpiparallel.cluster.rank_table import Device, RankTable, Server

LOOP = """
size=$1; shift
rank=$((size - 1))
while [ $rank -ge 0 ]; do
    mkdir device$rank && cd device$rank || exit
    export RANK_ID=$rank DEVICE_ID=$rank RANK_SIZE=$size
    if [ $rank -gt 0 ]; then
        ("$@" > train.log$rank 2>&1; echo $? > code) &
    else
        "$@" > train.log0 2>&1
        echo $? > code
        if [ "$(cat code)" -eq 0 ]; then echo "training success"; else echo "training failed"; fi
    fi
    cd ..
    rank=$((rank - 1))
done
wait
"""
"""Starts ranks size - 1 to 1 in the background and rank 0 in the foreground: ``sh loop.sh SIZE COMMAND...``."""

CLUSTER = """
size=$1 first=$2 count=$3; shift 3
number=0
folder=$(pwd)
export RANK_SIZE=$size
while [ $number -lt $count ]; do
    export RANK_ID=$((first + number)) DEVICE_ID=$number
    mkdir "$folder/device$RANK_ID" && cd "$folder/device$RANK_ID" || exit
    ("$@" > train.log$RANK_ID 2>&1; echo $? > code) &
    number=$((number + 1))
done
wait
"""
"""Starts the ranks of one host in the background: ``sh cluster.sh SIZE FIRST COUNT COMMAND...``."""


def write_table(path: Path, servers: Sequence[tuple[str, int]]) -> Path:
    """Write a rank table of servers, each with its number of devices, whose ranks are numbered in their order."""
    first = 0
    found = []
    for name, count in servers:
        devices = (Device(number, f"192.1.{number}.{len(found) + 1}", first + number) for number in range(count))
        found.append(Server(name, tuple(devices)))
        first += count
    path.write_text(RankTable(tuple(found)).to_json())
    return path


def codes(folder: Path, size: int) -> list[int]:
    """Return the exit codes of all ranks that a script has started in ``folder``."""
    return [int((folder / f"device{rank}" / "code").read_text()) for rank in range(size)]


def logs(folder: Path, size: int) -> list[str]:
    """Return all that each rank has printed."""
    return [(folder / f"device{rank}" / f"train.log{rank}").read_text() for rank in range(size)]
