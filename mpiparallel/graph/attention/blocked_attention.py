"""Attention of heads in blocks: the matrix of all scores is never in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mpiparallel.backend.counter_random import stream_key
from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.attention.head_by_head import attend_head_by_head, gradients_head_by_head
from mpiparallel.graph.attention.library_attention import library_attention, library_gradients
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import RandomState, Runtime
from mpiparallel.graph.input_checks import check_floating, check_shape
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.written_kernels.attention import (
    AttentionSettings,
    attention,
    attention_gradients,
    is_written_attention,
)
from mpiparallel.layout.box import Box

Tensors = Sequence[Tensor]
_QUERY, _KEY, _VALUE, _ROWS = ("b", "h", "q", "d"), ("b", "h", "k", "d"), ("b", "h", "k", "d"), ("b", "h", "q")


class Attending(Operator):
    """What attention and its gradient share: the scores, and what is drawn for them."""

    is_random = True
    part: Part = Part.whole(())
    """What is held here of the scores (batch, heads, queries, keys)."""
    piece: tuple[int, int] = 0, 1
    """Which piece of the batch it is given, and of how many, along dim 0."""
    seeds: tuple[int, ...] = ()
    """Those of the dropout that it stands for."""

    def __init__(
        self, keep_prob: float = 1.0, scale: float = 1.0, masked: float = -10000.0, is_causal: bool = False
    ) -> None:
        if not 0.0 < keep_prob <= 1.0:
            raise ConfigurationError(f"{self.name}: keep_prob={keep_prob} must be above 0 and at most 1")
        self.keep_prob = keep_prob
        self.scale = scale
        self.masked = masked
        self.is_causal = is_causal

    def labels(self, masks: Sequence[TensorSpec]) -> tuple[Labels, ...]:
        """Return the labels of query, key, value and the mask, where there is one."""
        seen = (
            tuple(
                None if extent == 1 and dim < 2 else label
                for dim, (label, extent) in enumerate(zip("bhqk", mask.shape, strict=True))
            )
            for mask in masks
        )
        return _QUERY, _KEY, _VALUE, *seen

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> Any:
        query, key, (index, count) = inputs[0], inputs[1], self.piece
        (batch, *others), keys = query.global_shape[:3], key.global_shape[2]
        first = index * batch + query.box.start[0]
        start, stop = (first, *query.box.start[1:3], 0), (first + query.shape[0], *query.box.stop[1:3], keys)
        return self.configured(part=Part((count * batch, *others, keys), Box(start, stop)))

    @property
    def attention_settings(self) -> AttentionSettings:
        """What kernels are told."""
        return AttentionSettings(self.scale, self.masked, self.keep_prob, self.part, self.is_causal)


def sum_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of sums over keys."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def _check_mask(shape: tuple[int, ...], scores: tuple[int, ...]) -> None:
    fits = len(shape) == 4 and shape[2:] == scores[2:]
    if not fits or any(own not in (1, extent) for own, extent in zip(shape[:2], scores, strict=False)):
        raise ShapeError(f"mask has shape {shape}; it must be {scores}, or 1 in the first two dims")


@register
class BlockedAttention(Attending):
    """``dropout(softmax(scale * query @ key.T + (1 - mask) * masked)) @ value`` in each head of each batch.

    ``query`` has shape (batch, heads, queries, depth), ``key`` and ``value`` (batch, heads, keys, depth). The mask has
    shape (batch or 1, heads or 1, queries, keys): 1 where a query may look at a key, 0 elsewhere. Without one, all may
    look at all. Gives the output, of the shape of ``query``, and the logarithms of the sums of exponentials (batch,
    heads, queries). Gives also the key of what was drawn, for each of these. A strategy may cut batch, heads and
    queries.

    Parameters
    ----------
    keep_prob : float
        Above 0 and at most 1: the probability with which a weight is kept, and divided by it.
    scale : float
        The factor of the scores.
    masked : float
        What is added to the scores that the mask does not show.
    is_causal : bool
        Whether a query may look only at keys of its own place and before it. What comes after is not computed.

    Raises
    ------
    ConfigurationError
        When ``keep_prob`` is not in (0, 1].
    ShapeError
        When the shapes do not fit.

    Examples
    --------
    >>> one = np.ones((1, 1, 2, 4))
    >>> y, sums, _ = BlockedAttention()(one, one, one, np.ones((1, 1, 2, 2)))
    >>> y.shape, sums.asnumpy().round(4).tolist()
    ((1, 1, 2, 4), [[[4.6931, 4.6931]]])
    >>> BlockedAttention(is_causal=True)(one, one, one)[1].asnumpy().round(4).tolist()
    [[[4.0, 4.6931]]]
    """

    def __call__(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        return super().__call__(query, key, value, *(() if mask is None else (mask,)))

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        query, key, value, *masks = inputs
        check_floating(query=query, key=key, value=value, **dict(zip(("mask",), masks, strict=False)))
        if len(query.shape) != 4 or len(key.shape) != 4:
            raise ShapeError(f"query {query.shape} and key {key.shape} must have four dims")
        (batch, heads, queries, depth), keys = query.shape, key.shape[2]
        check_shape((batch, heads, keys, depth), key=key, value=value)
        for mask in masks:
            _check_mask(mask.shape, (batch, heads, queries, keys))
        rows = query.shape[:3]
        return query, TensorSpec(rows, sum_type(query.dtype)), TensorSpec(rows, np.dtype(np.uint64))

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation(self.labels(inputs[3:]), (_QUERY, _ROWS, _ROWS), frozenset({"k", "d"}), batch="b")

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        output, sums, drawn = outputs
        xp, place = runtime.array_module, runtime.numbers.add(partial(self._key, runtime.random))
        bind = attention if is_written_attention(runtime, (*inputs, output)) else attend_head_by_head
        wanted = runtime, self.attention_settings, (*inputs, drawn), output, sums
        attend = library_attention(*wanted) or bind(*wanted)

        def run() -> None:
            xp.copyto(drawn, place)
            attend()

        return run

    def _key(self, random: RandomState) -> int:
        return 0 if self.keep_prob == 1.0 else stream_key(random.seed, *self.seeds, self.scope, random.draw)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        operator = BlockedAttentionGrad(self.keep_prob, self.scale, self.masked, self.is_causal)
        found = operator.configured(piece=self.piece)(*inputs, *outputs, *gradients[:2])
        return (*found, *(None for _ in inputs[3:]))


@register
class BlockedAttentionGrad(Attending):
    """The gradients of BlockedAttention with respect to query, key and value.

    It is given the inputs of BlockedAttention, with a mask or without, its outputs, then the gradients of the output
    and of the sums. Where queries are cut, those of key and value are partial.

    Parameters
    ----------
    keep_prob, scale, masked, is_causal
        As of BlockedAttention.

    Examples
    --------
    >>> one, mask = np.ones((1, 1, 2, 4)), np.ones((1, 1, 2, 2))
    >>> outputs = BlockedAttention()(one, one, one, mask)
    >>> BlockedAttentionGrad()(one, one, one, mask, *outputs, one, np.zeros((1, 1, 2)))[2].asnumpy().round(4).tolist()
    [[[[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]]]
    """

    sums_are_read = True
    """Whether anything else may read the sums; if not their gradient is 0."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        query, _, _, *_, y, sums, drawn, dy, dsums = inputs
        check_shape(query.shape, y=y, dy=dy)
        check_shape(query.shape[:3], sums=sums, drawn=drawn, dsums=dsums)
        return inputs[:3]

    def equation(self, *inputs: TensorSpec) -> Equation:
        given = (*self.labels(inputs[3:-5]), _QUERY, _ROWS, _ROWS, _QUERY, _ROWS)
        return Equation(given, (_QUERY, _KEY, _VALUE), frozenset({"k", "d"}), batch="b")

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        query, key, value, *masks, y, sums, drawn, dy, dsums = inputs
        has_sums = sums.dtype == dsums.dtype == sum_type(query.dtype)
        is_written = has_sums and is_written_attention(runtime, (query, key, value, *masks, y, dy, *outputs))
        wanted = runtime, self.attention_settings, (query, key, value, *masks, drawn), (y, sums)
        by_library = None if self.sums_are_read else library_gradients(*wanted, dy, outputs)
        bind = attention_gradients if is_written else gradients_head_by_head
        return by_library or bind(*wanted, (dy, dsums), outputs)
