"""Attention head by head: what it gives and its gradients are those of the formula with the matrix of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import ShapeError
from mpiparallel.graph.execution.random_stream import RandomStream, put_random_stream, random_stream
from mpiparallel.graph.execution.runtime import RandomState, Runtime
from mpiparallel.layout.box import Box
from mpiparallel.ops import operations as P

Array = Any
RANDOM = np.random.default_rng(2)
BATCH, HEADS, QUERIES, KEYS, DEPTH = 2, 3, 4, 5, 2
QUERY = RANDOM.normal(size=(BATCH, HEADS, QUERIES, DEPTH))
KEY, VALUE = RANDOM.normal(size=(2, BATCH, HEADS, KEYS, DEPTH))
SEEN = (RANDOM.random((BATCH, HEADS, QUERIES, KEYS)) < 0.6).astype(float)
SCALE, MASKED = 0.7, -3.0


def weights_of(query: Array, key: Array, mask: Array = 1.0, causal: bool = False) -> tuple[Array, Array]:
    scores = SCALE * np.einsum("bhqd,bhkd->bhqk", query, key) + (1.0 - mask) * MASKED
    powers = np.exp(scores) * (np.tri(*scores.shape[2:]) if causal else 1.0)
    sums = powers.sum(-1)
    return powers / sums[..., None], np.log(sums)


MASKS = {
    "of all": SEEN,
    "for each batch": SEEN[:, :1],
    "for each head": SEEN[:1],
    "one": SEEN[:1, 1:2],
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_mask_is_for_all_batches_and_heads_or_for_one_each(mask: Array) -> None:
    weights, sums = weights_of(QUERY, KEY, mask)
    y, found, _ = P.BlockedAttention(1.0, SCALE, MASKED)(QUERY, KEY, VALUE, mask)
    np.testing.assert_allclose(y.asnumpy(), weights @ VALUE, rtol=1e-12)
    np.testing.assert_allclose(found.asnumpy(), sums, rtol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_without_a_mask_a_query_sees_all_keys_or_those_up_to_its_place(causal: bool) -> None:
    weights, sums = weights_of(QUERY, KEY, causal=causal)
    y, found, _ = P.BlockedAttention(1.0, SCALE, is_causal=causal)(QUERY, KEY, VALUE)
    np.testing.assert_allclose(y.asnumpy(), weights @ VALUE, rtol=1e-12)
    np.testing.assert_allclose(found.asnumpy(), sums, rtol=1e-12)


def test_large_scores_give_numbers() -> None:
    y, sums, _ = P.BlockedAttention(1.0, 1.0)(QUERY * 1e6, KEY * 1e6, VALUE)
    largest = np.einsum("bhqd,bhkd->bhqk", QUERY * 1e6, KEY * 1e6)
    chosen = np.take_along_axis(VALUE, largest.argmax(-1)[..., None], 2)
    np.testing.assert_allclose(y.asnumpy(), chosen)
    np.testing.assert_allclose(sums.asnumpy(), largest.max(-1))


@pytest.mark.parametrize("mask", [*MASKS.values(), None], ids=[*MASKS, "none"])
def test_the_gradients_are_those_of_the_formula(mask: Array) -> None:
    given = (QUERY, KEY, VALUE) if mask is None else (QUERY, KEY, VALUE, mask)
    weights, _ = weights_of(QUERY, KEY, 1.0 if mask is None else mask)
    slope, of_sums = RANDOM.normal(size=QUERY.shape), RANDOM.normal(size=QUERY.shape[:3])
    outputs = P.BlockedAttention(1.0, SCALE, MASKED)(*given)
    found = P.BlockedAttentionGrad(1.0, SCALE, MASKED)(*given, *outputs, slope, of_sums)
    of_weights = np.einsum("bhqd,bhkd->bhqk", slope, VALUE)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True) + of_sums[..., None])
    wanted = (
        SCALE * np.einsum("bhqk,bhkd->bhqd", of_scores, KEY),
        SCALE * np.einsum("bhqk,bhqd->bhkd", of_scores, QUERY),
        np.einsum("bhqk,bhqd->bhkd", weights, slope),
    )
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.asnumpy(), other, rtol=1e-10, atol=1e-12)


def drawn(operator: P.BlockedAttention, *given: Array) -> list[Array]:
    before = random_stream()
    put_random_stream(RandomStream(seed=3))
    try:
        return [one.asnumpy() for one in operator(*given)]
    finally:
        put_random_stream(before)


def test_a_piece_of_the_batch_drops_what_the_whole_batch_drops_there() -> None:
    attend = P.BlockedAttention(0.5, SCALE)
    whole, sums, keys = drawn(attend, QUERY, KEY, VALUE)
    for piece in range(BATCH):
        rows = slice(piece, piece + 1)
        part, own, _ = drawn(attend.configured(piece=(piece, BATCH)), QUERY[rows], KEY[rows], VALUE[rows])
        np.testing.assert_allclose(part, whole[rows], rtol=1e-12)
        np.testing.assert_allclose(own, sums[rows], rtol=1e-12)
    # All have drawn by one key, which is that of nothing where nothing is dropped.
    assert len({*keys.ravel().tolist()}) == 1
    assert drawn(P.BlockedAttention(), QUERY, KEY, VALUE)[2].tolist() == np.zeros(QUERY.shape[:3]).tolist()


def test_what_is_dropped_counts_for_nothing_and_the_rest_is_divided_by_its_share() -> None:
    weights, _ = weights_of(QUERY, KEY)
    value = np.broadcast_to(np.eye(KEYS), (BATCH, HEADS, KEYS, KEYS)).copy()
    query, key = (np.pad(one, ((0, 0), (0, 0), (0, 0), (0, KEYS - DEPTH))) for one in (QUERY, KEY))
    kept = drawn(P.BlockedAttention(0.75, SCALE), query, key, value)[0] / weights
    is_kept = kept > 0.5
    np.testing.assert_allclose(kept, is_kept / 0.75, rtol=1e-12)
    assert 0 < is_kept.sum() < is_kept.size


@pytest.mark.parametrize(("dtype", "sums"), [(np.float16, np.float32), (np.float32, np.float32), (float, float)])
def test_sums_over_keys_are_as_wide_as_float32_at_least(dtype: Any, sums: Any) -> None:
    outputs = P.BlockedAttention()(*(one.astype(dtype) for one in (QUERY, KEY, VALUE)))
    assert [np.dtype(one.dtype) for one in outputs] == [np.dtype(one) for one in (dtype, sums, np.uint64)]


@pytest.mark.parametrize("sizes", [(0, 3, 4, 5, 2), (2, 0, 4, 5, 2), (2, 3, 0, 5, 2)])
def test_of_nothing_nothing_is_computed(sizes: tuple[int, ...]) -> None:
    batch, heads, queries, keys, depth = sizes
    query, key = np.ones((batch, heads, queries, depth)), np.ones((batch, heads, keys, depth))
    outputs = P.BlockedAttention()(query, key, key)
    assert [one.shape for one in outputs] == [query.shape, query.shape[:3], query.shape[:3]]
    found = P.BlockedAttentionGrad()(query, key, key, *outputs, query, query[..., 0])
    assert [one.asnumpy().tolist() for one in found[1:]] == [np.zeros_like(key).tolist()] * 2


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, np.dtype(float))


ROWS = spec(2, 3, 4)


@pytest.mark.parametrize(
    ("place", "wrong", "said"),
    [
        (1, spec(2, 3, 5, 4), "key has shape (2, 3, 5, 4); it must be (2, 3, 5, 2)"),
        (2, spec(2, 3, 4, 2), "value has shape (2, 3, 4, 2); it must be (2, 3, 5, 2)"),
        (3, spec(2, 3, 5, 2), "y has shape (2, 3, 5, 2); it must be (2, 3, 4, 2)"),
        (4, spec(2, 3, 4, 1), "sums has shape (2, 3, 4, 1); it must be (2, 3, 4)"),
        (5, spec(2, 3, 5), "drawn has shape (2, 3, 5); it must be (2, 3, 4)"),
        (6, spec(2, 3, 4), "dy has shape (2, 3, 4); it must be (2, 3, 4, 2)"),
        (7, spec(2, 4), "dsums has shape (2, 4); it must be (2, 3, 4)"),
    ],
)
def test_what_does_not_fit_is_named_with_the_shape_that_it_must_have(place: int, wrong: TensorSpec, said: str) -> None:
    whole = spec(2, 3, 4, 2)
    given = [whole, spec(2, 3, 5, 2), spec(2, 3, 5, 2), whole, ROWS, ROWS, whole, ROWS]
    infer = P.BlockedAttention().infer if place < 3 else P.BlockedAttentionGrad().infer
    assert infer(*(given[:3] if place < 3 else given))[0] == whole
    given[place] = wrong
    with pytest.raises(ShapeError) as caught:
        infer(*(given[:3] if place < 3 else given))
    assert str(caught.value) == said


@pytest.mark.parametrize(("causal", "keep_prob"), [(True, 1.0), (False, 0.5), (True, 0.5)])
def test_a_part_of_the_heads_and_queries_gives_what_the_whole_has_there(causal: bool, keep_prob: float) -> None:
    attend = P.BlockedAttention(keep_prob, SCALE, MASKED, causal)
    key, value, mask = KEY[:, :, :QUERIES], VALUE[:, :, :QUERIES], SEEN[..., :QUERIES]
    whole, sums, keys = drawn(attend, QUERY, key, value, mask)
    box = Box((1, 1, 2, 0), (2, 3, QUERIES, DEPTH))
    of_keys = Box((1, 1, 0, 0), (2, 3, QUERIES, DEPTH))
    parts = [Part(QUERY.shape, box), *[Part(key.shape, of_keys)] * 2]
    arrays = [QUERY[1:, 1:, 2:], key[1:, 1:], value[1:, 1:], mask[1:, 1:, 2:]]
    outputs = [np.zeros((1, 2, 2, DEPTH)), np.zeros((1, 2, 2)), np.zeros((1, 2, 2), np.uint64)]
    runtime = Runtime(random=RandomState(3, "draw 0"))
    kernel = attend.local(parts, []).kernel(runtime, arrays, outputs)
    runtime.numbers.bring()
    kernel()
    assert outputs[2].tolist() == keys[1:, 1:, 2:].tolist()
    np.testing.assert_allclose(outputs[0], whole[1:, 1:, 2:], rtol=1e-12)
    np.testing.assert_allclose(outputs[1], sums[1:, 1:, 2:], rtol=1e-12)


def test_the_gradients_are_cut_as_what_they_are_of() -> None:
    rows, query, key, mask = ("b", "h", "q"), ("b", "h", "q", "d"), ("b", "h", "k", "d"), ("b", None, "q", "k")
    given = [spec(2, 3, 1, 2), spec(2, 3, 5, 2), spec(2, 3, 5, 2)]
    others = [spec(2, 3, 1, 2), spec(2, 3, 1), spec(2, 3, 1), spec(2, 3, 1, 2), spec(2, 3, 1)]
    for masks, labels in (([], []), ([spec(2, 1, 1, 5)], [mask])):
        equation = P.BlockedAttentionGrad().equation(*given, *masks, *others)
        assert equation.inputs == (query, key, key, *labels, query, rows, rows, query, rows)
        assert (equation.outputs, equation.batch) == ((query, key, key), "b")
        assert [equation.allows(label, 2) for label in "bhqkd"] == [True, True, True, False, False]


def test_batch_heads_and_queries_are_cut_and_what_all_see_is_not() -> None:
    equation = P.BlockedAttention().equation(spec(2, 3, 4, 2), spec(2, 3, 5, 2), spec(2, 3, 5, 2), spec(2, 1, 4, 5))
    assert equation.inputs[3] == ("b", None, "q", "k")
    assert [equation.allows(label, 2) for label in ("k", "d")] == [False, False]
    assert equation.batch == "b"
    local = (
        P.BlockedAttention()
        .configured(piece=(1, 2))
        .local(
            [Part((2, 3, 4, 2), Box((1, 0, 2, 0), (2, 3, 4, 2))), Part((2, 3, 5, 2), Box((1, 0, 0, 0), (2, 3, 5, 2)))],
            [],
        )
    )
    assert local.part == Part((4, 3, 4, 5), Box((3, 0, 2, 0), (4, 3, 4, 5)))
