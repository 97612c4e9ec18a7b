"""What a full search finds beside the plans that people make by hand, for networks of several kinds, by one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from mpiparallel import nn
from mpiparallel.models.resnet import ResNet
from mpiparallel.parallel.configuration import EVERYTHING, ParallelConfiguration, ParallelMode
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.problem.clock import Clock
from mpiparallel.train.full_search.candidates import Openness, candidates
from mpiparallel.train.full_search.plan_search import Best, best_of
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.full_search.trials import BATCH, PricedPlan, Trials
from tests.conformance.hand_plans import cut_by_hand, degrees
from tests.conformance.mixed_networks import Mixer, Recommender
from tests.conformance.searched_networks import Transformer

HOSTS = Machine(ranks_per_host=8)


@dataclass(frozen=True)
class Compared:
    """A network, how it is cut by hand into parts of the batch and of the model, and its batch: shapes and dtypes.

    ``batch`` and ``most`` say into how many parts of each it can be cut.
    """

    make: Callable[[], Any]
    cut: Callable[[Any, int, int], Any]
    inputs: tuple[tuple[tuple[int, ...], Any], ...]
    batch: int
    most: int


def transformer(layers: int, batch: int = 64, length: int = 128, width: int = 1024, heads: int = 16) -> Compared:
    """Return layers of a Transformer."""
    return Compared(
        lambda: Transformer(layers, batch, length, width, heads, 4 * width),
        cut_by_hand,
        (((batch * length, width), np.float32),),
        batch,
        heads,
    )


def mixer(layers: int, batch: int = 256, patches: int = 196, channels: int = 512) -> Compared:
    """Return layers of an MLP-Mixer."""
    return Compared(
        lambda: Mixer(layers, patches, channels, channels // 2, 4 * channels),
        lambda network, data, model: network.cut(data, model),
        (((batch, patches, channels), np.float32),),
        batch,
        channels // 2,
    )


def recommender(rows: int = 4_000_000, batch: int = 4096, width: int = 64, fields: int = 16) -> Compared:
    """Return a table of many rows under four perceptrons."""
    return Compared(
        lambda: Recommender(rows, width, fields, 4 * width * fields, 4),
        lambda network, data, model: network.cut(data, model),
        (((batch, fields), np.int32),),
        batch,
        64,
    )


def resnet(blocks: tuple[int, ...] = (3, 4, 6, 3), batch: int = 1024, size: int = 224) -> Compared:
    """Return ResNet-50, or one of fewer blocks, with its loss; by hand its last product alone is cut."""

    def make() -> Any:
        widths = (64, 128, 256, 512)[: len(blocks)]
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        return nn.WithLossCell(ResNet(blocks, 1000, expansion=4, widths=widths), loss)

    def cut(network: Any, data: int, model: int) -> None:
        network.backbone_network.dense.matmul.shard(((data, 1), (model, 1)))

    inputs = (((batch, 3, size, size), np.float32), ((batch,), np.int32))
    return Compared(make, cut, inputs, batch, 8)


def by_hand(case: Compared, ranks: int, machine: Machine = HOSTS) -> Iterator[tuple[str, PricedPlan]]:
    """Yield the plans that people make: data parallel, ZeRO, Megatron's cuts, both kinds of cuts, these with shards."""
    plans: list[tuple[str, int, int]] = [("data parallel", 0, 0)]
    for data, model in degrees(ranks, case.batch, case.most):
        if model > 1:
            plans.append((f"{data} x {model}" if data > 1 else "Megatron's cuts", data, model))
    for name, data, model in plans:
        trials, _ = trials_of(case, ranks, [Plan(ranks)], machine, (data, model))
        for shards in (False, True):
            found = trials.tried(Plan(ranks, shards=shards), BATCH)
            if found is not None:
                yield (f"{name}, shards" if data else "ZeRO") if shards else name, found


def searched(case: Compared, ranks: int, limit: float = inf, machine: Machine = HOSTS) -> Best:
    """Return what a full search finds within so many bytes of a rank."""
    trials, plans = trials_of(case, ranks, None, machine)
    return best_of(trials, plans, limit, Clock())


def trials_of(
    case: Compared,
    ranks: int,
    plans: Sequence[Plan] | None = None,
    machine: Machine = HOSTS,
    cut: tuple[int, int] = (0, 0),
) -> tuple[Trials, Sequence[Plan]]:
    """Return what tries plans for a network, and these; all there are where none are given. It may be cut by hand."""
    network = case.make()
    if any(cut):
        case.cut(network, *cut)
    configuration = ParallelConfiguration(
        ParallelMode.AUTO_PARALLEL, device_num=ranks, search_mode=EVERYTHING, optimizer_threshold=0
    )
    cell = nn.PipelineCell(network, "auto", stages="auto")
    training = nn.TrainOneStepCell(cell, nn.Adam(network.trainable_params(), 0.1)).set_train()
    batch = [np.broadcast_to(np.zeros((), dtype), shape) for shape, dtype in case.inputs]
    if plans is None:
        plans = candidates(configuration, Openness.of(cell, case.inputs[0][0][0]))
    return Trials(training, cell, batch, configuration, Prices(machine), Clock(), plans), plans
