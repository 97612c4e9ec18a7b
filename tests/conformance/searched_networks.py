"""Small networks to search strategies for: drawn from a seed, and Transformers; as training steps on whole tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import Parameter, Tensor, initializer, nn, ops
from mpiparallel.compile.place import held_layouts
from mpiparallel.compile.strategies import Strategies
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.problem.task import Task

WIDTHS = (6, 16, 64, 512)
ROWS = (4, 24, 256)
MACHINE = Machine(ranks_per_host=4)


def weight(*shape: int) -> Parameter:
    """Return a parameter that takes up no memory before it is placed, whatever its shape."""
    return Parameter(initializer("ones", list(shape)))


class Drawn(nn.Cell):
    """A chain of operators with residual sums, drawn from a seed."""

    def __init__(self, seed: int, count: int) -> None:
        super().__init__()
        draw = np.random.default_rng(seed)
        self.rows, self.width = int(draw.choice(ROWS)), int(draw.choice(WIDTHS))
        kinds = draw.choice(["product", "bias", "relu", "softmax", "sum", "turn"], count - 1)
        self.steps, self.operators, width, rows = [], nn.CellList(), self.width, self.rows
        seen = [(rows, width)]
        for place, kind in enumerate(["product", *kinds]):
            if kind == "product":
                wide = int(draw.choice(WIDTHS))
                setattr(self, f"w{place}", weight(width, wide))
                step, width = ops.MatMul(), wide
            elif kind == "bias":
                setattr(self, f"w{place}", weight(width))
                step = ops.Add()
            elif kind == "turn":
                step, rows, width = ops.Transpose(), width, rows
            else:
                step = {"relu": ops.ReLU(), "softmax": ops.Softmax(), "sum": ops.Add()}[kind]
            alike = [index for index, shape in enumerate(seen) if shape == (rows, width)]
            before = int(draw.choice(alike)) if kind == "sum" else -1
            setattr(self, f"operator{place}", step)
            self.steps.append((str(kind), step, place, before))
            seen.append((rows, width))

    def construct(self, x: Any) -> Any:
        values = [x]
        for kind, step, place, before in self.steps:
            last = values[-1]
            if kind in ("product", "bias"):
                values.append(step(last, getattr(self, f"w{place}")))
            elif kind == "turn":
                values.append(step(last, (1, 0)))
            else:
                values.append(step(last, values[before]) if kind == "sum" else step(last))
        return values[-1].sum()


class Moved(Drawn):
    """A network whose program says where an output goes at once, and whose next operator wants it elsewhere."""

    def __init__(self) -> None:
        super().__init__(4, 3)
        self.first, self.table = ops.MatMul().shard(((2, 4), (4, 1)), ((8, 1),)), weight(self.width, self.width)
        self.relu = ops.ReLU().shard(((1, 2),))

    def construct(self, x: Any) -> Any:
        return super().construct(self.relu(self.first(x, self.table)))


class Block(nn.Cell):
    """A layer of a Transformer encoder."""

    def __init__(self, length: int, width: int, heads: int, inner: int) -> None:
        super().__init__()
        # As many sequences as there are, for a pipeline takes them piece by piece.
        self.shape, self.width = (-1, length, heads, width // heads), width
        self.query_weight, self.key_weight, self.value_weight = (weight(width, width) for _ in range(3))
        self.output_weight, self.wide_weight, self.narrow_weight = (
            weight(width, width),
            weight(width, inner),
            weight(inner, width),
        )
        self.wide_bias, self.narrow_bias = weight(inner), weight(width)
        self.query, self.key, self.value, self.output = (ops.MatMul() for _ in range(4))
        self.wide, self.narrow, self.add_wide, self.add_narrow = ops.MatMul(), ops.MatMul(), ops.Add(), ops.Add()
        self.scores, self.context = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()
        self.softmax, self.gelu, self.add_first, self.add_second = ops.Softmax(), ops.GeLU(), ops.Add(), ops.Add()
        self.turns = [ops.Transpose() for _ in range(4)]
        self.first_norm, self.second_norm = nn.LayerNorm((width,)), nn.LayerNorm((width,))

    def construct(self, x: Any) -> Any:
        normal = self.first_norm(x)
        query, key, value = (
            turn(product(normal, matrix).reshape(self.shape), (0, 2, 1, 3))
            for turn, product, matrix in zip(
                self.turns,
                (self.query, self.key, self.value),
                (self.query_weight, self.key_weight, self.value_weight),
                strict=False,
            )
        )
        mixed = self.context(self.softmax(self.scores(query, key)), value)
        joined = self.turns[3](mixed, (0, 2, 1, 3)).reshape((-1, self.width))
        x = self.add_first(x, self.output(joined, self.output_weight))
        inner = self.gelu(self.add_wide(self.wide(self.second_norm(x), self.wide_weight), self.wide_bias))
        return self.add_second(x, self.add_narrow(self.narrow(inner, self.narrow_weight), self.narrow_bias))


class Transformer(nn.Cell):
    """Layers of a Transformer encoder, and the mean of the last one's output."""

    def __init__(
        self, layers: int, batch: int = 8, length: int = 16, width: int = 64, heads: int = 8, inner: int = 256
    ) -> None:
        super().__init__()
        self.rows, self.width = batch * length, width
        self.layers = nn.CellList([Block(length, width, heads, inner) for _ in range(layers)])
        self.mean = ops.ReduceMean()

    def construct(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.mean(x)


def task_of(network: Any, ranks: int, machine: Machine = MACHINE, trains: bool = True, **settings: Any) -> Task:
    """Return the task of a network of ``rows`` and ``width``: its training step by Adam, or itself."""
    configuration = ParallelConfiguration(ParallelMode.AUTO_PARALLEL, device_num=ranks, **settings)
    x = Tensor(np.broadcast_to(np.float32(1), (network.rows, network.width)))
    cell = network
    if trains and network.trainable_params():
        cell = nn.TrainOneStepCell(network, nn.Adam(network.trainable_params(), 0.1)).set_train()
    graph = cell.sharded_graph(x, configuration=ParallelConfiguration(device_num=1)).graph
    return Task(graph, configuration, Strategies.of(graph), held_layouts(graph, configuration), Prices(machine))
