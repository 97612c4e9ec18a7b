"""Attention by an array library: one head of one batch after the other, so that memory holds the scores of only one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.counter_random import RandomBox
from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.written_kernels.attention import AttentionSettings
from mpiparallel.layout.box import Box

HeadPlace = tuple[int, int]


class _Heads:
    """The heads of all batches, with what each computes in between."""

    def __init__(self, runtime: Runtime, settings: AttentionSettings, given: Sequence[Array], wide: Any) -> None:
        self._runtime = runtime
        self._xp = runtime.array_module
        self._settings = settings
        self._given = given
        self._wide = wide
        batch, heads = given[0].shape[:2]
        self.places = [(first, second) for first in range(batch) for second in range(heads)]

    def inputs(self, place: HeadPlace) -> tuple[Array, Array, Array]:
        """Return query, times the scale, key and value of one head, as wide as sums are."""
        query, key, value = (one[place].astype(self._wide) for one in self._given[:3])
        return query * self._settings.scale, key, value

    def scores(self, place: HeadPlace, query: Array, key: Array) -> Array:
        """Return the scores of one head."""
        scores = self._xp.matmul(query, key.T)
        for mask in self._given[3:-1]:
            seen = mask[tuple(at if extent > 1 else 0 for at, extent in zip(place, mask.shape, strict=False))]
            scores = scores + (1.0 - seen.astype(self._wide)) * self._settings.masked
        if self._settings.is_causal:
            queries = self._xp.arange(scores.shape[0]) + self._settings.part.box.start[2]
            is_seen = self._xp.arange(scores.shape[1]) <= queries[:, None]
            scores = self._xp.where(is_seen, scores, scores.dtype.type(-np.inf))
        return scores

    def kept(self, place: HeadPlace) -> Array | float:
        """Return by what each weight is multiplied: 0 where it is dropped."""
        probability, part = self._settings.keep_prob, self._settings.part
        if probability == 1.0:
            return 1.0
        key = self._runtime.backend.to_host(self._given[-1].reshape(-1)[:1])[0]
        start = tuple(begin + at for begin, at in zip(part.box.start, place, strict=False))
        box = Box((*start, *part.box.start[2:]), (start[0] + 1, start[1] + 1, *part.box.stop[2:]))
        mask = self._xp.empty(box.shape, np.bool_)
        RandomBox(self._xp, part.global_shape, box).keep(int(key), probability, mask)
        return mask[0, 0].astype(self._wide) * (1.0 / probability)


def attend_head_by_head(
    runtime: Runtime, settings: AttentionSettings, given: Sequence[Array], output: Array, sums: Array
) -> Kernel:
    """Return what sets the output and the logarithms of sums of exponentials."""
    xp, heads = runtime.array_module, _Heads(runtime, settings, given, sums.dtype)

    def run() -> None:
        for place in heads.places:
            query, key, value = heads.inputs(place)
            scores = heads.scores(place, query, key)
            largest = scores.max(axis=-1, keepdims=True)
            weights = xp.exp(scores - largest)
            total = weights.sum(axis=-1, keepdims=True)
            attended = xp.matmul(weights * heads.kept(place) / total, value)
            xp.copyto(output[place], attended, casting="same_kind")
            xp.copyto(sums[place], (xp.log(total) + largest)[:, 0])

    return run if output.size else _fill(output, sums)


def gradients_head_by_head(
    runtime: Runtime,
    settings: AttentionSettings,
    given: Sequence[Array],
    forward: tuple[Array, Array],
    gradients: tuple[Array, Array],
    outputs: Sequence[Array],
) -> Kernel:
    """Return what sets the gradients of query, key and value."""
    xp, (output, sums), (dy, dsums) = runtime.array_module, forward, gradients
    heads = _Heads(runtime, settings, given, sums.dtype)

    def run() -> None:
        for place in heads.places:
            query, key, value = heads.inputs(place)
            weights = xp.exp(heads.scores(place, query, key) - sums[place][:, None])
            kept = heads.kept(place)
            slope, of_output = dy[place].astype(sums.dtype), output[place].astype(sums.dtype)
            lost = (slope * of_output).sum(axis=-1) - dsums[place]
            slopes = weights * (xp.matmul(slope, value.T) * kept - lost[:, None])
            of_value = xp.matmul((weights * kept).T, slope)
            found = xp.matmul(slopes, key) * settings.scale, xp.matmul(slopes.T, query), of_value
            for target, result in zip(outputs, found, strict=True):
                xp.copyto(target[place], result, casting="same_kind")

    return run if outputs[0].size else _fill(*outputs)


def _fill(*targets: Array) -> Callable[[], None]:
    def run() -> None:
        for target in targets:
            target.fill(0)

    return run
