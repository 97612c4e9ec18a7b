"""Networks that are wide elsewhere than a Transformer: an MLP-Mixer, and a table of many rows under a small MLP."""

from __future__ import annotations

from typing import Any

from mpiparallel import nn, ops
from tests.conformance.searched_networks import weight


class Perceptron(nn.Cell):
    """Two products with an activation between them, over the last dim."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.wide_weight, self.narrow_weight = weight(width, inner), weight(inner, width)
        self.wide, self.narrow, self.gelu = ops.MatMul(), ops.MatMul(), ops.GeLU()

    def construct(self, x: Any) -> Any:
        return self.narrow(self.gelu(self.wide(x, self.wide_weight)), self.narrow_weight)

    def cut(self, data: int, model: int) -> None:
        """Cut rows into ``data`` parts, and the inner columns into ``model``."""
        self.wide.shard(((data, 1), (1, model)))
        self.gelu.shard(((data, model),))
        self.narrow.shard(((data, model), (model, 1)))


class MixerLayer(nn.Cell):
    """A layer of an MLP-Mixer: a perceptron over patches, then one over channels, each with a residual sum."""

    def __init__(self, patches: int, channels: int, of_patches: int, of_channels: int) -> None:
        super().__init__()
        self.patches, self.channels = patches, channels
        self.tokens, self.mixing = Perceptron(patches, of_patches), Perceptron(channels, of_channels)
        self.first_norm, self.second_norm = nn.LayerNorm((channels,)), nn.LayerNorm((channels,))

    def construct(self, x: Any) -> Any:
        turned = ops.Transpose()(self.first_norm(x), (0, 2, 1)).reshape((-1, self.patches))
        mixed = self.tokens(turned).reshape((-1, self.channels, self.patches))
        x = x + ops.Transpose()(mixed, (0, 2, 1))
        rows = self.second_norm(x).reshape((-1, self.channels))
        return x + self.mixing(rows).reshape((-1, self.patches, self.channels))


class Mixer(nn.Cell):
    """Layers of an MLP-Mixer (Tolstikhin and others, 2021) on patches, and the mean of the last one's output."""

    def __init__(self, layers: int, patches: int, channels: int, of_patches: int, of_channels: int) -> None:
        super().__init__()
        self.layers = nn.CellList([MixerLayer(patches, channels, of_patches, of_channels) for _ in range(layers)])
        self.mean = ops.ReduceMean()

    def construct(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.mean(x)

    def cut(self, data: int, model: int) -> None:
        """Cut the batch into ``data`` parts, and the inner columns of the perceptrons into ``model``."""
        for layer in self.layers:
            layer.tokens.cut(data, model)
            layer.mixing.cut(data, model)


class Recommender(nn.Cell):
    """Rows of a large table at ids, and perceptrons on them; the mean of what comes out."""

    def __init__(self, rows: int, width: int, fields: int, inner: int, layers: int) -> None:
        super().__init__()
        self.table = weight(rows, width)
        self.gather, self.mean, self.joined = ops.Gather(), ops.ReduceMean(), width * fields
        self.layers = nn.CellList([Perceptron(width * fields, inner) for _ in range(layers)])

    def construct(self, ids: Any) -> Any:
        x = self.gather(self.table, ids.reshape((-1,)), 0).reshape((-1, self.joined))
        for layer in self.layers:
            x = layer(x)
        return self.mean(x)

    def cut(self, data: int, model: int) -> None:
        """Cut the batch into ``data`` parts, and rows of the table and inner columns into ``model``."""
        self.gather.shard(((model, 1), (data,)))
        for layer in self.layers:
            layer.cut(data, model)
