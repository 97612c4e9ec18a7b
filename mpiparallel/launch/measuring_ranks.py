"""The program of ``mpiparallel calibrate``: each rank measures, the first keeps what was found and says it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from mpiparallel.communication import world
from mpiparallel.communication.management import init
from mpiparallel.graph.graph import Graph
from mpiparallel.search.machine.calibration import measure
from mpiparallel.search.machine.cluster_file import machine_json
from mpiparallel.search.machine.kept import keep_machine
from mpiparallel.search.machine.machine import Machine

_GIGA, _MEGA = 1e9, 1e6
_TOLD_BYTES = 1e6


def summary(machine: Machine) -> str:
    """Return a machine in a few lines."""
    rates = ", ".join(f"{rate / _GIGA:.3g}" for _, rate in machine.products)
    links = (("inside a host", machine.inside), ("between hosts", machine.between))
    times = (
        f"{one.kind.replace('_', ' '):<16}{one.seconds(_TOLD_BYTES) * 1e3:.3g} ms for 1 MB among {one.ranks} ranks"
        for one in machine.collectives
        if one.ranks == max(other.ranks for other in machine.collectives)
    )
    return "\n".join(
        [
            f"{machine.hosts} x {machine.ranks_per_host} ranks on {machine.cores} cores each, all busy at once",
            f"products        {rates} GFLOP/s, from small to large",
            f"matrices        {machine.operand_bandwidth / _GIGA:.3g} GB/s are taken into products",
            f"other kernels   {len(machine.kernels)}, by name",
            f"memory          {machine.memory_bandwidth / _GIGA:.3g} GB/s a rank",
            f"libraries       {machine.libraries / _MEGA:.3g} MB a rank",
            f"kernel          {machine.launch * 1e6:.3g} us",
            *(f"{name:<16}{link.latency * 1e6:.3g} us, {link.bandwidth / _GIGA:.3g} GB/s" for name, link in links),
            *times,
        ]
    )


def _graphs() -> Sequence[Graph]:
    """Return the graphs whose kernels are measured; only ranks that measure them load networks."""
    from mpiparallel.models.measured_steps import measured_steps

    return measured_steps()


if __name__ == "__main__":
    init()
    measured = measure(world.current(), _graphs)
    if world.current().rank == 0:
        path = keep_machine(measured)
        if "--json" in sys.argv[1:]:
            print(json.dumps({"machine": json.loads(machine_json(measured)), "kept": str(path)}), flush=True)
        else:
            print(f"{summary(measured)}\nkept in {path}", flush=True)
