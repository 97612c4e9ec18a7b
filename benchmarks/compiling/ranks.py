"""Cases that real ranks measure, four as a rule: a training of many small parameters, and memory after a move.

mpiparallel run -n 4 benchmarks/compiling/ranks.py small_parameters 20000 FILE
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from compiling.networks import SMALL, Additions, trained, wide
from compiling.resident import resident, restart_peak

from mpiparallel import context
from mpiparallel.communication import init, world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.train import CheckpointConfig, ModelCheckpoint

Figures = dict[str, float]


def small_parameters(count: int) -> Figures:
    """Return the seconds, of CPU on the slowest rank and by the clock, of each stage of a training."""
    figures: Figures = {}
    everyone = world.current()
    network = Additions(count)
    model, data = trained(network, SMALL)
    with tempfile.TemporaryDirectory() as own:
        folder = Path(_said_by_rank_0(own))
        _stage("built", lambda: model.build(data), figures, everyone)
        _stage("step", lambda: model.train(1, data), figures, everyone)
        saver = ModelCheckpoint("line", folder, CheckpointConfig(save_checkpoint_steps=2))
        _stage("step and save", lambda: model.train(1, data, saver), figures, everyone)
        other, _ = trained(Additions(count), SMALL)
        other.build(data)
        _stage("loaded", lambda: other.resume(folder, data), figures, everyone)
        # For half of the ranks it is traced and placed once.
        size, half = everyone.size, everyone.size // 2
        for name, ranks in ((f"first to {half}", half), (f"to {size}", size), (f"to {half}", half)):
            _stage(name, partial(model.reshard, ranks=ranks), figures, everyone)
        everyone.barrier()
    return figures


def _said_by_rank_0(text: str) -> str:
    room = np.zeros(4096, np.uint8)
    room[: len(text)] = np.frombuffer(text.encode(), np.uint8)
    world.current().broadcast(room, 0)
    return room.tobytes().rstrip(b"\0").decode()


def _stage(name: str, act: Callable[[], object], figures: Figures, everyone: Communicator) -> None:
    everyone.barrier()
    cpu, clock = time.process_time(), time.perf_counter()
    act()
    spent = np.array([time.process_time() - cpu, time.perf_counter() - clock])
    everyone.all_reduce(spent, "max")
    figures[f"{name}, CPU s"], figures[f"{name}, s"] = spent.tolist()


def memory(megabytes: int) -> Figures:
    """Return the MB that a state takes on each rank before and after it has moved from four ranks to two."""
    width = 1024
    everyone = world.current()
    # One rank of each host compiles a loop, and what it loads for that stays with it.
    small, data = trained(wide(1, width), width)
    small.train(1, data)
    before = restart_peak()
    model, data = trained(wide(megabytes * 1_000_000 // (12 * width * width), width), width)
    model.train(1, data)
    held = resident() - before
    model.reshard(ranks=2)
    state = sum(one.array.nbytes for one in model.train_network.get_parameters()) if model.active else 0
    own = np.array([held, resident() - before, state], np.int64)
    gathered = np.zeros((everyone.size, own.size), np.int64)
    everyone.all_gather(own, gathered)
    spare = gathered[2:, 1].max()
    return {
        "MB before": gathered[:, 0].max() / 1e6,
        "MB after": gathered[:2, 1].max() / 1e6,
        "MB of state": gathered[:2, 2].max() / 1e6,
        "MB on spares": spare / 1e6,
    }


def main() -> None:
    """Run the case named and let rank 0 write its figures to the file named."""
    case, size, file = sys.argv[1:]
    init()
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=world.current().size)
    is_first = world.current().rank == 0
    figures = {"small_parameters": small_parameters, "memory": memory}[case](int(size))
    if is_first:
        Path(file).write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
