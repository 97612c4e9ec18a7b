"""How the CUDA texts that are written by hand are launched: blocks, threads and numbers, without a device."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.tensor_spec import Part
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.written_kernels.attention import (
    AttentionSettings,
    attention,
    attention_gradients,
    is_written_attention,
    tile_of,
)
from mpiparallel.graph.written_kernels.cross_entropy import row_losses
from mpiparallel.graph.written_kernels.random_mask import dropout
from mpiparallel.graph.written_kernels.row_picks import (
    can_pick,
    hot_elements,
    picked_elements,
    picked_rows,
    spread_elements,
)
from mpiparallel.graph.written_kernels.row_sums import row_sums
from mpiparallel.graph.written_kernels.tensor_core_text import has_tensor_cores
from mpiparallel.graph.written_kernels.word_sums import BLOCKS, byte_sums
from mpiparallel.layout.box import Box

Array = Any
HALF, SINGLE, DOUBLE = (np.dtype(one) for one in (np.float16, np.float32, np.float64))


class Binding(NumpyBackend):
    """It writes down with what texts are bound: text, blocks, threads, and what is no array of their arguments."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, int, int, list[float]]] = []
        self.kernels: Any = SimpleNamespace(bind=self.bind)

    def bind(self, _name: str, text: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> Any:
        numbers = [float(one) for one in arguments if isinstance(one, np.generic)]
        self.bound.append((text, blocks, threads, numbers))
        return lambda: None


@pytest.fixture
def backend() -> Binding:
    return Binding()


def aligned(shape: tuple[int, ...], dtype: Any = SINGLE, behind: int = 0) -> Array:
    """Return an array that begins so many bytes behind a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 128, np.uint8)
    first = -memory.ctypes.data % 64 + behind
    return memory[first : first + size].view(dtype).reshape(shape)


SCORES = Part((4, 6, 70, 50), Box((2, 3, 10, 0), (4, 6, 43, 50)))
SETTINGS = AttentionSettings(0.5, -3.0, 0.75, SCORES)


@pytest.mark.parametrize(
    ("depth", "dtype", "behind", "rows", "threads"),
    [
        (64, SINGLE, 0, 32, 128),
        (64, DOUBLE, 0, 16, 64),
        (128, SINGLE, 0, 16, 64),
        (64, HALF, 0, 64, 128),
        (128, bfloat16, 0, 64, 128),
        (64, HALF, 8, 32, 128),
        (72, HALF, 0, 32, 128),
        (144, HALF, 0, 16, 64),
    ],
)
def test_a_block_of_attention_has_a_tile_of_queries_by_tensor_cores_where_addresses_and_depths_allow(
    backend: Binding, depth: int, dtype: Any, behind: int, rows: int, threads: int
) -> None:
    batch, heads, queries, keys = 2, 3, 33, 50
    query, output = (aligned((batch, heads, queries, depth), dtype, behind) for _ in range(2))
    key, value = (aligned((batch, heads, keys, depth), dtype) for _ in range(2))
    mask = aligned((1, heads, queries, keys), dtype)
    drawn = np.zeros((batch, heads, queries), np.uint64)
    sums = aligned((batch, heads, queries), DOUBLE if dtype == DOUBLE else SINGLE)
    attention(Runtime(backend), SETTINGS, (query, key, value, mask, drawn), output, sums)
    ((text, blocks, found, numbers),) = backend.bound
    assert (blocks, found) == (batch * heads * -(-queries // rows), threads)
    shapes = [heads, queries, keys, 0, queries * keys]
    drop = [0.75 * 2**32, 1 / 0.75]
    assert numbers == [*shapes, 0.5, -3.0, *drop, 2, 3, 10, 6, 70]
    assert ("mma.sync" in text) == (rows == 64)


def test_attention_without_a_mask_or_dropout_says_so(backend: Binding) -> None:
    query, key, value, output = (aligned((1, 2, 8, 16)) for _ in range(4))
    drawn, sums = np.zeros((1, 2, 8), np.uint64), aligned((1, 2, 8))
    part = Part.whole((1, 2, 8, 8))
    whole = replace(SETTINGS, keep_prob=1.0, part=part)
    for settings in (whole, replace(whole, is_causal=True), replace(whole, keep_prob=0.5)):
        attention(Runtime(backend), settings, (query, key, value, drawn), output, sums)
    texts = [text for text, *_ in backend.bound]
    assert len({*texts}) == 3
    assert backend.bound[0][3] == [2, 8, 8, 0, 0, 0.5, -3.0, 2**32 - 1, 1.0, 0, 0, 0, 2, 8]


def test_of_the_gradients_of_attention_that_of_queries_has_blocks_of_queries_and_the_others_of_keys(
    backend: Binding,
) -> None:
    queries, keys = ((2, 3, 33, 64), (2, 3, 130, 64))
    query, y, slope, of_query = (aligned(queries) for _ in range(4))
    key, value, of_key, of_value = (aligned(keys) for _ in range(4))
    drawn, sums, of_sums = np.zeros((2, 3, 33), np.uint64), aligned((2, 3, 33)), aligned((2, 3, 33))
    given, outputs = (query, key, value, drawn), (of_query, of_key, of_value)
    attention_gradients(Runtime(backend), SETTINGS, given, (y, sums), (slope, of_sums), outputs)
    products, by_queries, by_keys = backend.bound
    assert [one[1:3] for one in (by_queries, by_keys)] == [(6 * 2, 128), (6 * 5, 128)]
    assert by_queries[3][:3] == by_keys[3][:3] == [3, 33, 130]
    # Sums over 64 numbers of each of 198 rows, by four warps a block.
    assert products[1:3] == (50, 128)


@pytest.mark.parametrize(
    ("arrays", "written"),
    [
        ([aligned((1, 1, 4, 64))] * 2, True),
        ([aligned((1, 1, 4, 64)), aligned((1, 1, 4, 64), HALF)], False),
        ([aligned((1, 1, 4, 64)), aligned((1, 1, 0, 64))], False),
        ([aligned((1, 1, 4, 1000))], False),
        ([aligned((1, 1, 4, 64), np.int32)], False),
    ],
)
def test_a_device_attends_to_arrays_of_one_type_whose_heads_are_not_too_deep(
    backend: Binding, arrays: list[Array], written: bool
) -> None:
    assert is_written_attention(Runtime(backend), arrays) == written
    assert not is_written_attention(Runtime(), arrays)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_a_tile_is_the_largest_of_which_all_fits_into_48_kib(dtype: Any) -> None:
    def needed(tile: int, depth: int) -> int:
        # Four tiles of rows, and two of scores, each line with one element more.
        return dtype.itemsize * (4 * tile * (depth + 1) + 2 * tile * (tile + 1))

    for depth in range(1, 400):
        fitting = [tile for tile in (32, 16, 8) if needed(tile, depth) <= 48 * 1024]
        assert tile_of(depth, dtype) == max(fitting, default=0)


@pytest.mark.parametrize(
    ("classes", "blocks", "threads"), [(10, 3, 128), (1024, 3, 128), (1025, 9, 256), (5000, 9, 256)]
)
def test_a_warp_takes_a_row_of_few_classes_and_a_block_one_of_many(
    backend: Binding, classes: int, blocks: int, threads: int
) -> None:
    row_losses(Runtime(backend), aligned((9, classes)), np.zeros(9, np.int32), np.zeros(9), share=0.25)
    ((text, *found, numbers),) = backend.bound
    assert (found, numbers) == ([blocks, threads], [9, classes, 0.25])
    assert ("return over_block<F, 256, Wide>(x, none);" in text) == (threads == 256)
    assert ("return over_warp<F>(x);" in text) == (threads == 128)
    assert "if (1 && lane == 0) losses[row]" in text
    assert "if (!0) return;" in text


@pytest.mark.parametrize(
    ("count", "blocks"),
    [
        (1, [(1, 128), (1, 128), (1, 128)]),
        (129, [(3, 128), (3, 128), (2, 128)]),
        (1 << 14, [(256, 128), (256, 128), (128, 128)]),
        # Sorted by four bits at a time: rows up to 300 need three passes, each of three launches.
        ((1 << 14) + 1, [(257, 128), (257, 128), *[(5, 256), (1, 256), (5, 256)] * 3]),
    ],
)
def test_sums_of_rows_are_made_of_pieces_of_64_sorted_places(
    backend: Binding, count: int, blocks: list[tuple[int, int]]
) -> None:
    row_sums(
        Runtime(backend), np.zeros(count, np.int64), np.zeros((count, 1), np.float32), np.zeros((300, 1), np.float32)
    )
    assert [(one[1], one[2]) for one in backend.bound] == blocks


@pytest.mark.parametrize(
    ("shape", "axis", "behind", "unit", "inner"),
    [
        ((5, 8), 0, 0, "Vector<unsigned, 4>", 2),
        ((5, 8), 0, 8, "unsigned long long", 4),
        ((5, 8), 0, 4, "unsigned", 8),
        ((5, 6), 0, 0, "unsigned long long", 3),
        ((2, 5, 3), 1, 0, "unsigned", 3),
        ((2, 5), 1, 0, "unsigned", 1),
    ],
)
def test_rows_are_picked_by_as_many_bytes_as_rows_and_addresses_allow(
    backend: Binding, shape: tuple[int, ...], axis: int, behind: int, unit: str, inner: int
) -> None:
    table, indices = aligned(shape, SINGLE, behind), np.zeros(700, np.int32)
    target = aligned((*shape[:axis], 700, *shape[axis + 1 :]))
    picked_rows(Runtime(backend), table, indices, target, axis, 3)
    ((text, blocks, threads, numbers),) = backend.bound
    outer = int(np.prod(shape[:axis]))
    count = outer * 700 * inner
    assert numbers == [5, 700, inner, 3, count]
    assert (blocks, threads) == (-(-count // 256), 256)
    assert f"typedef {unit} Unit;" in text
    assert "const int* __restrict__ indices" in text


def test_elements_are_picked_and_spread_by_one_thread_each(backend: Binding) -> None:
    x, indices, given, target = aligned((300, 7)), np.zeros(300, np.int64), aligned((300,)), aligned((300, 7))
    picked_elements(Runtime(backend), x, indices, given, 2)
    spread_elements(Runtime(backend), given, indices, target, 2)
    hot_elements(Runtime(backend), indices, [given[:1], given[:1]], target, 2)
    assert [one[1:] for one in backend.bound] == [
        (2, 256, [7, 1, 1, 2, 300]),
        (9, 256, [7, 2, 2100]),
        (9, 256, [7, 2, 2100]),
    ]


@pytest.mark.parametrize(
    ("indices", "array", "can"),
    [
        (np.zeros(3, np.int32), np.zeros((3, 2)), True),
        (np.zeros(3, np.uint8), np.zeros((3, 2), np.int8), True),
        (np.zeros(3), np.zeros((3, 2)), False),
        (np.zeros(3, np.bool_), np.zeros((3, 2)), False),
        (np.zeros(3, np.int32), np.zeros((2, 3)).T, False),
        (np.zeros(6, np.int32)[::2], np.zeros((3, 2)), False),
        (np.zeros(3, np.int32), np.zeros((0, 2)), False),
        (np.zeros(3, np.int32), np.zeros(3, np.complex128), False),
    ],
)
def test_what_is_picked_has_elements_in_c_order_and_indices_that_are_integers(
    backend: Binding, indices: Array, array: Array, can: bool
) -> None:
    assert can_pick(Runtime(backend), indices, array) == can
    assert not can_pick(Runtime(), indices, array)


def test_dropout_is_told_its_place_in_the_whole(backend: Binding) -> None:
    x, y, mask = aligned((2, 300)), aligned((2, 300)), np.zeros((2, 300), np.bool_)
    dropout(Runtime(backend), 0.25, (4, 1000), Box((1, 200), (3, 500)), np.zeros(1, np.uint64), [x, y, mask])
    ((text, blocks, threads, numbers),) = backend.bound
    assert (blocks, threads, numbers) == (3, 256, [2**30, 4.0, 600, 300, 2])
    assert "index = 1200ull;" in text
    assert "(rest % n0) * 1000ull;" in text
    dropout(Runtime(backend), 0.5, (), Box((), ()), np.zeros(1, np.uint64), [x[0, :1], y[0, :1], mask[0, :1]])
    assert "long long count, long long) {" in backend.bound[1][0]
    assert backend.bound[1][1:] == (1, 256, [2**31, 2.0, 1, 0])


@pytest.mark.parametrize(
    ("size", "behind", "words"),
    [(4, 0, 1), (1024, 0, 256), (1028, 4, 257), (1 << 20, 0, 1 << 18), (7, 0, 7), (258, 0, 258), (1024, 2, 1024)],
)
def test_sums_of_a_message_have_a_block_for_each_256_words_of_four_bytes_where_all_are_whole(
    backend: Binding, size: int, behind: int, words: int
) -> None:
    byte_sums(Runtime(backend), aligned((size,), np.uint8, behind), np.zeros(BLOCKS, np.uint64))
    ((_, found, threads, numbers),) = backend.bound
    blocks = min(-(-words // 256), 128)
    assert (found, threads, numbers) == (blocks, 256, [words, blocks])


@pytest.mark.parametrize(
    ("dtype", "allows_tf32", "has"),
    [
        (HALF, False, True),
        (bfloat16, False, True),
        (SINGLE, False, False),
        (SINGLE, True, True),
        (DOUBLE, True, False),
        (np.int16, True, False),
    ],
)
def test_tensor_cores_multiply_floats_of_16_bits_and_by_tf32_those_of_32(
    dtype: Any, allows_tf32: bool, has: bool
) -> None:
    assert has_tensor_cores(np.dtype(dtype), allows_tf32) == has
