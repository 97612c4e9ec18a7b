"""The networks of this project in PyTorch's own words: the peers that gradients and times are compared with."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

GELU = partial(functional.gelu, approximate="tanh")


def _overhang(extent: int, size: int, stride: int) -> tuple[int, int]:
    """Return the padding before and after a dim that makes its output ``ceil(extent / stride)``, the odd one after."""
    total = max((-(-extent // stride) - 1) * stride + size - extent, 0)
    return total // 2, total - total // 2


def pad_same(x: Tensor, size: int, stride: int, value: float = 0.0) -> Tensor:
    """Return images padded as MindSpore's and TensorFlow's ``same`` pads them."""
    (top, bottom), (left, right) = (_overhang(extent, size, stride) for extent in x.shape[2:])
    return functional.pad(x, (left, right, top, bottom), value=value)


class Convolution(nn.Conv2d):
    """A convolution without bias, padded evenly, or as ``same`` is."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int, same: bool) -> None:
        super().__init__(inputs, outputs, size, stride, 0 if same else size // 2, bias=False)
        self.same = same

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(pad_same(x, self.kernel_size[0], self.stride[0]) if self.same else x)


class Bottleneck(nn.Module):
    """A block of three convolutions beside its input, or a projection of it (He and others, 2016)."""

    def __init__(self, inputs: int, width: int, stride: int, same: bool) -> None:
        super().__init__()
        channels = (inputs, width, width, 4 * width)
        for number, (pair, size, step) in enumerate(zip(pairwise(channels), (1, 3, 1), (1, stride, 1), strict=True)):
            self.add_module(f"conv{number}", Convolution(*pair, size, step, same))
            self.add_module(f"bn{number}", nn.BatchNorm2d(pair[1]))
        self.projection = None
        if stride != 1 or inputs != 4 * width:
            shortcut = Convolution(inputs, 4 * width, 1, stride, same)
            self.projection = nn.Sequential(shortcut, nn.BatchNorm2d(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.bn0(self.conv0(x)), inplace=True)
        y = functional.relu(self.bn1(self.conv1(y)), inplace=True)
        y = self.bn2(self.conv2(y))
        return functional.relu(y + (x if self.projection is None else self.projection(x)), inplace=True)


class ResNet50(nn.Module):
    """ResNet-50; ``same`` pads as this project's does, else evenly, as is usual in PyTorch, where it costs nothing."""

    def __init__(self, num_classes: int = 10, same: bool = False) -> None:
        super().__init__()
        self.same = same
        self.stem = nn.Sequential(Convolution(3, 64, 7, 2, same), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        blocks, channels = [], 64
        for stage, (count, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True)):
            for block in range(count):
                blocks.append(Bottleneck(channels, width, 2 if stage and not block else 1, same))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.dense = nn.Linear(channels, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        padded = pad_same(x, 3, 2, -torch.inf) if self.same else x
        x = self.blocks(functional.max_pool2d(padded, 3, 2, 0 if self.same else 1))
        return self.dense(x.mean((2, 3)))


class Embedding(nn.Module):
    """The sum of a word's and a position's vector."""

    def __init__(self, vocab_size: int, length: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, width)
        self.places = nn.Embedding(length, width)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        return self.words(ids) + self.places(positions)


def _layers(kind: type[nn.Module], count: int, width: int, heads: int, hidden: int) -> nn.ModuleList:
    make = partial(kind, width, heads, hidden, dropout=0.0, activation=GELU, batch_first=True, norm_first=True)
    return nn.ModuleList(make() for _ in range(count))


class Encoder(nn.Module):
    """Ids and their positions (batch, length) to logits of a vocabulary, through layers that see all positions."""

    def __init__(self, vocab_size: int, length: int, width: int, heads: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size, length, width)
        self.layers = _layers(nn.TransformerEncoderLayer, layers, width, heads, hidden)
        self.head = nn.Linear(width, vocab_size, bias=False)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        x = self.embedding(ids, positions)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Translator(nn.Module):
    """The tutorials' encoder-decoder Transformer; returns the mean cross entropy of the targets that are not padding.

    Masks are added to the scores, -10000 where a position may not look, as MindSpore's are.
    """

    def __init__(
        self, vocab_size: int, lengths: tuple[int, int], width: int, heads: int, layers: tuple[int, int]
    ) -> None:
        super().__init__()
        self.heads = heads
        self.source, self.target = (Embedding(vocab_size, length, width) for length in lengths)
        self.encoder = _layers(nn.TransformerEncoderLayer, layers[0], width, heads, width)
        self.decoder = _layers(nn.TransformerDecoderLayer, layers[1], width, heads, width)
        self.head = nn.Linear(width, vocab_size, bias=False)

    def forward(
        self,
        source_ids: Tensor,
        source_positions: Tensor,
        source_mask: Tensor,
        target_ids: Tensor,
        target_positions: Tensor,
        memory_mask: Tensor,
        labels: Tensor,
    ) -> Tensor:
        memory = self.source(source_ids, source_positions)
        for layer in self.encoder:
            memory = layer(memory, self._added(source_mask))
        given = (target_ids != 1).to(memory.dtype)
        causal = torch.tril(given[:, :, None] * given[:, None, :])
        x = self.target(target_ids, target_positions)
        for layer in self.decoder:
            x = layer(x, memory, self._added(causal), self._added(memory_mask))
        losses = functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten().long(), reduction="none")
        return (losses * given.flatten()).sum() / (given.sum() + 1e-5)

    def _added(self, mask: Tensor) -> Tensor:
        return ((1.0 - mask) * -10000.0).repeat_interleave(self.heads, 0)
