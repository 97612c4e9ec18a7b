"""How ranks share hosts and cores, and what follows for their collectives."""

from __future__ import annotations

import os
import sys

import numpy as np

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError

OVERLAP_VARIABLE = "MPIPARALLEL_OVERLAP"
"""``on`` and ``off`` say whether collectives run beside computation; ``auto``, the default: where hosts are several."""
_OVERLAP = ("auto", "on", "off")
_MOST_CORES = 1 << 14


def overlaps(several_hosts: bool) -> bool:
    """Return whether collectives should run beside computation: between hosts, unless the environment says otherwise.

    On one host the cores copy what travels, so there is nothing to hide. There Open MPI's non-blocking collectives take
    two to three times as long as its blocking ones. Raises CommunicationError for an unknown setting.
    """
    asked = os.environ.get(OVERLAP_VARIABLE, "auto").lower()
    if asked not in _OVERLAP:
        raise CommunicationError(f"{OVERLAP_VARIABLE}={asked!r} in the environment is not one of {', '.join(_OVERLAP)}")
    return several_hosts if asked == "auto" else asked == "on"


def agreed(world: Communicator, answer: bool) -> bool:
    """Return the answer of rank 0 on every rank: launchers do not carry the environment to other hosts."""
    chosen = np.array([answer])
    world.broadcast(chosen, 0)
    return bool(chosen[0])


def is_crowded(world: Communicator, host: Communicator) -> bool:
    """Return whether on some host there are more ranks than cores that they may run on; the same on every rank."""
    return world.any_true(shared_cores(host) < host.size)


def shared_cores(host: Communicator) -> int:
    """Return on how many cores the ranks of a host may run; they call it together."""
    usable = np.zeros(_MOST_CORES, np.uint8)
    usable[list(_usable_cores())] = 1
    host.all_reduce(usable, "max")
    return int(np.count_nonzero(usable))


def _usable_cores() -> set[int]:
    if sys.platform == "linux":
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))
