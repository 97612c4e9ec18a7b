"""The program of ``mpiparallel calibrate --gpu``: each rank measures its GPU, the first keeps what was found."""

from __future__ import annotations

import json
import sys

from mpiparallel.backend.cupy_backend import CupyBackend
from mpiparallel.communication import world
from mpiparallel.communication.management import init
from mpiparallel.search.machine.cluster_file import machine_json
from mpiparallel.search.machine.gpu_calibration import measure_gpus
from mpiparallel.search.machine.kept import keep_machine

if __name__ == "__main__":
    init()
    measured = measure_gpus(world.current(), CupyBackend())
    if world.current().rank == 0:
        path, text = keep_machine(measured), machine_json(measured)
        document = json.dumps({"machine": json.loads(text), "kept": str(path)})
        print(document if "--json" in sys.argv[1:] else f"{text}kept in {path}", flush=True)
