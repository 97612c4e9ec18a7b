"""Networks of as many layers as a schedule has parts, and how they are trained: for tests of pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mpiparallel import Model, context, nn, ops
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.models.resnet import ResNet
from mpiparallel.nn.transformer import OpParallelConfig, TransformerEncoderLayer
from mpiparallel.pipeline import SCHEDULES
from tests.unit.train.staged_networks import STEPS, Case, Head, Losses, held_boxes, weight
from tests.unit.train.staged_networks import trained as blocks_trained

FEATURES = (
    "data parallel",
    "model parallel",
    "optimizer parallel",
    "recompute",
    "tied embeddings",
    "accumulation",
)
NETWORKS = ("blocks", "Transformer", "ResNet-18")
SHARDS = {"enable_parallel_optimizer": True, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
WIDTH, WORDS, LENGTH, CLASSES = 8, 12, 3, 4
IMAGE = (3, 32, 32)
_CUT = FEATURES[:3]
_RESNET_LAYERS = 10


@dataclass(frozen=True)
class Scheduled:
    """A network of ``NETWORKS`` in so many stages, by a schedule, with one of ``FEATURES``; of 0 stages, one device.

    Each stage has a rank, or two where what it computes is cut. Layers are shared out evenly over the parts of the
    schedule, or the first has all that the others, which have one each, leave.
    """

    network: str
    schedule: str
    stages: int
    feature: str
    is_even: bool
    alone: bool = False

    @property
    def ranks(self) -> int:
        """How many ranks train it."""
        return 1 if self.alone else self.stages * (2 if self.feature in _CUT else 1)

    @property
    def micro_batches(self) -> int:
        """As many as every schedule takes."""
        return 2 * self.stages

    @property
    def rows(self) -> int:
        """Rows of a batch: a micro-batch has some for each of two ranks, batch norm has some to be of."""
        return self.micro_batches * (8 if self.network == "ResNet-18" else 2)

    @property
    def places(self) -> list[int]:
        """The stage of each layer."""
        family = SCHEDULES[self.schedule]
        parts = family.place(self.stages, family.chunks or 2).stages
        count = len(parts)
        layers = max(count, 4) if self.is_even else max(count, 4) + 1
        layers += -layers % count if self.is_even else 0
        if self.network == "ResNet-18":
            layers = _RESNET_LAYERS
        sizes = [layers // count + (part < layers % count) for part in range(count)]
        if not self.is_even:
            sizes = [layers - count + 1, *[1] * (count - 1)]
        return [stage for stage, size in zip(parts, sizes, strict=True) for _ in range(size)]

    def on_one_device(self) -> Scheduled:
        """Return the same training on one rank."""
        return replace(self, alone=True)

    def __str__(self) -> str:
        evenly = "even" if self.is_even else "uneven"
        return f"{self.network}, {self.schedule}, {self.stages} {evenly} stages, {self.feature}"


class Language(nn.Cell):
    """An embedding, layers of a Transformer's encoder, a head, and the loss."""

    def __init__(self, case: Scheduled) -> None:
        super().__init__()
        table = weight(90, WORDS, WIDTH)
        self.embedding = Words(table)
        cuts = OpParallelConfig(1, 1 if case.alone or case.feature != "model parallel" else 2)
        count = len(case.places) - 2
        self.layers = nn.CellList([_encoder_layer(cuts) for _ in range(count)])
        self.head = Head(table if case.feature == "tied embeddings" else weight(91, WORDS, WIDTH))
        self.loss = nn.MSELoss()

    def construct(self, words, mask, labels):
        x = self.embedding(words)
        for layer in self.layers:
            x, _ = layer(x, mask)
        return self.loss(self.head(x.reshape(-1, WIDTH)), labels.reshape(-1, WORDS))

    def parts(self) -> list[list[nn.Cell]]:
        return [[self.embedding], *([layer] for layer in self.layers), [self.head]]


class Words(nn.Cell):
    """A vector for each word."""

    def __init__(self, table) -> None:
        super().__init__()
        self.table, self.gather = table, ops.Gather()

    def construct(self, words):
        return self.gather(self.table, words, 0)


class Images(nn.Cell):
    """ResNet-18 with few channels, and the loss."""

    def __init__(self, case: Scheduled) -> None:
        super().__init__()
        self.network = ResNet((2, 2, 2, 2), CLASSES, widths=(4, 6, 8, 8), dtype=np.float64)
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        if case.feature == "model parallel" and not case.alone:
            for _, cell in self.network.cells_and_names():
                if isinstance(cell, nn.Conv2d):
                    cell.conv2d.shard(((1, 1, 1, 1), (2, 1, 1, 1)))

    def construct(self, images, labels):
        return self.loss(self.network(images), labels)

    def parts(self) -> list[list[nn.Cell]]:
        network = self.network
        return [[network.stem, network.pool], *([block] for block in network.stages), [network.dense]]


def _encoder_layer(cuts: OpParallelConfig) -> nn.Cell:
    wide = np.float64
    return TransformerEncoderLayer(
        None, WIDTH, 2 * WIDTH, 2, LENGTH, 0.25, 0.25, False, wide, wide, wide, parallel_config=cuts
    )


def trained(communicator, case: Scheduled):
    """Return the losses of 5 updates, and this rank's boxes of the parameters that it holds, by name."""
    accumulation = 2 if case.feature == "accumulation" else 1
    shards = SHARDS if case.feature == "optimizer parallel" and not case.alone else {}
    schedule = {"pipeline_scheduler": case.schedule}
    if case.network == "blocks":
        return blocks_trained(communicator, _blocks_case(case, accumulation, shards, schedule))
    if not case.alone:
        stages = {"full_batch": True, "pipeline_stages": case.stages, "pipeline_config": schedule}
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", **stages, **shards)
    context.set_seed(7)
    network: Any = Language(case) if case.network == "Transformer" else Images(case)
    for cells, stage in zip(network.parts(), case.places, strict=True):
        for cell in cells:
            cell.pipeline_stage = stage
        if case.feature == "recompute" and not case.alone:
            cells[0].recompute()
    # Of few values that are alike, batch norm makes roundings a million times larger.
    optimizer = nn.Momentum(network.trainable_params(), 0.01, 0.9)
    model = Model(nn.PipelineCell(network, case.micro_batches), None, optimizer, accumulation_steps=accumulation)
    losses = Losses()
    names, columns = _columns(case, case.rows * STEPS * accumulation)
    data = NumpySlicesDataset(columns, names, shuffle=False).batch(case.rows)
    model.train(1, data, callbacks=[losses], dataset_sink_mode=False)
    return losses.found, held_boxes(model, network)


def _blocks_case(case: Scheduled, accumulation: int, shards: Any, schedule: Any) -> Case:
    """Return the case of blocks: on one device batches are taken as a whole."""
    found = Case(
        stages=tuple(case.places),
        micro_size=case.micro_batches,
        schedule=schedule,
        cut=2 if case.feature == "model parallel" else 1,
        dropout=0.25,
        tied=case.feature == "tied embeddings",
        recompute=case.feature == "recompute",
        accumulation=accumulation,
        settings=shards,
        batch=case.rows,
    )
    if not case.alone:
        return found
    stages = (0,) * len(found.stages)
    return replace(found, stages=stages, micro_size=0, schedule={}, cut=1, recompute=False, settings={})


def _columns(case: Scheduled, count: int) -> tuple[list[str], Sequence[np.ndarray[Any, Any]]]:
    draw = np.random.default_rng(1)
    if case.network == "Transformer":
        words = draw.integers(0, WORDS, (count, LENGTH)).astype(np.int32)
        mask = np.tril(np.ones((LENGTH, LENGTH)))[None].repeat(count, 0)
        return ["words", "mask", "labels"], (words, mask, draw.normal(size=(count, LENGTH, WORDS)))
    images, labels = draw.normal(size=(count, *IMAGE)), draw.integers(0, CLASSES, count)
    return ["images", "labels"], (images, labels.astype(np.int32))
