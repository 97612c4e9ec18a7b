"""What is timed on a GPU: sizes, the work that must be done at least, and the share of the peer or ceiling wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import prod
from os import environ
from typing import Any

ITEM_BYTES = {"float64": 8, "float32": 4, "TF32": 4, "float16": 2, "bfloat16": 2}
SQUARE = 8192
"""Rows, columns and depth of the product whose rate is the ceiling of products."""


@dataclass(frozen=True)
class Case:
    """One thing to time.

    ``bytes`` are read and written at least, ``operations`` are multiplications and additions. ``wanted`` is the least
    of ``against``: "peer", the time of the fastest way of the peer over ours; "eager" and "compiled", the time of that
    way over ours; "copy", the rate of our bytes over that of a copy. ``ways`` are the peer's: "eager", "compiled", and
    in attention its two kernels, "flash" and "cuDNN". With ``library`` ours is asked to take that library's attention.
    """

    kind: str
    sizes: tuple[int, ...]
    dtype: str
    bytes: int = 0
    operations: int = 0
    wanted: tuple[tuple[str, float], ...] = ()
    ways: tuple[str, ...] = ("eager",)
    library: str = ""

    @property
    def name(self) -> str:
        """The kind, the sizes and the dtype, which no other case has together."""
        by = f" by {self.library}" if self.library else ""
        return f"{self.kind} {'x'.join(map(str, self.sizes))} {self.dtype}{by}"

    @property
    def told(self) -> dict[str, Any]:
        """What the peer is told."""
        return {**asdict(self), "name": self.name}


BOTH = ("eager", "compiled")


def copies(scale: int) -> Iterator[Case]:
    """Yield the copy whose rate is the ceiling of what memory bounds: 1 GiB there and 1 GiB back."""
    count = (1 << 28) // scale
    yield Case("copy", (count,), "float32", 8 * count)


def products(scale: int) -> Iterator[Case]:
    """Yield products (m, n, k): the square one, and those of Transformers."""
    side = SQUARE // scale
    shapes = ((side, side, side), (2048, 2048, 512), (2048, 512, 2048), (2048, 20000, 512), (8192, 4096, 1024))
    for dtype in ("float32", "TF32", "float16", "bfloat16", "float64"):
        for m, n, k in shapes if scale == 1 else shapes[:1]:
            moved = ITEM_BYTES[dtype] * (m * k + k * n + m * n)
            yield Case("product", (m, n, k), dtype, moved, 2 * m * n * k, (("peer", 0.95),))


PASSES = {
    "layer norm": 2,
    "layer norm gradient": 3,
    "softmax": 2,
    "softmax gradient": 3,
    "cross entropy gradient": 2,
    "bias and GELU": 2,
    "GELU gradient and bias gradient": 3,
}
"""How often each reads or writes a whole tensor, at least."""


def kernels(scale: int) -> Iterator[Case]:
    """Yield kernels that memory bounds: passes over rows, and the update of AdamWeightDecay."""
    for dtype in ("float32", "bfloat16"):
        for kind, passes in PASSES.items():
            for rows, length in ((4096, 1024), (16384, 4096)):
                sizes = max(rows // scale, 1), length
                moved = passes * prod(sizes) * ITEM_BYTES[dtype]
                yield Case(kind, sizes, dtype, moved, 0, (("copy", 0.85),), BOTH)
    count = (1 << 26) // scale
    yield Case("AdamWeightDecay", (count,), "float32", 28 * count, 0, (("copy", 0.85),))


def convolutions(scale: int) -> Iterator[Case]:
    """Yield convolutions (images, channels, extent, outputs, kernel, stride) of ResNet-50 and their gradients."""
    for channels, extent, outputs, kernel, stride in (
        *((64, 56, 64, 3, 1), (128, 28, 128, 3, 1), (256, 14, 256, 3, 1), (512, 7, 512, 3, 1)),
        *((64, 56, 256, 1, 1), (256, 56, 512, 1, 2), (1024, 14, 256, 1, 1)),
    ):
        images, after = max(256 // scale, 1), -(-extent // stride)
        channels, outputs = (max(one // scale, 4) for one in (channels, outputs))
        for dtype in ("TF32", "bfloat16"):
            operations = 2 * images * outputs * after**2 * channels * kernel**2
            elements = images * (channels * extent**2 + outputs * after**2) + outputs * channels * kernel**2
            for direction in ("forward", "input gradient", "weight gradient"):
                sizes = images, channels, extent, outputs, kernel, stride
                yield Case(f"convolution {direction}", sizes, dtype, ITEM_BYTES[dtype] * elements, operations)


def attentions(scale: int) -> Iterator[Case]:
    """Yield attention (batch, heads, length, depth) and its gradient: 16 Ki tokens of 2,048 features.

    Where cuDNN's frontend is installed its attention is timed too, at one length.
    """
    for length in (1024, 4096, 16384):
        for depth in (64, 128):
            sizes = max(16384 // length // scale, 1), 2048 // depth, max(length // scale, 1), depth
            for kind, factor in (("attention", 4), ("causal attention", 2)):
                work = factor * prod(sizes) * sizes[2]
                for name, operations in ((kind, work), (f"{kind} gradient", work * 5 // 2)):
                    yield Case(name, sizes, "bfloat16", 0, operations, (("peer", 0.6),), ("flash", "cuDNN"))
                    if length == 4096 and find_spec("cudnn"):
                        yield Case(name, sizes, "bfloat16", 0, operations, (), ("cuDNN",), "cudnn")


def steps(scale: int) -> Iterator[Case]:
    """Yield whole training steps: an encoder (batch, length, width, layers), ResNet-50 (batch, extent), an idle one.

    The idle one is an encoder whose kernels have next to nothing to do: its time is that of the host. More is wanted of
    ResNet-50 where cuDNN's convolutions may be taken.
    """
    both = (("eager", 1.0), ("compiled", 0.9))
    encoder = (8, 1024, 1024, 12) if scale == 1 else (2, 16, 64, 2)
    yield Case("encoder step", encoder, "bfloat16", wanted=both, ways=BOTH)
    images = (256, 224) if scale == 1 else (2, 32)
    wanted = both if takes_cudnn() else (("eager", 0.6),)
    for dtype in ("TF32", "bfloat16"):
        yield Case("ResNet-50 step", images, dtype, wanted=wanted, ways=BOTH)
    yield Case("idle encoder step", (1, 8, 64, 12 if scale == 1 else 2), "float32", ways=BOTH)


def takes_cudnn() -> bool:
    """Return whether cuDNN's frontend is installed, and ``MPIPARALLEL_CONVOLUTIONS`` does not forbid it."""
    return find_spec("cudnn") is not None and environ.get("MPIPARALLEL_CONVOLUTIONS") != "own"


GROUPS = {
    "copies": copies,
    "products": products,
    "steps": steps,
    "attentions": attentions,
    "kernels": kernels,
    "convolutions": convolutions,
}
"""In the order in which they run, as those that come last may find no time."""


def chosen_cases(groups: Sequence[str], scale: int) -> list[Case]:
    """Return the cases of some groups; the copy is always among them, as it is a ceiling."""
    cases = [case for group in GROUPS if group in groups or group == "copies" for case in GROUPS[group](scale)]
    return list(dict.fromkeys(cases))
