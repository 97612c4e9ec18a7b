"""How long a step in stages takes against what its schedule says, and against torch.distributed.pipelining.

Run it on as many ranks as stages:

    mpiparallel run -n 4 benchmarks/pipeline.py
    mpiparallel run -n 2 benchmarks/pipeline.py --peer torch --schedules gpipe,1f1b,interleaved_1f1b,zb_h1,zb_v
    mpiparallel run -n 4 benchmarks/pipeline.py --memory
    mpiparallel run -n 4 benchmarks/pipeline.py --seconds 0.05 --schedules zb_v --svg docs/images/pipeline.svg

Forward pass, input gradient and weight gradient of a micro-batch sleep for ``--seconds`` each, in all chunks of a stage
together. Bubbles are in parts of (p - 1)(F + I + W). The fastest of ``--steps`` steps is reported, and what the
schedule would take with computations as long as they were: a busy machine wakes late who sleeps.

With ``--peer torch`` ranks train residual blocks instead, in turn here and in PyTorch over gloo, in child processes of
the environment that ``make test-interop`` makes; one thread a rank. The bytes are those that cross between stages in a
step here, and the least that can: what the receiving layouts hold. The seconds of processors are those of all ranks
together, which other programs on the machine change little.

With ``--memory`` ranks train 32 residual blocks, and then 8 layers of a Transformer's encoder. What each has taken at
most is told beside what the checker says.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from pathlib import Path

import numpy as np
from pipelining.blocks import blocks_in_stages, bytes_sent
from pipelining.held_memory import held_by_blocks, held_by_encoder
from pipelining.slow_layer import DIARY, WIDTH, slow_network
from training_step.peer import TorchPeer, free_port

from mpiparallel import Tensor, context, nn
from mpiparallel.communication import init, world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.pipeline import (
    SCHEDULES,
    Action,
    Costs,
    Kind,
    Panel,
    Schedule,
    TimedAction,
    check,
    drawn_text,
    make_schedule,
    picture,
)

ROWS, HIDDEN = 2, 4
PEER_PYTHON = Path(__file__).parents[1] / ".venv-torch" / "bin" / "python"
WORKER = Path(__file__).parent / "pipelining" / "torch_worker.py"


def parse() -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", default=",".join(SCHEDULES), help="names, separated by commas")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.04, help="of F, I and W of a micro-batch, each")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--peer", choices=["torch"], help="what to compare with")
    parser.add_argument("--peer-python", default=str(PEER_PYTHON), help="its Python")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rows", type=int, default=256, help="of a batch")
    parser.add_argument("--memory", action="store_true", help="say what ranks hold at most, not how long steps take")
    parser.add_argument("--svg", help="write the planned and measured time lines into this file")
    return parser.parse_args()


def set_stages(name: str, stages: int) -> None:
    """Let networks work in stages by a schedule."""
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        pipeline_stages=stages,
        pipeline_config={"pipeline_scheduler": name},
    )


def timed_steps(
    schedule: Schedule, seconds: float, steps: int, communicator: Communicator
) -> list[tuple[float, list[TimedAction]]]:
    """Return how long each step took, and what all ranks did in it, in units of ``seconds``."""
    network = slow_network(schedule.placement, seconds, ROWS)
    trained = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), schedule.micro_batches)
    step = nn.TrainOneStepCell(trained, nn.SGD(network.trainable_params(), 0.1)).set_train()
    rows = Tensor(np.ones((ROWS * schedule.micro_batches, WIDTH), np.float32))
    found = []
    for _ in range(steps + 1):
        DIARY.entries.clear()
        communicator.barrier()
        begin = time.time()
        step(rows, rows)
        actions = DIARY.actions(schedule.placement, begin)
        own = np.array([(one.stage, one.action.kind, *one.action[1:3], one.begin, one.end) for one in actions])
        everyone = np.empty((communicator.size, *own.shape))
        communicator.all_gather(own[None], everyone)
        lines = [
            TimedAction(
                int(row[0]), Action(Kind(int(row[1])), int(row[2]), int(row[3])), row[4] / seconds, row[5] / seconds
            )
            for row in everyone.reshape(-1, 6)
        ]
        found.append((max(line.end for line in lines), lines))
    return found[1:]


def measured_costs(schedule: Schedule, lines: list[TimedAction]) -> Costs:
    """Return how long forward passes, input and weight gradients of each stage were, on average, in all its chunks."""
    chunks = len(schedule.placement.parts[0])

    def mean(kind: Kind, stage: int) -> float:
        found = [one.end - one.begin for one in lines if (one.action.kind, one.stage) == (kind, stage)]
        return chunks * sum(found) / len(found)

    kinds = (Kind.FORWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT)
    lengths = (tuple(mean(kind, stage) for stage in range(schedule.stages)) for kind in kinds)
    return Costs(*lengths, message=(0.0,) * schedule.stages)


def measured(name: str, flags: argparse.Namespace, communicator: Communicator) -> list[Panel]:
    """Print what a schedule promises and takes; return both as time lines."""
    stages, count = communicator.size, flags.micro_batches
    set_stages(name, stages)
    schedule = make_schedule(name, stages, count)
    report = check(schedule, Costs.even(stages))
    step, lines = min(timed_steps(schedule, flags.seconds, flags.steps, communicator), key=lambda one: one[0])
    worst = (stages - 1) * 3
    as_long = check(schedule, measured_costs(schedule, lines)).step
    title = SCHEDULES[name].title
    if communicator.rank == 0:
        ideal = 3 * count
        print(
            f"{name:<17} planned {report.step:6.2f} measured {step:6.2f} ({step / report.step:.3f}), bubble planned "
            f"{report.bubble / worst:.3f} measured {(step - ideal) / worst:.3f} of (p-1)(F+I+W); "
            f"{as_long:.2f} planned with computations as long as they were",
            flush=True,
        )
    note = f"step {step:.1f}, on {stages} processes"
    return [Panel.planned(f"{title}, planned", schedule), Panel(f"{title}, measured", note, lines)]


def compared(name: str, flags: argparse.Namespace, peer: TorchPeer, communicator: Communicator) -> None:
    """Print what a step takes here and in the peer, in turn, and what crosses between stages."""
    stages, count, width = communicator.size, flags.micro_batches, flags.width
    set_stages(name, stages)
    placement = make_schedule(name, stages, count).placement
    network = blocks_in_stages(placement, flags.blocks, width, HIDDEN * width)
    trained = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), count)
    step = nn.TrainOneStepCell(trained, nn.SGD(network.trainable_params(), 0.1)).set_train()
    rows = Tensor(np.ones((flags.rows, width), np.float32))
    step(rows, rows)
    ours, theirs = inf, inf
    used = np.full((2, flags.steps), inf)
    for number in range(flags.steps):
        communicator.barrier()
        begin, before = time.perf_counter(), time.process_time()
        step(rows, rows)
        used[0, number] = time.process_time() - before
        communicator.barrier()
        ours = min(ours, time.perf_counter() - begin)
        seconds, used[1, number] = peer.run(name, 1)
        theirs = min(theirs, seconds)
    sent = np.array(bytes_sent(step))
    communicator.all_reduce(sent)
    communicator.all_reduce(used)
    least_used = used.min(axis=1)
    borders = sum(before != after for before, after in pairwise(placement.stages))
    least = 2 * borders * flags.rows * width * 4
    if communicator.rank == 0:
        print(
            f"{name:<17} here {ours * 1e3:7.1f} ms, torch {peer.version} {theirs * 1e3:7.1f} ms, ratio "
            f"{ours / theirs:.2f}; of processors {least_used[0] * 1e3:.0f} and {least_used[1] * 1e3:.0f} ms, ratio "
            f"{least_used[0] / least_used[1]:.2f}; {int(sent)} bytes between stages, the least {least}",
            flush=True,
        )


def remembered(name: str, flags: argparse.Namespace, communicator: Communicator) -> None:
    """Print what each rank has taken at most in a step, beside the activations that the checker says."""
    set_stages(name, communicator.size)
    schedule = make_schedule(name, communicator.size, flags.micro_batches)
    blocks, encoder = (
        function(schedule.placement, flags.micro_batches, communicator)
        for function in (held_by_blocks, held_by_encoder)
    )
    if communicator.rank == 0:
        print(
            f"{name:<17} activations of micro-batches by the checker {_listed(check(schedule).peaks)}; taken by blocks "
            f"{_listed(blocks)} times as much; by an encoder {_listed(encoder)} MiB",
            flush=True,
        )


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in numbers)


def main() -> None:
    """Measure each schedule."""
    flags = parse()
    init()
    communicator = world.current()
    names = flags.schedules.split(",")
    if flags.peer:
        port = np.array(free_port())
        communicator.broadcast(port, 0)
        told = {"rank": communicator.rank, "size": communicator.size, "port": int(port), "schedules": names}
        sizes = {"blocks": flags.blocks, "width": flags.width, "hidden": HIDDEN * flags.width, "rows": flags.rows}
        peer = TorchPeer(flags.peer_python, {**told, **sizes, "micro_batches": flags.micro_batches}, WORKER)
        for name in names:
            compared(name, flags, peer, communicator)
        peer.close()
        return
    if flags.memory:
        for name in names:
            remembered(name, flags, communicator)
        return
    panels: list[Panel] = []
    for name in names:
        panels += measured(name, flags, communicator)
    if communicator.rank == 0:
        for panel in panels[-2:]:
            print(drawn_text(panel))
        if flags.svg:
            Path(flags.svg).write_text(picture(panels), encoding="utf-8")


if __name__ == "__main__":
    main()
