"""The order of the samples: by seed, place and epoch only, whole over any shards, resumable anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mpiparallel.dataset as ds
from mpiparallel.dataset.order_stages import RepeatStage
from mpiparallel.dataset.random_key import RandomKey

lengths = st.integers(1, 40)
epochs = st.integers(0, 5)


def values(dataset: ds.Dataset, epoch: int = 0, skip: int = 0) -> list[object]:
    return [row["x"].tolist() for row in dataset.iterate(epoch, skip)]


def numbers(length: int, **options: object) -> ds.Dataset:
    return ds.NumpySlicesDataset(np.arange(length), "x", **options)


def ascending(length: int) -> ds.Dataset:
    def source() -> Iterator[int]:
        yield from range(length)

    return ds.GeneratorDataset(source, "x")


PIPELINES: dict[str, Callable[[int], ds.Dataset]] = {
    "in order": lambda n: numbers(n, shuffle=False),
    "full permutation": numbers,
    "shard": lambda n: numbers(n, num_shards=3, shard_id=1),
    "iterable": ascending,
    "buffered shuffle": lambda n: ascending(n).shuffle(4),
    "shuffle, repeat, batch": lambda n: numbers(n).shuffle(3).repeat(2).batch(3),
    "batch, repeat": lambda n: numbers(n).batch(3).repeat(3),
    "map, skip, take": lambda n: numbers(n).map(lambda x: x * 2).skip(1).take(7),
    "endless, taken": lambda n: numbers(n).repeat().take(n + 5).batch(4),
    "rename, project": lambda n: numbers(n).rename("x", "y").rename("y", "x").project("x"),
}


@pytest.mark.parametrize("said", [False, np.False_, 0])
def test_samples_stay_in_order_where_shuffling_is_denied(said: object) -> None:
    assert values(numbers(40, shuffle=said)) == list(range(40))
    assert values(numbers(40, shuffle=not said)) != list(range(40))


@pytest.mark.parametrize("name", PIPELINES)
@given(length=lengths, epoch=epochs, data=st.data())
@settings(max_examples=25)
def test_an_epoch_resumed_in_the_middle_equals_the_uninterrupted_one(
    name: str, length: int, epoch: int, data: st.DataObject
) -> None:
    dataset = PIPELINES[name](length)
    whole = values(dataset, epoch)
    skip = data.draw(st.integers(0, len(whole)))
    assert values(dataset, epoch, skip) == whole[skip:]


@pytest.mark.parametrize("name", PIPELINES)
@given(length=lengths, epoch=epochs)
@settings(max_examples=15)
def test_the_size_is_the_number_of_rows_of_any_epoch(name: str, length: int, epoch: int) -> None:
    dataset = PIPELINES[name](length)
    assert dataset.get_dataset_size() == len(dataset) == len(values(dataset, epoch))


@given(length=lengths, shards=st.integers(1, 9), epoch=epochs, shuffle=st.booleans())
def test_the_shards_together_are_the_unsharded_order_with_its_start_repeated_to_come_out_even(
    length: int, shards: int, epoch: int, shuffle: bool
) -> None:
    whole = values(numbers(length, shuffle=shuffle), epoch)
    parts = [values(numbers(length, shuffle=shuffle, num_shards=shards, shard_id=r), epoch) for r in range(shards)]
    share = -(-length // shards)
    assert {len(part) for part in parts} == {share}
    dealt = [parts[i % shards][i // shards] for i in range(share * shards)]
    assert dealt == [whole[i % length] for i in range(share * shards)]


@given(length=st.integers(1, 200), epoch=epochs, buffer_size=st.integers(1, 50))
@settings(max_examples=40)
def test_shuffling_loses_and_doubles_nothing(length: int, epoch: int, buffer_size: int) -> None:
    assert sorted(values(numbers(length), epoch)) == list(range(length))
    assert sorted(values(ascending(length).shuffle(buffer_size), epoch)) == list(range(length))


@pytest.mark.parametrize("make", [lambda: numbers(50), lambda: ascending(50).shuffle(50)])
def test_the_order_changes_with_seed_and_epoch_and_with_nothing_else(make: Callable[[], ds.Dataset]) -> None:
    ds.config.set_seed(7)
    first = make()
    orders = [values(first, epoch) for epoch in range(3)]
    ds.config.set_seed(8)
    orders.append(values(make()))
    assert len({tuple(order) for order in orders}) == 4
    ds.config.set_seed(7)
    assert values(make()) == values(first) == orders[0]


def test_two_shuffles_in_one_pipeline_draw_differently() -> None:
    once = ascending(64).shuffle(64)
    order = values(once)
    twice = values(once.shuffle(64))
    assert twice != [order[i] for i in order]


def test_a_buffered_shuffle_moves_no_row_forward_beyond_its_buffer() -> None:
    order = values(ascending(300).shuffle(10))
    assert all(order[i] < i + 10 for i in range(300))


def test_each_pass_of_repeat_is_shuffled_anew_and_differs_from_epoch_to_epoch() -> None:
    dataset = numbers(30).repeat(2)
    passes = [tuple(values(dataset, epoch)[start : start + 30]) for epoch in range(2) for start in (0, 30)]
    assert len(set(passes)) == 4


def test_each_row_of_each_pass_of_nested_repeats_has_random_numbers_of_its_own() -> None:
    pipeline = RepeatStage(RepeatStage(numbers(64)._stage, 2), 3)
    assert len({row.number for row in pipeline.rows(0, 0)}) == 64 * 2 * 3


def test_the_order_is_the_same_on_every_machine() -> None:
    assert RandomKey(seed=5489, place=0).permutation(epoch=0, length=8).tolist() == [3, 7, 2, 1, 6, 0, 5, 4]


@pytest.mark.parametrize("length", [0, 1, 1025])
def test_a_permutation_has_every_index_once(length: int) -> None:
    assert sorted(RandomKey(1, 0).permutation(3, length)) == list(range(length))


def test_every_place_and_sample_has_random_numbers_of_its_own() -> None:
    addresses = [
        (seed, place, epoch, index) for seed in (0, 1) for place in (0, 1) for epoch in (0, 1) for index in (0, 1)
    ]
    draws = {RandomKey(seed, place).generator(epoch, index).random() for seed, place, epoch, index in addresses}
    assert len(draws) == len(addresses)


def test_words_are_one_stream_over_its_blocks() -> None:
    words = list(islice(RandomKey(1, 2).words(3), 3000))
    assert len(set(words)) == 3000
    assert words == list(islice(RandomKey(1, 2).words(3), 3000))


@pytest.mark.parametrize(("length", "buffer_size"), [(1, 1), (7, 1), (7, 3), (7, 7), (7, 9), (40, 10)])
def test_a_row_is_drawn_from_the_buffer_and_the_next_takes_its_place_or_at_the_end_the_last(
    length: int, buffer_size: int
) -> None:
    ds.config.set_seed(11)
    for epoch in (0, 3):
        words = np.random.Philox(key=np.uint64([11, epoch]), counter=np.uint64([0, 0, 0, 1])).random_raw(length)
        rest = list(range(length))
        buffer, rest = rest[:buffer_size], rest[buffer_size:]
        expected = []
        for word in words.tolist():
            place = word % len(buffer)
            expected.append(buffer[place])
            buffer[place] = rest.pop(0) if rest else buffer[-1]
            if len(expected) + len(buffer) + len(rest) > length:
                buffer.pop()
        assert values(ascending(length).shuffle(buffer_size), epoch) == expected
