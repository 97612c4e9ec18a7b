"""Random numbers come from their address alone, by Philox as NumPy has it, at each place of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.dataset.random_key import RandomKey


def philox(seed: int, epoch: int, index: int, place: int) -> np.random.Philox:
    """Return the bits of an address: seed and epoch are the key, index and place the high words of the counter."""
    key = np.array([seed, epoch], np.uint64)
    return np.random.Philox(key=key, counter=np.array([0, 0, index, place], np.uint64))


@pytest.mark.parametrize(("seed", "place", "epoch"), [(1, 0, 0), (2**32 - 1, 3, 7), (5489, 1, 2**32)])
def test_orders_words_and_numbers_are_those_of_their_address(seed: int, place: int, epoch: int) -> None:
    key = RandomKey(seed, place)
    words = philox(seed, epoch, 0, place).random_raw(2500)
    assert list(islice(key.words(epoch), 2500)) == words.tolist()
    assert key.permutation(epoch, 40).tolist() == np.argsort(words[:40]).tolist()
    generator = np.random.Generator(philox(seed, epoch, 9, place))
    assert key.generator(epoch, 9).random() == generator.random()


class Noise:
    random = True

    def __call__(self, x: Any, generator: np.random.Generator) -> Any:
        return np.full(np.shape(x), generator.random())


def values(dataset: ds.Dataset, epoch: int = 0) -> list[Any]:
    return [row["x"].tolist() for row in dataset.iterate(epoch)]


def numbers(length: int, **options: Any) -> ds.Dataset:
    return ds.NumpySlicesDataset(np.arange(length), "x", **options)


STEPS: dict[str, Callable[[ds.Dataset], ds.Dataset]] = {
    "take": lambda data: data.take(3),
    "skip": lambda data: data.skip(2),
    "project": lambda data: data.project("x"),
    "rename": lambda data: data.rename("x", "x"),
    "map": lambda data: data.map(lambda x: x, "x"),
    "batch": lambda data: data.batch(2),
    "shuffle": lambda data: data.shuffle(1),
    "repeat": lambda data: data.repeat(1),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("times", [0, 1, 2])
def test_an_operation_draws_by_the_steps_before_it_and_by_the_row(step: str, times: int) -> None:
    ds.config.set_seed(77)
    dataset = numbers(12, shuffle=False)
    for _ in range(times):
        dataset = STEPS[step](dataset)
    first = next(iter(dataset.iterate(4)))["x"]
    # A batch has the number of its first row.
    number = int(first.reshape(-1)[0])
    drawn = np.random.Generator(philox(77, 4, number, 1 + times)).random()
    assert next(iter(dataset.map(Noise(), "x").iterate(4)))["x"].reshape(-1)[0] == drawn


@pytest.mark.parametrize("step", STEPS)
def test_a_batch_stays_as_large_through_each_step(step: str) -> None:
    assert STEPS[step](numbers(12)).get_batch_size() == (2 if step == "batch" else 1)
    after = STEPS[step](numbers(12).batch(3))
    assert after.get_batch_size() == (2 if step == "batch" else 3)
    assert after.batch(5).get_batch_size() == 5


@pytest.mark.parametrize("epoch", [0, 3])
def test_passes_of_an_epoch_are_epochs_that_follow_one_another(epoch: int) -> None:
    once = numbers(30)
    assert values(once.repeat(2), epoch) == values(once, 2 * epoch) + values(once, 2 * epoch + 1)
    endless = values(once.repeat().take(60), epoch)
    assert endless == values(once, epoch << 32) + values(once, (epoch << 32) + 1)


def test_a_row_that_comes_again_draws_anew_in_each_pass() -> None:
    ds.config.set_seed(3)
    found = values(numbers(2, shuffle=False).repeat(3).map(Noise(), "x"))
    expected = [
        np.random.Generator(philox(3, 0, row + (turn << 40), 2)).random() for turn in range(3) for row in range(2)
    ]
    assert found == expected


@pytest.mark.parametrize("between", [lambda data: data, lambda data: data.take(4), lambda data: data.batch(1)])
def test_a_row_that_is_repeated_twice_draws_anew_in_each_of_all_passes(
    between: Callable[[ds.Dataset], ds.Dataset],
) -> None:
    repeated = between(numbers(2, shuffle=False).repeat(2)).repeat(3).map(Noise(), "x")
    assert len(set(np.ravel(values(repeated)).tolist())) == 12


def test_passes_of_passes_are_numbered_in_turn() -> None:
    ds.config.set_seed(3)
    found = values(numbers(1).repeat(2).repeat(2).repeat(2).map(Noise(), "x"))
    expected = [np.random.Generator(philox(3, 0, turn << 40, 4)).random() for turn in range(8)]
    assert found == expected


@pytest.mark.parametrize(
    ("make", "stacked"),
    [
        (lambda: numbers(7), [None] * 7),
        (lambda: numbers(7).batch(3), [3, 3, 1]),
        (lambda: numbers(7).batch(3).rename("x", "y").repeat(2), [3, 3, 1] * 2),
        (lambda: numbers(7).batch(3).map(lambda x: x, "x"), [None] * 3),
        (lambda: numbers(7).batch(3).skip(1).take(1).shuffle(2), [3]),
    ],
)
def test_how_many_rows_a_batch_has_is_known_before_it_is_read(
    make: Callable[[], ds.Dataset], stacked: list[int | None]
) -> None:
    assert list(make().stacked_rows(0, 0)) == stacked
    assert list(make().stacked_rows(0, 1)) == stacked[1:]


def test_a_map_that_leaves_a_column_alone_keeps_the_count_of_rows() -> None:
    pairs = ds.NumpySlicesDataset({"x": np.arange(5), "y": np.arange(5)}, shuffle=False).batch(2)
    assert list(pairs.map(lambda x: x, "x").stacked_rows(0, 0)) == [2, 2, 1]
