"""Cases of attention without the matrix of scores, and their formulas, which make that matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.backend.counter_random import RandomBox, stream_key
from mpiparallel.layout.box import Box
from mpiparallel.ops import operations as P
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_inputs import floats, integers

Array = Any


def attention_cases() -> list[OperatorCase]:
    """Return cases with a mask of each batch, with one for all and dropout, without one, and causal ones."""
    query, key, value = (floats(4, 2, length, 3, seed=seed) for seed, length in enumerate((6, 5, 5)))
    mask = (integers(4, 1, 6, 5, below=3) > 0).astype(np.float64)
    given = (query, key, value, mask)
    y, sums, drawn = _attended(P.BlockedAttention(1.0, 0.7, -3.0), *given)
    forward, backward = (lambda: P.BlockedAttention(1.0, 0.7, -3.0)), (lambda: P.BlockedAttentionGrad(1.0, 0.7, -3.0))
    slopes = floats(4, 2, 6, 3, seed=3), floats(4, 2, 6, seed=4)
    causal = {"scale": 0.7, "is_causal": True}
    return [
        OperatorCase("BlockedAttention-NoMask", lambda: P.BlockedAttention(1.0, 0.7), given[:3], (), (0, 1, 2), (0, 1)),
        OperatorCase("BlockedAttention-Causal", lambda: P.BlockedAttention(**causal), given[:3], (), (0, 1, 2)),
        OperatorCase(
            "BlockedAttentionGrad-Causal",
            lambda: P.BlockedAttentionGrad(**causal),
            (*given[:3], *_attended(P.BlockedAttention(**causal), *given[:3]), *slopes),
        ),
        OperatorCase("BlockedAttention", forward, given, (), (0, 1, 2), (0, 1)),
        OperatorCase(
            "BlockedAttention-Dropout", lambda: P.BlockedAttention(0.6), (*given[:3], mask[:1]), (), (0, 1, 2)
        ),
        OperatorCase("BlockedAttentionGrad", backward, (*given, y, sums, drawn, *slopes)),
    ]


def _weights(operator: Any, query: Array, key: Array, *masks: Array) -> tuple[Array, Array]:
    scores = operator.scale * query @ key.swapaxes(2, 3)
    for mask in masks:
        scores = scores + (1 - mask) * operator.masked
    if operator.is_causal:
        scores = np.where(np.tri(*scores.shape[2:]) > 0, scores, -np.inf)
    exponential = np.exp(scores)
    total = exponential.sum(-1, keepdims=True)
    return exponential / total, np.log(total)[..., 0]


def _attended(operator: Any, query: Array, key: Array, value: Array, *masks: Array) -> tuple[Array, Array, Array]:
    weights, sums = _weights(operator, query, key, *masks)
    drawn = np.zeros(query.shape[:3], np.uint64)
    if operator.keep_prob < 1:
        drawn[...] = stream_key(0, operator.scope, 0)
        kept = np.empty(weights.shape, bool)
        RandomBox(np, weights.shape, Box.whole(weights.shape)).keep(int(drawn[0, 0, 0]), operator.keep_prob, kept)
        weights = weights * kept / operator.keep_prob
    return weights @ value, sums, drawn


def _attended_gradient(operator: Any, *given: Array) -> tuple[Array, Array, Array]:
    query, key, value, *masks, _, _, _, dy, dsums = given
    weights, _ = _weights(operator, query, key, *masks)
    of_weights = dy @ value.swapaxes(2, 3)
    slopes = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True) + dsums[..., None])
    return slopes @ key * operator.scale, slopes.swapaxes(2, 3) @ query * operator.scale, weights.swapaxes(2, 3) @ dy


ATTENTION_FORMULAS = {"BlockedAttention": _attended, "BlockedAttentionGrad": _attended_gradient}
