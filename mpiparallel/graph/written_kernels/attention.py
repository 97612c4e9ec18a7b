"""Attention in blocks on a device: the matrix of scores is never in its memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from mpiparallel.backend.counter_random import keep_limit
from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import operand, reduce
from mpiparallel.graph.written_kernels import attention_text, tensor_attention_text
from mpiparallel.graph.written_kernels.random_mask import MIXED
from mpiparallel.graph.written_kernels.tensor_core_text import has_tensor_cores, tensor_product
from mpiparallel.graph.written_kernels.written_text import element_type, has_written_kernels, run_after, written_kernel

_SHARED: Final = 48 * 1024
"""Bytes of shared memory that every card gives a block."""

_LARGEST_TILE: Final = 32
_SMALLEST_TILE: Final = 8
_TENSOR_ROWS: Final = 64
_DEEPEST: Final = 128
"""Elements of a head of which a warp keeps 16 rows in registers."""
_LOAD: Final = 16
_FIRST_COPY: Final = 60
"""Scratch memory from here on holds what is copied into C order."""
_SLOT: Final = 8
"""Scratch memory that no kernel of terms uses."""


@dataclass(frozen=True)
class AttentionSettings:
    """What attention is computed with: the factor of the scores, what is added to masked ones, and the dropout.

    ``part`` is the part of all scores (batch, heads, queries, keys) that is computed here. Where attention
    ``is_causal``, a query sees the keys of its own place and of those before it alone.
    """

    scale: float
    masked: float
    keep_prob: float
    part: Part
    is_causal: bool = False


def tile_of(depth: int, dtype: np.dtype[Any]) -> int:
    """Return how many queries and keys a tile has; 0 where not even the smallest fits into shared memory.

    >>> [tile_of(depth, np.dtype(np.float16)) for depth in (64, 128, 256, 1000)]
    [32, 16, 8, 0]
    """
    size = 8 if dtype == np.float64 else 4
    tile = _LARGEST_TILE
    while tile >= _SMALLEST_TILE:
        if size * (4 * tile * (depth + 1) + 2 * tile * (tile + 1)) <= _SHARED:
            return tile
        tile //= 2
    return 0


def is_written_attention(runtime: Runtime, arrays: Sequence[Array]) -> bool:
    """Return whether the device attends by a written text: arrays of one type, heads not too deep."""
    first = arrays[0]
    alike = all(one.dtype == first.dtype and one.size for one in arrays)
    return alike and has_written_kernels(runtime, first.dtype) and tile_of(first.shape[-1], first.dtype) > 0


def _in_order(runtime: Runtime, arrays: Sequence[Array]) -> tuple[list[Kernel], list[Array]]:
    """Return arrays in C order and what copies them, where they are not: most heads are views of rows of all."""
    held = [
        one if one.flags.c_contiguous else runtime.scratch(tuple(one.shape), one.dtype, slot)
        for slot, one in enumerate(arrays, _FIRST_COPY)
    ]
    pairs = [(copy, one) for copy, one in zip(held, arrays, strict=True) if copy is not one]
    return [partial(runtime.array_module.copyto, *pair) for pair in pairs], held


def attention(
    runtime: Runtime, settings: AttentionSettings, given: Sequence[Array], output: Array, sums: Array
) -> Kernel:
    """Return what sets ``output`` (batch, heads, queries, depth), and ``sums``, the logarithms of sums of exponentials.

    ``given`` are query, key, value, the mask where there is one, and the key of random numbers, once or more, in C
    order. Query, key and value are (batch, heads, length, depth), the mask (batch or 1, heads or 1, queries, keys).
    """
    copies, ordered = _in_order(runtime, given)
    attend = _launch(runtime, settings, "FORWARD", ordered, (output, sums), queries_apart=True)
    return run_after(copies, attend)


def attention_gradients(
    runtime: Runtime,
    settings: AttentionSettings,
    given: Sequence[Array],
    forward: tuple[Array, Array],
    gradients: tuple[Array, Array],
    outputs: Sequence[Array],
) -> Kernel:
    """Return what sets the gradients of query, key and value, from what ``attention`` was given and gave.

    ``gradients`` are those of the output and of the sums."""
    copies, ordered = _in_order(runtime, (*given, *forward, *gradients))
    given, (output, sums, gradient, of_sums) = ordered[:-4], ordered[-4:]
    products = runtime.scratch(tuple(sums.shape), sums.dtype, _SLOT)
    terms = [
        operand(place, array.shape, array.dtype).astype(sums.dtype) for place, array in enumerate((gradient, output))
    ]
    total = reduce("sum", terms[0] * terms[1], (-1,))
    kept = products.reshape((*products.shape, 1))
    lost = total - operand(2, kept.shape, sums.dtype)
    rows = of_sums.reshape(kept.shape)
    multiply = expression_kernel(runtime, [lost], [gradient, output, rows], [kept])
    known = (gradient, sums, products)
    of_query = _launch(runtime, settings, "QUERY_GRADIENT", given, (*known, outputs[0]), queries_apart=True)
    of_others = _launch(runtime, settings, "KEY_GRADIENT", given, (*known, *outputs[1:]), queries_apart=False)
    return run_after([*copies, multiply, of_query], of_others)


def _by_tensor_cores(runtime: Runtime, query: Array, arrays: Sequence[Array]) -> bool:
    """Return whether tensor cores multiply: rows of heads are whole loads of 16 bytes, and fit into registers."""
    depth = query.shape[-1]
    fits = has_tensor_cores(query.dtype) and depth % 16 == 0 and depth <= _DEEPEST
    return fits and not any(runtime.backend.address(one) % _LOAD for one in arrays)


def _launch(
    runtime: Runtime,
    settings: AttentionSettings,
    name: str,
    given: Sequence[Array],
    others: Sequence[Array],
    *,
    queries_apart: bool,
) -> Kernel:
    query, key, _, *masks, _ = given
    batch, heads, queries, depth = query.shape
    keys = key.shape[2]
    part = settings.part
    integers = [heads, queries, keys, *_mask_steps(masks)]
    scales = np.float64(settings.scale), np.float64(settings.masked)
    drop = np.uint32(keep_limit(settings.keep_prob)), np.float64(1.0 / settings.keep_prob)
    where = [*part.box.start[:3], part.global_shape[1], part.global_shape[2]]
    numbers = (*map(np.int64, integers), *scales, *drop, *map(np.int64, where))
    places: dict[str, object] = {
        "element": element_type(query.dtype),
        "mixed": MIXED,
        "depth": depth,
        "drops": int(settings.keep_prob < 1.0),
        "causal": int(settings.is_causal),
        **(attention_text.WITH_MASK if masks else attention_text.WITHOUT_MASK),
    }
    if _by_tensor_cores(runtime, query, (*given[:3], *others)):
        text, rows, threads = getattr(tensor_attention_text, name), _TENSOR_ROWS, 2 * _TENSOR_ROWS
        places |= {"tensor_product": tensor_product(query.dtype), "span": _span(depth, name)}
    else:
        rows = tile_of(depth, query.dtype)
        text, threads = getattr(attention_text, name), 4 * rows
        places["tile"] = rows
    blocks = batch * heads * -(-(queries if queries_apart else keys) // rows)
    return written_kernel(runtime, text, places, blocks, threads, *given, *others, *numbers)


def _mask_steps(masks: Sequence[Array]) -> tuple[int, int]:
    """Return how many elements of the mask lie between two batches, and between two heads."""
    if not masks:
        return 0, 0
    (mask,) = masks
    batch, head, *_ = (
        0 if extent == 1 else stride // mask.dtype.itemsize
        for extent, stride in zip(mask.shape, mask.strides, strict=True)
    )
    return batch, head


def _span(depth: int, name: str) -> int:
    """Return how many rows of the others are in shared memory at a time: more would take more registers than there are.

    >>> [_span(depth, name) for depth in (64, 128) for name in ("FORWARD", "KEY_GRADIENT")]
    [64, 32, 64, 16]
    """
    return 64 if name == "FORWARD" else 32 if depth <= _DEEPEST // 2 else 16
