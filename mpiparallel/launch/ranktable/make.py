"""``mpiparallel ranktable make``."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mpiparallel.cluster.host_name import host_problem
from mpiparallel.cluster.hostfile import Hostfile
from mpiparallel.cluster.json_document import shown
from mpiparallel.cluster.node_list import expand_nodes, expand_tasks
from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.ranktable.devices import (
    MOST_DEVICES,
    device_addresses,
    device_range,
    listed_gpus,
    visible_devices,
)
from mpiparallel.launch.ranktable.numbering import Owned, numbered, write

# What stands for an address that is not known: mpiparallel needs none, HCCL does.
_NO_ADDRESS = "*.*.*.*"
_HCCN = Path("/etc/hccn.conf")


def execute(arguments: argparse.Namespace) -> int:
    """Write the table of the hosts and devices that ``arguments`` name; return 0."""
    write(numbered(_owned(arguments, os.environ), arguments.sort), arguments.output, arguments.json)
    return 0


def _owned(arguments: argparse.Namespace, variables: Mapping[str, str]) -> list[Owned]:
    _check(arguments)
    counts = _hosts(arguments, variables)
    here = arguments.hostfile is None and arguments.slurm is None
    addresses = _addresses(arguments.hccn) if here else {}
    found = []
    total = 0
    for name, count in counts.items():
        devices = _devices(arguments, name, count)
        total += len(devices)
        if total > MOST_DEVICES:
            raise ConfigurationError(f"there are more than {MOST_DEVICES} devices up to host {name}; give fewer a host")
        found.append(Owned(name, tuple((number, addresses.get(number, _NO_ADDRESS)) for number in devices)))
    return found


def _check(arguments: argparse.Namespace) -> None:
    """Refuse words that contradict each other."""
    elsewhere = arguments.hostfile is not None or arguments.slurm is not None
    for word, is_given in (("--nvidia-smi", arguments.nvidia_smi), ("--hccn", arguments.hccn is not None)):
        if elsewhere and is_given:
            raise ConfigurationError(
                f"{word} is about this machine only; run it without --hostfile and --slurm on each host, then "
                "mpiparallel ranktable merge"
            )
    if arguments.visible_devices is not None and arguments.device_num is None:
        raise ConfigurationError('--visible-devices goes with --device-num, as in --device-num "[0,4)"')
    if arguments.tasks_per_node is not None and arguments.slurm is None:
        raise ConfigurationError("--tasks-per-node goes with --slurm; give --device-num instead")


def _hosts(arguments: argparse.Namespace, variables: Mapping[str, str]) -> dict[str, int | None]:
    """Return the hosts, each with the number of devices that its source says, None where it says none."""
    if arguments.hostfile is not None:
        return {host.name: host.slots for host in Hostfile.load(arguments.hostfile).hosts}
    if arguments.slurm is not None:
        return dict(_allocated(arguments, variables))
    name = arguments.server_ip or socket.gethostname()
    problem = host_problem(name)
    if problem is not None:
        raise ConfigurationError(f"--server-ip {shown(name)} {problem}; give this machine's address or name")
    return {name: None}


def _allocated(arguments: argparse.Namespace, variables: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    nodes, tasks = arguments.slurm, arguments.tasks_per_node
    if not nodes:
        nodes = variables.get("SLURM_JOB_NODELIST", "")
        tasks = tasks or variables.get("SLURM_TASKS_PER_NODE")
        if not nodes:
            raise ConfigurationError(
                '--slurm: this is no SLURM job, SLURM_JOB_NODELIST is not set; give a list: --slurm "node[01-03,7]"'
            )
    names = list(dict.fromkeys(expand_nodes(nodes)))
    yield from zip(names, expand_tasks(tasks or "1", len(names)), strict=True)


def _devices(arguments: argparse.Namespace, name: str, count: int | None) -> Sequence[int]:
    if arguments.device_num is not None:
        asked = device_range(arguments.device_num)
        return asked if arguments.visible_devices is None else visible_devices(asked, arguments.visible_devices)
    if arguments.nvidia_smi:
        return listed_gpus()
    if count is None:
        raise ConfigurationError(f'which devices does {name} have? give --device-num "[0,8)", or --nvidia-smi')
    return range(count)


def _addresses(given: Path | None) -> dict[int, str]:
    if given is None and not _HCCN.exists():
        return {}
    return device_addresses(given or _HCCN)
