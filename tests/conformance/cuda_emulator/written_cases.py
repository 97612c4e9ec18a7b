"""Launches of the CUDA texts that are written by hand, each with what NumPy makes of the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from mpiparallel.backend.counter_random import RandomBox
from mpiparallel.backend.tensor_spec import Part
from mpiparallel.compile.joined_updates import JoinedUpdates
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.written_kernels import (
    attention,
    box_packing,
    cross_entropy,
    index_order,
    random_mask,
    row_picks,
    row_sums,
    word_sums,
)
from mpiparallel.layout.box import Box
from mpiparallel.ops import operations
from mpiparallel.ops.images.convolution import channels_last, kernels, written
from mpiparallel.ops.images.window import Window
from mpiparallel.reshard import tensor_digest

TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}


@dataclass
class Case:
    """A launch, what it has written, and what is right."""

    run: Kernel
    found: Any
    truth: Any

    def check(self) -> None:
        """Compare, after a launch."""
        self.run()
        for found, truth in zip(self.found, self.truth, strict=True):
            tolerance = TOLERANCES.get(found.dtype.name, 0.0)
            np.testing.assert_allclose(
                found.astype(np.float64), truth.astype(np.float64), tolerance, tolerance, equal_nan=True
            )


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(dtype)


def poisoned(shape: Any, dtype: Any) -> Any:
    return np.full(shape, np.nan, dtype)


def cross_entropies(runtime: Runtime, rows: int, classes: int, dtype: Any = np.float32) -> Case:
    """Compute losses and gradients by themselves, and both in one pass, multiplied by a number on the device."""
    logits, labels = logits_with_labels(rows, classes, dtype)
    losses, gradient = losses_and_gradients(logits, labels)
    found = poisoned(rows, np.float64), poisoned(logits.shape, dtype), poisoned(logits.shape, dtype)
    mean, factor = poisoned((), np.float64), np.array(3, dtype)
    steps = [
        cross_entropy.row_losses(runtime, logits, labels, found[0]),
        cross_entropy.row_losses(runtime, logits, labels, None, found[1], share=0.25),
        cross_entropy.mean_loss(runtime, logits, labels, mean, 2 * rows, found[2], factor),
    ]
    rounded = np.empty(rows, np.promote_types(dtype, np.float32) if dtype != bfloat16 else np.float32)
    total = np.empty((), rounded.dtype)

    def run() -> None:
        for step in steps:
            step()
        # Exponentials of float32 are no more exact than that.
        np.copyto(rounded, found[0], casting="same_kind")
        np.copyto(total, mean, casting="same_kind")

    truth = losses, gradient * 0.25, gradient * (1.5 / rows), losses.sum() / (2 * rows)
    return Case(run, (rounded, *found[1:], total), truth)


def cross_entropy_of_rounded(runtime: Runtime, rows: int, classes: int, dtype: Any) -> Case:
    """Compute in one pass from logits of 16 bits what float32 gives: a loss of that, a gradient of 16 bits."""
    logits, labels = logits_with_labels(rows, classes, dtype)
    losses, gradient = losses_and_gradients(logits, labels)
    mean, found = poisoned((), np.float32), poisoned(logits.shape, dtype)
    factor = np.array(1024, np.float32)
    run = cross_entropy.mean_loss(runtime, logits, labels, mean, 512, found, factor)
    return Case(run, (mean, found), (losses.sum() / 512, gradient * 2))


def logits_with_labels(rows: int, classes: int, dtype: Any) -> tuple[Any, Any]:
    logits = numbers(rows, classes, dtype=dtype) * np.array(4, dtype)
    if rows > 2:
        logits[0, : classes // 2] = -np.inf
    if rows > 4:
        logits[1, 0] = np.nan
    return logits, np.random.default_rng(0).integers(classes // 2, classes, rows, np.int32)


def losses_and_gradients(logits: Any, labels: Any) -> tuple[Any, Any]:
    """Return the loss of each row and its gradient, in float64."""
    wide, places = logits.astype(np.float64), np.arange(len(labels))
    with np.errstate(invalid="ignore"):
        exponential = np.exp(wide - wide.max(1, keepdims=True))
    gradient = exponential / exponential.sum(1, keepdims=True)
    losses = np.log(exponential.sum(1)) + wide.max(1) - wide[places, labels]
    gradient[places, labels] -= 1.0
    return losses, gradient


def sums_of_rows(runtime: Runtime, count: int, width: int, rows: int, dtype: Any = np.float32) -> Case:
    random = np.random.default_rng(count)
    indices = random.integers(-1, rows + 1, count)
    indices[count // 3 : count // 2] = rows // 2
    slices, found = numbers(count, width, dtype=dtype), poisoned((rows, width), dtype)
    truth = np.zeros(found.shape)
    held = (indices >= 0) & (indices < rows)
    np.add.at(truth, indices[held], slices[held].astype(np.float64))
    return Case(row_sums.row_sums(runtime, indices, slices, found), (found,), (truth,))


def orders(runtime: Runtime, count: int, rows: int, own: int = 16) -> Case:
    """Sort indices, some of which are no row; each thread has ``own`` neighbours."""
    indices = np.random.default_rng(count).integers(-2, rows + 2, count)
    indices[count // 2 : count // 2 + 5] = rows // 2
    known = np.where((indices >= 0) & (indices < rows), indices, rows)
    truth = np.argsort(known, kind="stable")
    found = np.full(count, -7), np.full(count, -7)
    with mock.patch.object(index_order, "_OWN", own):
        run = index_order.stable_order(runtime, indices, rows, *found)
    return Case(run, found, (known[truth], truth))


def picks(runtime: Runtime, shape: tuple[int, ...], axis: int, count: int, dtype: Any, index: Any = np.int64) -> Case:
    """Pick rows from the fifth on, of indices that are partly beyond; then one element of each row, and put it back."""
    table, first = numbers(*shape, dtype=dtype), 5
    indices = np.random.default_rng(count).integers(0, shape[axis] + 9, count).astype(index)
    held = (indices >= first) & (indices < first + shape[axis])
    local = np.where(held, indices.astype(np.int64) - first, 0)
    truth = np.moveaxis(np.take(table, local, axis), axis, -1) * held.astype(dtype)
    rows = table[: min(len(table), count)].reshape(-1, shape[-1])[:count]
    own = np.arange(len(rows)) % shape[-1]
    found = [np.full(shape, 77, dtype) for shape in (np.take(table, local, axis).shape, len(rows), rows.shape)]
    places = (own + first).astype(index)
    spread = np.zeros(rows.shape, dtype)
    spread[np.arange(len(rows)), own] = rows[np.arange(len(rows)), own]
    steps = [
        row_picks.picked_rows(runtime, table, indices, found[0], axis, first),
        row_picks.picked_elements(runtime, rows, places, found[1], first),
        row_picks.spread_elements(runtime, found[1], places, found[2], first),
    ]
    picked = rows[np.arange(len(rows)), own]
    hot = np.where(np.arange(shape[-1]) == own[:, None], np.array(3, dtype), np.array(1, dtype))
    found.append(np.full(rows.shape, 77, dtype))
    values = np.array(3, dtype), np.array(1, dtype)
    steps.append(row_picks.hot_elements(runtime, places, values, found[3], first))
    return Case(lambda: [step() for step in steps], found, (np.moveaxis(truth, -1, axis), picked, spread, hot))


def masks(runtime: Runtime, whole: tuple[int, ...], box: Box, dtype: Any = np.float32) -> Case:
    x, key = numbers(*box.shape, dtype=dtype), np.array([0x9E3779B97F4A7C15], np.uint64)
    found = poisoned(box.shape, dtype), np.full(box.shape, 77, np.uint8).view(bool)
    mask = np.empty(box.shape, bool)
    RandomBox(np, whole, box).keep(int(key[0]), 0.7, out=mask)
    run = random_mask.dropout(runtime, 0.7, whole, box, key, (x, *found))
    return Case(run, found, ((x * mask).astype(dtype) * (1 / 0.7), mask))


def boxes(runtime: Runtime, cut: Any, dtype: Any = np.float32, columns: int = 24) -> Case:
    """Pack the parts of an array cut in three, and unpack them into another."""
    source = numbers(6, 10, columns, dtype=dtype)
    target, packed = poisoned(source.shape, dtype), poisoned(source.size, dtype)
    pack = box_packing.BoxPacking(runtime, cut(source), packed).pack
    unpack = box_packing.BoxPacking(runtime, cut(target), packed).unpack
    truth = np.concatenate([part.reshape(-1) for part in cut(source)])
    return Case(lambda: [pack(), unpack()], (packed, target), (truth, source))


def message_sums(runtime: Runtime, length: int, start: int = 0) -> Case:
    """Sum the bytes of a message that begins anywhere, by the formula itself, word by word."""
    content = np.random.default_rng(length).integers(0, 256, length + start, np.uint8)[start:]
    padded = content.tobytes() + b"\0" * (-length % 4)
    words = [int.from_bytes(padded[first : first + 4], "little") for first in range(0, len(padded), 4)]
    truth = sum(word * _odd_weight(place) for place, word in enumerate(words))
    return _summed(lambda sums: word_sums.byte_sums(runtime, content, sums), truth)


def tensor_sums(runtime: Runtime, dtype: Any, box: Box, whole: tuple[int, ...]) -> Case:
    """Sum a part of a tensor, by the places of its elements in the whole."""
    size = int(np.prod(box.shape)) * np.dtype(dtype).itemsize
    part = np.random.default_rng(5).integers(0, 256, size, np.uint8).view(dtype).reshape(box.shape)
    truth = tensor_digest.host_digest(part, box, whole)
    return _summed(lambda sums: word_sums.part_sums(runtime, part, box, whole, sums), truth)


def _summed(bind: Callable[[Any], Kernel], truth: int) -> Case:
    sums, found = np.zeros(word_sums.BLOCKS, np.uint64), np.zeros(4, np.uint16)
    launch = bind(sums)

    def run() -> None:
        launch()
        found[...] = sums.sum(keepdims=True).view(np.uint16)

    # In parts that a float64 holds.
    return Case(run, (found,), (np.array([truth % 2**64], np.uint64).view(np.uint16),))


def _odd_weight(place: int) -> int:
    """Return the finalizer of SplitMix64 (Steele, Lea, Flood, 2014), made odd."""
    bits = (place + 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
    return (bits ^ (bits >> 31)) | 1


def apart(runtime: Runtime) -> Case:
    """Pack boxes of rows at places of their own, with room between them."""
    source, packed = numbers(5, 16), poisoned(128, np.float32)
    parts, places = [source[:2, 4:8], source[:0], source[3:4], source[4, 1:]], [96, 0, 4, 32]
    pack = box_packing.BoxPacking(runtime, parts, packed, places).pack
    truth = packed.copy()
    for part, place in zip(parts, places, strict=True):
        truth[place : place + part.size] = part.reshape(-1)
    return Case(pack, (packed,), (truth,))


def by_columns(array: Any) -> list[Any]:
    return [array[:, :, :8], array[:, :, 8:8], array[:, :4, 8:], array[:, 4:, 8:]]


def turned(array: Any) -> list[Any]:
    return list(np.moveaxis(array, 2, 0)[:, ::1])


SIZES = (1, 7, 64, 4096, 9001)


def adam(runtime: Runtime, sizes: tuple[int, ...] = SIZES, dtype: Any = np.float32) -> Case:
    """Update parameters of several sizes, each in memory of its own."""
    state = [[numbers(size, place, dtype=dtype)[:, 0].copy() for size in sizes] for place in (1, 2, 3, 4)]
    variables, means, squares, gradients = state
    squares[:] = [abs(one) for one in squares]
    scalars = [np.array(one, dtype) for one in (0.9, 0.99, 0.01, 0.9, 0.99, 1e-3)]
    power1, power2, rate, beta1, beta2, epsilon = (float(one) for one in scalars)
    truth = []
    for variable, mean, square, gradient in zip(*state, strict=True):
        wide = [one.astype(np.float64) for one in (variable, mean, square, gradient)]
        mean, square = beta1 * wide[1] + (1 - beta1) * wide[3], beta2 * wide[2] + (1 - beta2) * wide[3] ** 2
        step = rate * np.sqrt(1 - power2) / (1 - power1)
        truth.append([wide[0] - step * mean / (np.sqrt(square) + epsilon), mean, square])
    counts = [len(sizes)] * 3 + [1] * 6 + [len(sizes)]
    inputs = [*variables, *means, *squares, *scalars, *gradients]
    run = JoinedUpdates(operations.Adam(), counts).kernel(runtime, inputs, [])
    found = (*variables, *means, *squares)
    return Case(run, found, tuple(one[place] for place in range(3) for one in truth))


def attentions(
    runtime: Runtime,
    shape: tuple[int, int, int, int, int],
    dtype: Any = np.float32,
    keep: float = 1.0,
    are_views: bool = False,
    has_mask: bool = True,
    first_query: int | None = None,
) -> Case:
    """Attend, forward and backward, in a part of a larger tensor; in float64 the last query may look at no key.

    Heads ``are_views`` of rows that have those of all heads, as networks make them. Where the place of the first query
    among all is given, attention is causal.
    """
    batch, heads, queries, keys, depth = shape
    query, key, value, dy = (
        numbers(batch, heads, length, depth, dtype=dtype) for length in (queries, keys, keys + 0, queries)
    )
    key, value = key[..., ::-1].copy(), value * np.array(0.5, dtype)
    if are_views:
        query, key, value, dy = (one.swapaxes(1, 2).copy().swapaxes(1, 2) for one in (query, key, value, dy))
    mask = (np.random.default_rng(1).random((batch, 1, queries, keys)) < 0.8).astype(dtype)
    is_causal, first = first_query is not None, first_query or 0
    if dtype == np.float64 and not is_causal:
        # A row of scores near -10000 has few digits left in narrower types.
        mask[0, 0, -1] = 0
    box = Box((1, 2, first, 0), (batch + 1, heads + 2, first + queries, keys))
    part = Part((batch + 2, heads + 3, first + queries + first // 2, keys), box)
    settings = attention.AttentionSettings(depth**-0.5, -10000.0, keep, part, is_causal)
    drawn = np.array([0x9E3779B97F4A7C15], np.uint64)
    kept = np.empty((batch, heads, queries, keys), bool)
    RandomBox(np, part.global_shape, part.box).keep(int(drawn[0]), keep, out=kept)
    wide_dtype = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    output, sums = poisoned(query.shape, dtype), poisoned((batch, heads, queries), wide_dtype)
    of_sums = numbers(batch, heads, queries, dtype=wide_dtype)
    gradients = [poisoned(one.shape, dtype) for one in (query, key, value)]
    given = (query, key, value, *([mask] if has_mask else []), drawn)
    forward = attention.attention(runtime, settings, given, output, sums)
    backward = attention.attention_gradients(runtime, settings, given, (output, sums), (dy, of_sums), gradients)

    def run() -> None:
        forward()
        backward()

    return Case(run, (output, *gradients), _attended(settings, given, kept, dy, of_sums))


def _attended(settings: Any, given: Any, kept: Any, dy: Any, of_sums: Any) -> tuple[Any, ...]:
    """Return the output and the gradients by way of the whole matrix of scores, in float64."""
    query, key, value, *masks = (one.astype(np.float64) for one in given[:-1])
    dy, kept = dy.astype(np.float64), kept / settings.keep_prob
    scores = settings.scale * query @ key.swapaxes(2, 3)
    for mask in masks:
        scores += (1 - mask) * settings.masked
    if settings.is_causal:
        scores[..., ~np.tri(*scores.shape[2:], settings.part.box.start[2], bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    dropped = weights * kept
    of_weights = (dy @ value.swapaxes(2, 3)) * kept
    slopes = (
        weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True) + of_sums[..., None]) * settings.scale
    )
    return dropped @ value, slopes @ key, slopes.swapaxes(2, 3) @ query, dropped.swapaxes(2, 3) @ dy


def convolutions(
    runtime: Runtime,
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    window: Window,
    dtype: Any = np.float32,
    share: int = written.SHARE,
) -> Case:
    """Convolve and go back; the number of groups is that of channels by those of a weight."""
    x, weight = numbers(*shape, dtype=dtype), numbers(*weights, dtype=dtype)
    windows, group = window.over(shape[2:]), shape[1] // weights[1]
    dy = numbers(shape[0], weights[0], *windows.output, dtype=dtype)
    y, dx, dw = (poisoned(one.shape, dtype) for one in (dy, x, weight))
    way = written.WrittenConvolution(runtime, windows, group)
    with mock.patch.object(written, "SHARE", share):
        steps = [way.forward(x, weight, y), way.input_gradient(dy, weight, dx), way.weight_gradient(dy, x, dw)]

    def run() -> None:
        for step in steps:
            step()

    return Case(run, (y, dx, dw), convolved(x, weight, dy, windows, group))


def convolutions_in_tf32(
    runtime: Runtime,
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    window: Window,
    is_last: bool = True,
    share: int = channels_last.SHARE,
) -> Case:
    """Convolve images of float32, and go back, where factors may be rounded to TF32; channels are last in memory."""
    kind = type(runtime.backend)
    runtime = Runtime(kind(runtime.backend.kernels, convolves_in_tf32=True))
    windows, group = window.over(shape[2:]), shape[1] // weights[1]
    place = partial(last, dtype=np.float32) if is_last else numbers
    x, weight, dy = place(*shape), numbers(*weights), place(shape[0], weights[0], *windows.output)
    y, dx, dw = (np.full_like(one, np.nan) for one in (dy, x, weight))
    with mock.patch.object(channels_last, "SHARE", share):
        steps = [
            kernels.forward(runtime, windows, group, x, weight, y),
            kernels.input_gradient(runtime, windows, group, dy, weight, dx),
            kernels.weight_gradient(runtime, windows, group, dy, x, dw),
        ]

    def run() -> None:
        for step in steps:
            step()

    return Case(run, (y, dx, dw), convolved(*map(in_tf32, (x, weight, dy)), windows, group))


def in_tf32(array: Any) -> Any:
    """Return numbers of float32 rounded to 10 bits of fraction, halves away from 0.

    >>> in_tf32(np.float32([1 + 2**-11, 1 + 2**-12, -1 - 2**-11])) - np.float32([1, 1, -1])
    array([ 0.00097656,  0.        , -0.00097656], dtype=float32)
    """
    mantissa, exponent = np.frexp(array.astype(np.float64))
    scaled = mantissa * 2**11
    whole = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    return np.ldexp(whole / 2**11, exponent).astype(array.dtype)


def last(*shape: int, dtype: Any) -> Any:
    """Return images whose channels are last in memory."""
    images, channels, height, width = shape
    return numbers(images, height, width, channels, dtype=dtype).transpose(0, 3, 1, 2)


def convolutions_channels_last(
    runtime: Runtime,
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    window: Window,
    dtype: Any = np.float16,
    share: int = channels_last.SHARE,
) -> Case:
    """Convolve images whose channels are last in memory, and go back; the weights' gradient is summed by ``share``."""
    x, weight = last(*shape, dtype=dtype), numbers(*weights, dtype=dtype)
    windows = window.over(shape[2:])
    dy = last(shape[0], weights[0], *windows.output, dtype=dtype)
    y, dx, dw = (np.full_like(one, np.nan) for one in (dy, x, weight))
    with mock.patch.object(channels_last, "SHARE", share):
        steps = [
            kernels.forward(runtime, windows, 1, x, weight, y),
            kernels.input_gradient(runtime, windows, 1, dy, weight, dx),
            kernels.weight_gradient(runtime, windows, 1, dy, x, dw),
        ]

    def run() -> None:
        for step in steps:
            step()

    return Case(run, (y, dx, dw), convolved(x, weight, dy, windows, 1))


def convolved(x: Any, weight: Any, dy: Any, windows: Any, group: int) -> tuple[Any, ...]:
    """Return the convolution and its gradients, tap by tap in float64."""
    x, weight, dy = (one.astype(np.float64) for one in (x, weight, dy))
    padded = np.zeros((*x.shape[:2], *windows.padded))
    windows.interior(padded)[...] = x
    of_padded, of_weight = np.zeros_like(padded), np.zeros_like(weight)
    parts = (len(x), group, -1, *windows.output)
    of_groups = weight.reshape(group, -1, *weight.shape[1:])
    y, slope = np.zeros(dy.reshape(parts).shape), dy.reshape(parts)
    places = np.ndindex(*windows.window.kernel)
    for place, tap, lost in zip(places, windows.taps(padded), windows.taps(of_padded), strict=True):
        seen, factor = tap.reshape(parts), of_groups[..., place[0], place[1]]
        y += np.einsum("ngihw,goi->ngohw", seen, factor)
        lost += np.einsum("ngohw,goi->ngihw", slope, factor).reshape(lost.shape)
        of_weight[..., place[0], place[1]] = np.einsum("ngohw,ngihw->goi", slope, seen).reshape(weight.shape[:2])
    return y.reshape(dy.shape), windows.interior(of_padded), of_weight


CASES: dict[str, Callable[[Runtime], Case]] = {
    "cross entropy of few classes": lambda runtime: cross_entropies(runtime, 9, 10, np.float64),
    "cross entropy of a warp": lambda runtime: cross_entropies(runtime, 5, 700),
    "cross entropy of a block": lambda runtime: cross_entropies(runtime, 3, 3001),
    "cross entropy of halves": lambda runtime: cross_entropies(runtime, 4, 33, np.float16),
    "cross entropy of bfloat16": lambda runtime: cross_entropies(runtime, 4, 33, bfloat16),
    "cross entropy of rounded logits": lambda runtime: cross_entropy_of_rounded(runtime, 4, 33, np.float16),
    "cross entropy of a block of rounded logits": lambda runtime: cross_entropy_of_rounded(runtime, 2, 1100, bfloat16),
    "sums of rows": lambda runtime: sums_of_rows(runtime, 700, 5, 40),
    "sums of one row": lambda runtime: sums_of_rows(runtime, 400, 140, 1, np.float64),
    "sums of few rows": lambda runtime: sums_of_rows(runtime, 3, 2, 100, np.float16),
    "sums of rows of bfloat16": lambda runtime: sums_of_rows(runtime, 65, 3, 9, bfloat16),
    "sums of rows that are sorted": lambda runtime: sums_of_rows(runtime, 16500, 1, 40),
    "indices in order": lambda runtime: orders(runtime, 5000, 70),
    "indices of one tile in order": lambda runtime: orders(runtime, 4096, 70000),
    "indices of many tiles in order": lambda runtime: orders(runtime, 5000, 70, own=1),
    "indices of two rows in order": lambda runtime: orders(runtime, 9, 2),
    "picks": lambda runtime: picks(runtime, (40, 24), 0, 33, np.float32, np.int32),
    "picks of 3 bytes": lambda runtime: picks(runtime, (17, 3), 0, 9, np.uint8, np.int16),
    "picks of columns": lambda runtime: picks(runtime, (6, 31, 5), 1, 40, np.float16),
    "picks of the last dim": lambda runtime: picks(runtime, (9, 20), 1, 12, np.float64),
    "a mask": lambda runtime: masks(runtime, (40, 30), Box((0, 0), (40, 30))),
    "a mask of a box": lambda runtime: masks(runtime, (9, 8, 70), Box((2, 0, 3), (9, 8, 11)), np.float64),
    "a mask beyond 32 bits": lambda runtime: masks(runtime, (1 << 20, 1 << 20), Box((9000, 5), (9003, 70)), np.float16),
    "a mask of a number": lambda runtime: masks(runtime, (), Box((), ()), np.float64),
    "boxes of columns": lambda runtime: boxes(runtime, by_columns),
    "boxes apart": apart,
    "sums of a message": lambda runtime: message_sums(runtime, 70_000),
    "sums of odd bytes": lambda runtime: message_sums(runtime, 1003, 1),
    "sums of a part": lambda runtime: tensor_sums(runtime, np.float64, Box((2, 0, 3), (5, 4, 7)), (9, 4, 8)),
    "sums of complex numbers": lambda runtime: tensor_sums(runtime, np.complex128, Box((1,), (7,)), (9,)),
    "sums of one number": lambda runtime: tensor_sums(runtime, np.float16, Box((), ()), ()),
    "boxes in another order": lambda runtime: boxes(runtime, turned),
    "boxes of halves": lambda runtime: boxes(runtime, by_columns, np.float16, 31),
    "boxes of numbers of 8 bytes": lambda runtime: boxes(runtime, by_columns, np.float64, 26),
    "attention": lambda runtime: attentions(runtime, (2, 3, 37, 50, 8)),
    "attention with dropout": lambda runtime: attentions(runtime, (1, 2, 33, 40, 16), np.float64, 0.7),
    "attention of heads that are views": lambda runtime: attentions(runtime, (2, 3, 9, 11, 8), are_views=True),
    "attention of one query": lambda runtime: attentions(runtime, (2, 1, 1, 3, 5), np.float16, 0.5),
    "attention of bfloat16": lambda runtime: attentions(runtime, (1, 1, 5, 40, 12), bfloat16),
    "attention by tensor cores": lambda runtime: attentions(runtime, (1, 2, 70, 83, 32), bfloat16, 0.8),
    "attention of halves by tensor cores": lambda runtime: attentions(runtime, (2, 1, 5, 19, 16), np.float16),
    "attention of deep heads by tensor cores": lambda runtime: attentions(runtime, (1, 1, 17, 33, 128), np.float16),
    "attention without a mask": lambda runtime: attentions(runtime, (1, 2, 37, 50, 8), has_mask=False),
    "causal attention": lambda runtime: attentions(
        runtime, (1, 2, 70, 70, 8), np.float64, has_mask=False, first_query=0
    ),
    "causal attention of later queries": lambda runtime: attentions(
        runtime, (1, 1, 37, 90, 8), np.float64, 0.7, has_mask=False, first_query=35
    ),
    "causal attention with a mask": lambda runtime: attentions(runtime, (2, 1, 40, 33, 8), first_query=5),
    "attention without a mask by tensor cores": lambda runtime: attentions(
        runtime, (1, 1, 70, 83, 32), bfloat16, has_mask=False
    ),
    "causal attention by tensor cores": lambda runtime: attentions(
        runtime, (1, 1, 140, 150, 32), bfloat16, has_mask=False, first_query=0
    ),
    "causal attention of later queries by tensor cores": lambda runtime: attentions(
        runtime, (1, 1, 70, 200, 16), np.float16, 0.8, has_mask=False, first_query=65
    ),
    "causal attention of deep heads by tensor cores": lambda runtime: attentions(
        runtime, (1, 1, 80, 80, 128), np.float16, first_query=14
    ),
    "attention of deep heads": lambda runtime: attentions(runtime, (1, 1, 17, 18, 130)),
    "convolution": lambda runtime: convolutions(
        runtime, (2, 3, 9, 8), (5, 3, 3, 3), Window((3, 3), (1, 1), pad_mode="same")
    ),
    "convolution of many channels": lambda runtime: convolutions(
        runtime, (1, 34, 5, 9), (40, 34, 2, 3), Window((2, 3), (2, 1)), np.float64
    ),
    "convolution of windows of one pixel": lambda runtime: convolutions(
        runtime, (2, 3, 4, 5), (4, 3, 1, 1), Window((1, 1), (1, 1))
    ),
    "convolution in groups": lambda runtime: convolutions(
        runtime, (2, 6, 8, 7), (4, 3, 3, 2), Window((3, 2), (2, 2), (2, 1), "pad", (1, 2, 0, 1)), np.float16
    ),
    "convolution of many images": lambda runtime: convolutions(
        runtime, (9, 2, 6, 5), (3, 2, 1, 1), Window((1, 1), (1, 1)), bfloat16, share=128
    ),
    "convolution by tensor cores": lambda runtime: convolutions(
        runtime, (2, 9, 7, 7), (70, 9, 3, 3), Window((3, 3), (1, 1), pad_mode="same"), np.float16
    ),
    "convolution of channels that are last": lambda runtime: convolutions_channels_last(
        runtime, (2, 40, 9, 8), (72, 40, 1, 3), Window((1, 3), (1, 1), pad_mode="same")
    ),
    "convolution of channels that are last, with strides": lambda runtime: convolutions_channels_last(
        runtime, (3, 16, 8, 9), (8, 16, 3, 2), Window((3, 2), (2, 2), (2, 1), "pad", (1, 2, 0, 1)), bfloat16
    ),
    "convolution of channels that are last, pixel by pixel": lambda runtime: convolutions_channels_last(
        runtime, (1, 136, 6, 5), (24, 136, 1, 1), Window((1, 1), (2, 1)), bfloat16
    ),
    "convolution of channels that are last, in parts": lambda runtime: convolutions_channels_last(
        runtime, (1, 8, 9, 8), (8, 8, 1, 2), Window((1, 2), (1, 1)), share=32
    ),
    "convolution in TF32": lambda runtime: convolutions_in_tf32(
        runtime, (2, 40, 9, 8), (72, 40, 1, 3), Window((1, 3), (1, 1), pad_mode="same")
    ),
    "convolution in TF32, with strides": lambda runtime: convolutions_in_tf32(
        runtime, (3, 12, 8, 9), (8, 12, 3, 2), Window((3, 2), (2, 2), (2, 1), "pad", (1, 2, 0, 1)), share=32
    ),
    "convolution in TF32 of three channels": lambda runtime: convolutions_in_tf32(
        runtime, (2, 3, 7, 7), (70, 3, 3, 3), Window((3, 3), (2, 2), pad_mode="same")
    ),
    "convolution in TF32, plane by plane": lambda runtime: convolutions_in_tf32(
        runtime, (1, 72, 5, 4), (12, 36, 1, 1), Window((1, 1), (1, 1)), is_last=False
    ),
    "convolution of each channel": lambda runtime: convolutions(
        runtime, (2, 3, 9, 8), (6, 1, 3, 3), Window((3, 3), (2, 2), pad_mode="same")
    ),
    "updates": adam,
    "updates by fours": lambda runtime: adam(runtime, (8, 4096, 8200)),
    "updates of halves": lambda runtime: adam(runtime, (3, 900), np.float16),
    "updates of float64": lambda runtime: adam(runtime, (3, 900), np.float64),
}
