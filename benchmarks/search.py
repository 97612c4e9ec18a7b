"""How long the searches for strategies take (CPU seconds), and what they find: ``python benchmarks/search.py``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from mpiparallel import Tensor, nn
from mpiparallel.compile.place import held_layouts
from mpiparallel.compile.strategies import Strategies
from mpiparallel.models.resnet import ResNet
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.search.cost.memory import rank_memory
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.cluster_file import load_machine
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.problem.task import Task
from mpiparallel.search.search import MODES, search

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conformance.hand_plans import cut_by_hand, degrees
from tests.conformance.searched_networks import Transformer, task_of


def resnet_task(ranks: int, machine: Machine) -> Task:
    """Return the training step of ResNet-50 on 32 images of 224 x 224 a rank."""
    network = nn.WithLossCell(ResNet((3, 4, 6, 3), 10, expansion=4), nn.SoftmaxCrossEntropyWithLogits(sparse=True))
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.01, 0.9)).set_train()
    images = Tensor(np.broadcast_to(np.float32(0), (32 * ranks, 3, 224, 224)))
    labels = Tensor(np.broadcast_to(np.int32(0), (32 * ranks,)))
    graph = step.sharded_graph(images, labels, configuration=ParallelConfiguration(device_num=1)).graph
    configuration = ParallelConfiguration(ParallelMode.AUTO_PARALLEL, device_num=ranks)
    return Task(graph, configuration, Strategies.of(graph), held_layouts(graph, configuration), Prices(machine))


_BATCH, _HEADS = 64, 16


def transformer(layers: int) -> Transformer:
    """Return layers of a Transformer of width 1024."""
    return Transformer(layers, batch=_BATCH, length=128, width=1024, heads=_HEADS, inner=4096)


def by_hand(layers: int, ranks: int, machine: Machine) -> tuple[float, str]:
    """Return the seconds of the best of data parallel, Megatron's cuts and both together, and which it is."""
    plans = []
    for data, model in degrees(ranks, _BATCH, _HEADS):
        task = task_of(cut_by_hand(transformer(layers), data, model), ranks, machine)
        plans.append((task.cost({}).seconds, f"{data} x {model}"))
    return min(plans)


@dataclass(frozen=True)
class Peer:
    """What another search took for a network of its own, in seconds, and who says so."""

    network: str
    ranks: int
    search: str
    seconds: str
    source: str

    def __str__(self) -> str:
        return f"{self.network:<24}{self.ranks or '':>6}  {self.search:<24}{self.seconds:>8}  {self.source}"


_REPRODUCED, _AUTOPARALLEL = "reproduced in SciPy 1.17, 2 cores", "autoparallel, pull request"
PEERS = (
    Peer("Transformer, 8 layers", 8, "integer program, 2 axes", "7.0", _REPRODUCED),
    Peer("Transformer, 4 layers", 8, "integer program, 3 axes", "81", _REPRODUCED),
    Peer("LLaMA-3 8B", 64, "autoparallel, 2 axes", "15 + 36", f"{_AUTOPARALLEL} 438: tables + integer program"),
    Peer("DeepSeek-V3", 0, "autoparallel, integers", "17.7", f"{_AUTOPARALLEL}s 484 and 521"),
    Peer("DeepSeek-V3", 0, "autoparallel, messages", "8.8", f"{_AUTOPARALLEL}s 484 and 521: TRW-S and Lagrange"),
    Peer("any", 0, "Alpa", "<= 600", "its source: stops there"),
    Peer("any", 0, "XLA auto_sharding", "<= 3600", "its source: propagates from there on"),
    Peer("any", 192, "Unity", "< 1200", "its paper: on up to 192 GPUs"),
)
"""Seconds as they are given, of other machines, networks and costs: an order of size beside ours, no race."""


def cases(layers: list[int], ranks: list[int], machine: Machine, resnet: bool) -> Iterator[tuple[str, int, Any]]:
    """Yield the name, the ranks and the maker of each task."""
    for count in ranks:
        for deep in layers:
            yield f"Transformer, {deep} layers", count, lambda n=deep, c=count: task_of(transformer(n), c, machine)
        if resnet:
            yield "ResNet-50", count, lambda c=count: resnet_task(c, machine)


def main() -> None:
    """Print one line for each search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, nargs="*", default=[2, 24])
    parser.add_argument("--ranks", type=int, nargs="+", default=[8])
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--cluster", type=Path, help="a cluster file; else the assumed machine")
    parser.add_argument("--timeout", type=float, default=inf, metavar="S")
    parser.add_argument("--resnet", action="store_true", help="ResNet-50 too")
    parser.add_argument("--by-hand", action="store_true", help="the best plan made by hand for each Transformer, too")
    parser.add_argument("--peers", action="store_true", help="what others' searches took, as they say, too")
    arguments = parser.parse_args()
    machine = load_machine(arguments.cluster) if arguments.cluster else Machine()
    head = f"{'network':<24}{'ranks':>6}  {'search':<24}{'CPU s':>8}"
    print(f"{head}{'step ms':>10}{'batch ms':>10}{'gap':>8}{'MB a rank':>11}")
    for name, ranks, make in cases(arguments.layers, arguments.ranks, machine, arguments.resnet):
        for mode in arguments.modes:
            task = make()
            started = time.process_time()
            found = search(task, mode, arguments.timeout)
            spent = time.process_time() - started
            batch, mark = task.cost({}).seconds, " stopped" if found.stopped_early else ""
            row = f"{name:<24}{ranks:>6}  {mode:<24}{spent:>8.2f}{found.seconds * 1e3:>10.4g}{batch * 1e3:>10.4g}"
            memory = rank_memory(task.placed(found.strategies)).total / 1e6
            print(f"{row}{found.gap:>8.1%}{memory:>11.4g}{mark}", flush=True)
    for ranks in arguments.ranks if arguments.by_hand else ():
        for deep in arguments.layers:
            seconds, cuts = by_hand(deep, ranks, machine)
            told = f"by hand, data x model {cuts}"
            print(f"{f'Transformer, {deep} layers':<24}{ranks:>6}  {told:<32}{seconds * 1e3:>10.4g}")
    if arguments.peers:
        print("Others, in seconds as they are given, of other machines, networks and costs; not measured here:")
        print(*PEERS, sep="\n")


if __name__ == "__main__":
    main()
