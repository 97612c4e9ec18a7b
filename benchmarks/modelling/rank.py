"""What real ranks find out of plans, beside what the cost model says: started by ``benchmarks/cost_model.py``.

Its argument is JSON: ``what`` is wanted (libraries, memory or steps), of which ``plans``, and the ``file`` that rank 0
writes.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from compiling.resident import peak, restart_peak
from modelling.mapped_memory import given_back, resident
from modelling.networks import training
from modelling.plans import Plan

from mpiparallel import Tensor, context
from mpiparallel.communication import init, world
from mpiparallel.compile.rank_graph import rank_graph
from mpiparallel.context.settings import current_configuration
from mpiparallel.graph.execution.program import Profile
from mpiparallel.models.measured_steps import measured_steps
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.timed_nodes import scheduled_nodes
from mpiparallel.search.forecast.forecast import Forecast, make_forecast
from mpiparallel.search.machine.calibration import measure
from mpiparallel.search.machine.cluster_file import machine_json
from mpiparallel.search.machine.libraries import compile_elsewhere, library_bytes
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.machine.stopwatch import Pace, product_seconds

Figures = dict[str, Any]
STEPS = 3
WARM_UP = 2


def set_up(plan: Plan) -> None:
    """Let networks be trained as a plan says."""
    context.reset_auto_parallel_context()
    stages = {"pipeline_stages": plan.stages} if plan.stages > 1 else {}
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        device_num=plan.ranks,
        full_batch=True,
        enable_parallel_optimizer=plan.shards,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        **stages,
    )


def forecast(step: Any, batch: list[Tensor], prices: Prices) -> Forecast:
    """Return what the model says of a plan's step."""
    configuration = current_configuration()
    return make_forecast(step.staged_graph(*batch, configuration=configuration), configuration, prices)


def told_kernels(step: Any, batch: list[Tensor], prices: Prices) -> dict[str, float]:
    """Return what the model says of the kernels of each name in a step of the first stage's first rank."""
    (stage, *_) = step.staged_graph(*batch).stages
    local = rank_graph(stage, stage.devices.first_rank)
    inside = {one: node for node in local.graph.nodes for one in node.members}
    inside |= {one: node for node, steps in local.steps.items() for one, _ in steps}
    found = defaultdict[str, float](float)
    for one in scheduled_nodes(local, prices):
        found[inside.get(one.node, one.node).operator.name] += one.seconds
    return dict(found)


def memory(plan: Plan, machine: Machine) -> Figures:
    """Return by how much resident memory grows from before binding to the third step.

    ``most`` is what is resident in the third step at most: what an MPI library takes to sum up is given back at once.
    ``grown`` is what is there after it, in all and by where it is mapped from.
    """
    set_up(plan)
    everyone = world.current()
    step, arrays = training(plan)
    batch = [Tensor(array) for array in arrays]
    step.staged_graph(*batch)
    gc.collect()
    given_back()
    before = resident()
    for _ in range(STEPS - 1):
        step(*batch)
    restart_peak()
    step(*batch)
    most = peak() - before["all"]
    grown = {kind: size - before[kind] for kind, size in resident().items()}
    (compiled,) = step.program.programs
    held = sum(one.parameter.array.nbytes for one in compiled.local.parameters.values() if one.parameter is not None)
    given_back()
    after = resident()["all"] - before["all"]
    # Not before: it may load what binding would load.
    stage = forecast(step, batch, Prices(machine)).stages[everyone.rank * plan.stages // plan.ranks]
    return {
        "told": dict(stage.memory.kinds),
        "most": most,
        "grown": grown,
        "held": held,
        "arena": compiled.program.arena_bytes,
        "nodes": len(compiled.local.nodes),
        "after giving back": after,
    }


def steps(plan: Plan, machine: Machine, seconds: float) -> Figures:
    """Return how long steps take, by the clock and of all processors, and how long the model says.

    ``kernels`` are what a step spends of a processor on the kernels of each name, on the first rank. ``paces`` are what
    a product takes after each step, on average of the ranks.
    """
    set_up(plan)
    everyone = world.current()
    step, arrays = training(plan)
    batch = [Tensor(array) for array in arrays]
    told = forecast(step, batch, Prices(machine))
    for _ in range(WARM_UP):
        step(*batch)
    spent, begun = [], time.perf_counter()
    while True:
        everyone.barrier()
        clock, processor = time.perf_counter(), time.process_time()
        step(*batch)
        processor = time.process_time() - processor
        everyone.barrier()
        spent.append((time.perf_counter() - clock, processor, product_seconds(time.thread_time)))
        if everyone.any_true(time.perf_counter() - begun > seconds):
            break
    own = np.array(spent)
    everyone.all_reduce(own)
    profile = Profile(clock=time.thread_time)
    for _ in range(WARM_UP):
        step.run(0, batch, profile)
    return {
        "told": told.seconds,
        "parts": dict(told.slowest.parts),
        "told_kernels": told_kernels(step, batch, Prices(machine)),
        "kernels": {name: spent / WARM_UP for name, spent in profile.operators.items()},
        "clock": (own[:, 0] / everyone.size).tolist(),
        "processors": own[:, 1].tolist(),
        "paces": (own[:, 2] / everyone.size).tolist(),
    }


def main() -> None:
    """Do what is asked for; write what has been found after each plan."""
    job = json.loads(sys.argv[1])
    init()
    everyone = world.current()
    found: Figures = {"plans": []}
    begun = time.perf_counter()
    if job["what"] == "libraries":
        compile_elsewhere()
        found["libraries"] = library_bytes()
    measures = job["what"] == "steps"
    pace = Pace()
    machine = measure(everyone, measured_steps, pace) if measures else Machine(libraries=job.get("libraries", 0.0))
    found.update(cores=machine.cores, machine=machine_json(machine), pace=pace.usual)
    for number in [*range(len(job["plans"]))] * job.get("rounds", 1):
        plan = Plan.of_json(job["plans"][number])
        if everyone.any_true(time.perf_counter() - begun > job["seconds"]):
            break
        figures = memory(plan, machine) if job["what"] == "memory" else steps(plan, machine, job["each"])
        rows = everyone_says(figures) if job["what"] == "memory" else [figures]
        if number == len(found["plans"]):
            found["plans"].append([])
        found["plans"][number] += rows
        _write(found, job["file"])
        # What was traced is kept from the collector.
        gc.unfreeze()
        gc.collect()
    _write(found, job["file"])


def _write(found: Figures, file: str) -> None:
    if world.current().rank == 0:
        Path(file).write_text(json.dumps(found), encoding="utf-8")


def everyone_says(figures: Figures) -> list[Figures]:
    """Return the figures of each rank."""
    room = np.zeros(1 << 14, np.uint8)
    content = json.dumps(figures).encode()
    room[: len(content)] = np.frombuffer(content, np.uint8)
    everyone = world.current()
    gathered = np.zeros((everyone.size, room.size), np.uint8)
    everyone.all_gather(room, gathered)
    return [json.loads(row.tobytes().rstrip(b"\0")) for row in gathered]


if __name__ == "__main__":
    main()
