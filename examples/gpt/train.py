"""Train a small GPT, made of primitives, on the letters of a text of your own; attention is cut by heads.

mpiparallel run -n 4 train.py --file_path text.txt
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication import get_group_size, get_rank, init
from mpiparallel.dataset import NumpySlicesDataset

LENGTH, WIDTH, HEADS, LAYERS, BATCH = 32, 64, 4, 2, 16
SIZE = WIDTH // HEADS


def weight(*shape):
    return ms.Parameter(ms.initializer("XavierUniform", list(shape)))


class Attention(nn.Cell):
    """Each place looks at those before it; the heads are cut in ``heads`` parts, the sequences in ``batch``."""

    def __init__(self, batch, heads):
        super().__init__()
        self.query, self.key, self.value, self.output = (weight(WIDTH, WIDTH) for _ in range(4))
        cut = (batch, heads, 1, 1)  # (sequence, head, place, element)
        self.project = ops.MatMul().shard(((batch, 1), (1, heads)))  # columns: each part has whole heads
        self.scores = ops.BatchMatMul(transpose_b=True).shard((cut, cut))
        self.add = ops.Add().shard((cut, (1, 1)))
        self.softmax = ops.Softmax().shard((cut,))
        self.mix = ops.BatchMatMul().shard((cut, cut))
        self.join = ops.MatMul().shard(((batch, heads), (heads, 1)))  # rows: the one AllReduce of attention
        self.mask = ms.Tensor(np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))

    def heads_of(self, x, projection):
        projected = ops.reshape(self.project(x, projection), (-1, LENGTH, HEADS, SIZE))
        return ops.transpose(projected, (0, 2, 1, 3))

    def construct(self, x):
        query, key, value = (self.heads_of(x, one) for one in (self.query, self.key, self.value))
        weights = self.softmax(self.add(self.scores(query, key) * SIZE**-0.5, self.mask))
        mixed = ops.transpose(self.mix(weights, value), (0, 2, 1, 3))
        return self.join(ops.reshape(mixed, (-1, WIDTH)), self.output)


class Block(nn.Cell):
    """Attention, then two products, each added to what came in."""

    def __init__(self, batch, parts):
        super().__init__()
        self.before_attention, self.before_products = nn.LayerNorm((WIDTH,)), nn.LayerNorm((WIDTH,))
        self.attention = Attention(batch, parts)
        self.widen, self.narrow = weight(WIDTH, 4 * WIDTH), weight(4 * WIDTH, WIDTH)
        self.first = ops.MatMul().shard(((batch, 1), (1, parts)))
        self.gelu = ops.GeLU().shard(((batch, parts),))
        self.second = ops.MatMul().shard(((batch, parts), (parts, 1)))

    def construct(self, x):
        x = x + self.attention(self.before_attention(x))
        return x + self.second(self.gelu(self.first(self.before_products(x), self.widen)), self.narrow)


class GPT(nn.Cell):
    """The letters of sequences (sequence, place) to scores of the letters that may follow each."""

    def __init__(self, letters, batch, parts):
        super().__init__()
        self.letters = ms.Parameter(ms.initializer("Normal", [letters, WIDTH]))
        self.places = ms.Parameter(ms.initializer("Normal", [LENGTH, WIDTH]))
        self.gather = ops.Gather().shard(((1, 1), (batch, 1)))
        self.blocks = nn.CellList([Block(batch, parts) for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm((WIDTH,)), weight(WIDTH, letters)
        self.logits = ops.MatMul().shard(((batch, 1), (1, parts)))

    def construct(self, ids):
        x = ops.reshape(self.gather(self.letters, ids, 0) + self.places, (-1, WIDTH))
        for block in self.blocks:
            x = block(x)
        return self.logits(self.norm(x), self.head)


class NextLetter(nn.Cell):
    """The mean loss over all places."""

    def __init__(self):
        super().__init__()
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, logits, following):
        return self.loss(logits, ops.reshape(following, (-1,)))


class Losses(ms.Callback):
    """Keep the loss of each step."""

    def __init__(self):
        self.losses = []

    def step_end(self, run_context):
        self.losses.append(float(run_context.original_args().net_outputs.asnumpy()))


def sequences(text, letters):
    """Return a dataset of sequences of letters, each with the one that is a letter further."""
    ids = np.array([letters.index(letter) for letter in text], np.int32)
    count = (len(ids) - 1) // LENGTH
    x, y = (ids[shift : shift + count * LENGTH].reshape(count, LENGTH) for shift in (0, 1))
    return NumpySlicesDataset((x, y), ["x", "y"], shuffle=True).batch(BATCH, drop_remainder=True)


def written(model, start, letters, count):
    """Return ``count`` letters that follow ``start``, each the likeliest after the last LENGTH ones."""
    text = start[-LENGTH:].rjust(LENGTH)
    for _ in range(count):
        ids = np.array([[letters.index(letter) for letter in text[-LENGTH:]]] * BATCH, np.int32)
        logits = model.predict(ms.Tensor(ids)).asnumpy()  # a whole batch, as the strategies want
        text += letters[int(logits[LENGTH - 1].argmax())]
    return text[LENGTH:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file_path", type=Path, default=Path(__file__), help="the text; default: this program")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--mp", type=int, help="parts of the heads and weights; default: 2, or 1 on one rank")
    arguments = parser.parse_args()
    init()
    ms.set_seed(1)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    ranks = get_group_size()
    parts = arguments.mp or min(2, ranks)
    text = arguments.file_path.read_text(encoding="utf-8")
    letters = sorted({*text, " "})
    data, losses = sequences(text, letters), Losses()
    network = GPT(len(letters), ranks // parts, parts)
    model = ms.Model(network, NextLetter(), nn.Adam(network.trainable_params(), 0.005))
    model.train(arguments.epochs, data, [losses], dataset_sink_mode=False)
    print("letters:", len(text), "loss from", losses.losses[0], "to", losses.losses[-1])
    print("it writes:", repr(written(model, text[:LENGTH], letters, 20)))
    if get_rank() == 0:
        lines = {f"{ranks} ranks": [list(range(1, len(losses.losses) + 1)), losses.losses]}
        Path(f"{ranks}_ranks.result.json").write_text(json.dumps({"x": "step", "y": "loss", "lines": lines}))


if __name__ == "__main__":
    main()
