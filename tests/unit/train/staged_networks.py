"""Networks in stages, in float64, and how they are trained: for tests of pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpiparallel import Model, context, nn, ops
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.graph.parameter import Parameter
from mpiparallel.train.callback.callback import Callback

WIDTH, WORDS, ROWS, STEPS = 8, 12, 8, 5


def weight(seed: int, *shape: int) -> Parameter:
    return Parameter(np.random.default_rng(seed).normal(size=shape) / 3, f"w{seed}")


class Embedding(nn.Cell):
    def __init__(self, table: Parameter) -> None:
        super().__init__()
        self.table = table
        self.gather = ops.Gather()

    def construct(self, words):
        return self.gather(self.table, words, 0).mean(1)


class Block(nn.Cell):
    def __init__(self, seed: int, cut: int, dropout: float, normed: bool) -> None:
        super().__init__()
        self.first, self.second = weight(seed, WIDTH, 16), weight(seed + 1, 16, WIDTH)
        self.into, self.out = ops.MatMul(), ops.MatMul()
        if cut > 1:
            self.into.shard(((1, 1), (1, cut)))
            self.out.shard(((1, cut), (cut, 1)))
        self.dropout = nn.Dropout(p=dropout)
        self.norm = nn.BatchNorm1d(WIDTH, dtype=np.float64) if normed else None

    def construct(self, x):
        y = self.out(self.dropout(ops.tanh(self.into(x, self.first))), self.second)
        return x + (y if self.norm is None else self.norm(y))


class Head(nn.Cell):
    def __init__(self, table: Parameter) -> None:
        super().__init__()
        self.table = table
        self.matmul = ops.MatMul(transpose_b=True)

    def construct(self, x):
        return self.matmul(x, self.table)


class Network(nn.Cell):
    """An embedding, blocks, of which the last also takes what the first gives, and a head.

    ``stages`` has the stage of each of these. With ``tied`` the head's weights are those of the embedding.
    """

    def __init__(self, case: Case) -> None:
        super().__init__()
        table = weight(90, WORDS, WIDTH)
        self.embedding = Embedding(table)
        self.blocks = nn.CellList(
            [Block(10 * place, case.cut, case.dropout, case.normed) for place in range(len(case.stages) - 2)]
        )
        self.head = Head(table if case.tied else weight(91, WORDS, WIDTH))
        for cell, stage in zip((self.embedding, *self.blocks, self.head), case.stages, strict=True):
            cell.pipeline_stage = stage
        if case.recompute:
            for block in self.blocks:
                block.recompute()

    def construct(self, words):
        x = self.embedding(words)
        first = x = self.blocks[0](x)
        for block in self.blocks[1:-1]:
            x = block(x)
        return self.head(self.blocks[-1](x + first))


@dataclass(frozen=True)
class Case:
    """How a network is cut and trained.

    ``given`` are the stages as PipelineCell takes them, where cells have no number; ``cut`` is into how many parts the
    blocks cut their weights; ``batch`` is how many rows a batch has.
    """

    stages: tuple[int | None, ...] = (0, 0, 0, 1, 1, 1)
    given: Any = None
    micro_size: int = 4
    schedule: Mapping[str, Any] = field(default_factory=dict)
    cut: int = 1
    dropout: float = 0.0
    normed: bool = False
    tied: bool = False
    recompute: bool = False
    loss_inside: bool = True
    accumulation: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    clip: float = 0.0
    batch: int = ROWS


class Losses(Callback):
    def __init__(self) -> None:
        self.found: list[float] = []

    def on_train_step_end(self, run_context) -> None:
        self.found.append(float(run_context.original_args().net_outputs.asnumpy()))


class Clipped(nn.TrainOneStepCell):
    def __init__(self, network, optimizer, norm: float, accumulation_steps: int) -> None:
        super().__init__(network, optimizer, accumulation_steps=accumulation_steps)
        self.norm = norm

    def prepared(self, gradients):
        return tuple(ops.clip_by_global_norm(gradients, self.norm))


def columns(count: int = ROWS * STEPS) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    draw = np.random.default_rng(1)
    words, labels = draw.integers(0, WORDS, (count, 3)), draw.normal(size=(count, WORDS))
    return words.astype(np.int32), labels


def rows(count: int = ROWS * STEPS, batch: int = ROWS):
    return NumpySlicesDataset(columns(count), ["words", "labels"], shuffle=False).batch(batch)


def make_model(case: Case, **options: Any) -> tuple[Model, Network]:
    """Return the model of a case, made with ``options``; of ``micro_size`` 0 it takes batches as a whole."""
    last = max(stage or 0 for stage in case.stages)
    if case.settings or last:
        settings = {"full_batch": True, "pipeline_stages": last + 1, "pipeline_config": dict(case.schedule)}
        context.set_auto_parallel_context(**{"parallel_mode": "semi_auto_parallel", **settings, **case.settings})
    context.set_seed(7)
    network = Network(case)
    optimizer = nn.Adam(network.trainable_params(), 0.02, weight_decay=0.01)
    loss: Any = nn.MSELoss()
    trained: Any = network
    if case.loss_inside or case.clip:
        trained, loss = nn.WithLossCell(network, loss), None
    if case.micro_size:
        trained = nn.PipelineCell(trained, case.micro_size, stages=case.given)
    if case.clip:
        return Model(Clipped(trained, optimizer, case.clip, case.accumulation)), network
    return Model(trained, loss, optimizer, accumulation_steps=case.accumulation, **options), network


def trained(communicator, case: Case):
    """Return the losses of a training, and this rank's boxes of the parameters that it holds, by name."""
    model, network = make_model(case)
    losses = Losses()
    data = rows(case.batch * STEPS * case.accumulation, case.batch)
    model.train(1, data, callbacks=[losses], dataset_sink_mode=False)
    return losses.found, held_boxes(model, network)


def held_boxes(model: Model, network: nn.Cell) -> dict[str, Any]:
    """Return what this rank holds of each parameter and optimizer state, by name."""
    held = (*network.get_parameters(), *model.train_network.optimizer.get_parameters())
    return {one.name: (one.box, one.asnumpy().copy()) for one in held if one.layout and not one.is_elsewhere}


def same_as(wanted: Mapping[str, Any], held: Sequence[Mapping[str, Any]]) -> None:
    """Hold the parts of all ranks to the values of one device, and copies to each other, to the bit."""
    seen: dict[str, list[tuple[tuple[int, ...], bytes]]] = {}
    for of_rank in held:
        for name, (box, values) in of_rank.items():
            whole = wanted[name][1]
            part = whole[box.within(type(box).whole(whole.shape))]
            np.testing.assert_allclose(values, part, rtol=0, atol=1e-9, err_msg=name)
            seen.setdefault(name, []).append((box.start, values.tobytes()))
    assert seen.keys() == wanted.keys()
    for copies in seen.values():
        # On whatever ranks and stages a part is held, it is the same to the bit.
        assert len(set(copies)) == len({start for start, _ in copies})
