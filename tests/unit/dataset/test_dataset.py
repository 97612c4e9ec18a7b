"""The operations of a pipeline against plain Python lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mpiparallel.dataset as ds
from mpiparallel.errors import DatasetError
from mpiparallel.graph.tensor import Tensor


def numbers(length: int) -> ds.Dataset:
    return ds.NumpySlicesDataset({"x": np.arange(length), "y": np.arange(length) * 10.0}, shuffle=False)


def xs(dataset: ds.Dataset, epoch: int = 0) -> list[Any]:
    return [row["x"].tolist() for row in dataset.iterate(epoch)]


@given(
    length=st.integers(1, 30),
    size=st.integers(1, 8),
    drop=st.booleans(),
    repeats=st.integers(1, 3),
    after=st.booleans(),
)
def test_batch_and_repeat_cut_the_rows_as_list_slices_do(
    length: int, size: int, drop: bool, repeats: int, after: bool
) -> None:
    def cut(rows: list[int]) -> list[list[int]]:
        batches = [rows[i : i + size] for i in range(0, len(rows), size)]
        return [batch for batch in batches if len(batch) == size or not drop]

    rows = list(range(length))
    expected = cut(rows) * repeats if after else cut(rows * repeats)
    dataset = numbers(length)
    dataset = dataset.batch(size, drop).repeat(repeats) if after else dataset.repeat(repeats).batch(size, drop)
    assert dataset.get_dataset_size() == len(expected)
    assert dataset.get_batch_size() == size
    if expected:
        assert xs(dataset) == expected
    elif after:
        with pytest.raises(DatasetError, match="no row before it to repeat"):
            xs(dataset)


@given(length=st.integers(1, 20), taken=st.integers(1, 25), passed=st.integers(0, 25))
def test_take_and_skip_cut_as_slices(length: int, taken: int, passed: int) -> None:
    rows = list(range(length))
    assert xs(numbers(length).take(taken).skip(passed)) == rows[:taken][passed:]
    assert xs(numbers(length).skip(passed).take(taken)) == rows[passed:][:taken]
    assert xs(numbers(length).take()) == rows


MAPS = [
    pytest.param({"input_columns": "y"}, lambda y: y + 1, ["x", "y"], [2.0, 21.0], id="in place"),
    pytest.param({}, lambda x: x + 1, ["x", "y"], [3.0, 20.0], id="the first column if none is named"),
    pytest.param(
        {"input_columns": ["x", "y"], "output_columns": "s"}, lambda x, y: x + y, ["s"], [22.0], id="two to one"
    ),
    pytest.param(
        {"input_columns": "y", "output_columns": ["a", "b"]},
        lambda y: (y, -y),
        ["a", "b", "x"],
        [20.0, -20.0, 2.0],
        id="one to two: outputs first",
    ),
    pytest.param(
        {"input_columns": "y", "output_columns": "z", "column_order": ["z", "x"]},
        lambda y: y,
        ["z", "x"],
        [20.0, 2.0],
        id="renamed and ordered",
    ),
    pytest.param({"input_columns": "y"}, [np.sqrt, np.negative], ["x", "y"], [2.0, -(20.0**0.5)], id="a list in turn"),
]


@pytest.mark.parametrize(("options", "operation", "columns", "expected"), MAPS)
def test_map_puts_outputs_where_mindspore_does(
    options: dict[str, Any], operation: Any, columns: list[str], expected: list[float]
) -> None:
    dataset = numbers(3).map(operation, **options)
    assert dataset.get_col_names() == columns
    row = list(dataset.iterate())[2]
    assert [row[column].tolist() for column in columns] == pytest.approx(expected)


def test_a_random_operation_gives_a_sample_the_same_value_in_any_shard_and_after_a_resume() -> None:
    class Noise:
        random = True

        def __call__(self, x: Any, generator: np.random.Generator) -> Any:
            return np.stack([x, generator.integers(1 << 40)])

    def noisy(**options: Any) -> ds.Dataset:
        return ds.NumpySlicesDataset(np.arange(9), "x", **options).map(Noise())

    whole = {tuple(row) for row in xs(noisy(), epoch=4)}
    shards = {tuple(row) for r in range(4) for row in xs(noisy(num_shards=4, shard_id=r), epoch=4)}
    assert whole == shards
    assert len({value for _, value in whole}) == 9
    assert [row["x"].tolist() for row in noisy().iterate(4, skip=5)] == xs(noisy(), epoch=4)[5:]
    assert whole.isdisjoint(map(tuple, xs(noisy(), epoch=5)))
    twice = xs(ds.NumpySlicesDataset(np.arange(9), "x", shuffle=False).repeat(2).map(Noise()))
    assert len({value for _, value in twice}) == 18


def test_project_and_rename_choose_order_and_names() -> None:
    dataset = numbers(2).rename(["x", "y"], ["y", "x"]).project(["x", "y"])
    assert dataset.get_col_names() == ["x", "y"]
    assert [list(map(float, row)) for row in dataset.create_tuple_iterator(num_epochs=1)] == [[0, 0], [10, 1]]


def test_shapes_and_types_are_those_of_the_first_batch() -> None:
    dataset = ds.NumpySlicesDataset((np.zeros((5, 2, 3), np.float32), np.zeros(5, np.int8)), ["a", "b"]).batch(4)
    assert dataset.output_shapes() == [[4, 2, 3], [4]]
    assert dataset.output_types() == [np.float32, np.int8]


def test_each_loop_over_an_iterator_is_the_next_epoch() -> None:
    dataset = ds.NumpySlicesDataset(np.arange(12), "x")
    iterator = dataset.create_dict_iterator(num_epochs=2, output_numpy=True)
    loops = [[int(row["x"]) for row in iterator] for _ in range(3)]
    assert loops == [xs(dataset, 0), xs(dataset, 1), []]
    assert [int(x) for (x,) in dataset] == xs(dataset, 0)


def test_iterators_give_tensors_unless_arrays_are_asked_for_or_it_is_text() -> None:
    dataset = ds.NumpySlicesDataset({"x": np.arange(2, dtype=np.float64), "t": ["a", "b"]}, shuffle=False)
    x, text = next(dataset.create_tuple_iterator())
    assert (type(x), x.dtype, x.asnumpy().tolist()) == (Tensor, np.float64, 0.0)
    assert (type(text), text.tolist()) == (np.ndarray, "a")
    named = next(dataset.create_dict_iterator())
    assert (type(named["x"]), type(named["t"])) == (Tensor, np.ndarray)
    assert [type(one) for one in next(iter(dataset))] == [Tensor, np.ndarray]
    arrays = [*next(dataset.create_tuple_iterator(output_numpy=True))]
    arrays += next(dataset.create_dict_iterator(output_numpy=True)).values()
    assert {type(one) for one in arrays} == {np.ndarray}


def test_text_of_different_lengths_can_be_batched() -> None:
    (batch,) = ds.NumpySlicesDataset((["a", "bcd"],), ["x"], shuffle=False).batch(2).iterate()
    assert batch["x"].tolist() == ["a", "bcd"]


def test_rows_given_out_are_not_views_that_change_the_next_ones() -> None:
    dataset = numbers(2)
    for row in dataset.iterate():
        row.clear()
    assert xs(dataset) == [0, 1]


def ragged() -> ds.Dataset:
    return ds.GeneratorDataset(lambda: iter([np.zeros((2, 3)), np.zeros((2, 4))]), "image")


def mixed() -> ds.Dataset:
    return ds.GeneratorDataset(lambda: iter([1, 2.0]), "label")


ERRORS = [
    (lambda: numbers(2).map(abs, "z"), r'map: there is no column "z"; the columns are x, y'),
    (lambda: numbers(2).map([]), "there is no operation"),
    (lambda: numbers(2).map([abs, 3]), "3 cannot be called"),
    (lambda: numbers(2).map(abs, "x", "y"), 'column "y" is named twice'),
    (lambda: xs(numbers(2).map(lambda x: (x, x))), r"map: <lambda> on x in row 0 gave 2 values for 1 output columns"),
    (lambda: xs(numbers(2).map(lambda x: 1 // int(x))), r"map: <lambda> on x in row 0: ZeroDivisionError"),
    (lambda: xs(numbers(2).map(lambda x: {1})), 'column "x": a set is no array of numbers or text'),
    (lambda: xs(numbers(2).map(lambda x: [[1], [1, 2]])), 'column "x": the value is no array'),
    (lambda: numbers(2).project("z"), r'project: there is no column "z"'),
    (lambda: numbers(2).project([]), "project: no column is named"),
    (lambda: numbers(2).rename("x", ["a", "b"]), "1 input_columns but 2 output_columns"),
    (lambda: numbers(2).rename("x", "y"), 'rename: column "y" is named twice'),
    (lambda: numbers(2).batch(0), "batch: batch_size is 0; give an integer of 1 or more"),
    (lambda: numbers(2).shuffle(0), "shuffle: buffer_size is 0"),
    (lambda: numbers(2).repeat(0), "repeat: count is 0"),
    (lambda: numbers(2).take(0), "take: count is 0"),
    (lambda: numbers(2).skip(-1), "skip: count is -1"),
    (lambda: numbers(2).repeat().get_dataset_size(), "never ends"),
    (lambda: xs(numbers(2).skip(2).repeat()), "no row before it to repeat"),
    (lambda: numbers(2).iterate(skip=3), "skip is 3, but an epoch has 2 rows"),
    (lambda: numbers(2).iterate(epoch=-1), "epoch is -1"),
    (lambda: numbers(2).skip(2).output_shapes(), "the dataset has no row"),
    (
        lambda: list(ragged().batch(2).iterate()),
        r'batch: column "image" has shape \(2, 3\) in row 0 and \(2, 4\) in row 1',
    ),
    (lambda: list(mixed().batch(2).iterate()), 'batch: column "label" is int64 in row 0 and float64 in row 1'),
    (lambda: ds.config.set_seed(-1), "seed is -1; give an integer from 0"),
    (lambda: ds.config.set_seed(True), "seed is True"),
]


@pytest.mark.parametrize(("act", "message"), ERRORS)
def test_a_mistake_is_named(act: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        act()


@pytest.mark.parametrize(("count", "told"), [(3, 3), (None, -1)])
def test_the_repeat_count_is_that_of_the_last_repeat(count, told) -> None:
    numbers = ds.NumpySlicesDataset(np.arange(4), "x")
    assert numbers.get_repeat_count() == 1
    assert numbers.repeat(2).repeat(count).batch(2).get_repeat_count() == told


def test_only_the_seeds_of_what_draws_are_told_the_last_of_them_first() -> None:
    def plain(x: Any) -> Any:
        return x + 1

    class Drawn:
        random = True

        def __call__(self, x: Any, generator: np.random.Generator) -> Any:
            return x + generator.integers(9)

    assert numbers(4).map(plain, "x").batch(2).seeds == ()
    ds.config.set_seed(6)
    shuffled = numbers(4).shuffle(4)
    ds.config.set_seed(7)
    assert shuffled.map(plain, "x").batch(2).seeds == (6,)
    assert shuffled.map([plain, Drawn()], "x").batch(2).seeds == (7, 6)


def test_without_a_word_it_is_the_first_epoch_and_iterators_go_on_for_ever() -> None:
    dataset = ds.NumpySlicesDataset(np.arange(12), "x")
    epochs = [xs(dataset, epoch) for epoch in range(4)]
    assert len({tuple(epoch) for epoch in epochs}) == 4
    assert [int(row["x"]) for row in dataset.iterate()] == epochs[0]
    assert [[int(x) for (x,) in dataset] for _ in range(2)] == [epochs[0]] * 2
    tuples, named = dataset.create_tuple_iterator(), dataset.create_dict_iterator()
    assert [[int(x) for (x,) in tuples] for _ in range(4)] == epochs
    assert [[int(row["x"]) for row in named] for _ in range(4)] == epochs
    for none in (dataset.create_tuple_iterator(num_epochs=0), dataset.create_dict_iterator(num_epochs=0)):
        assert list(none) == []


@pytest.mark.parametrize("prefetched", [0, 2])
def test_shapes_are_those_of_the_first_row_of_the_first_epoch_and_no_other_row_is_made(prefetched: int) -> None:
    made: list[int] = []
    before = ds.config.get_prefetch_size()
    ds.config.set_prefetch_size(prefetched)
    try:
        dataset = ds.NumpySlicesDataset(np.arange(1, 9), "x").map(lambda x: made.append(1) or np.zeros(int(x)))
        first = next(ds.NumpySlicesDataset(np.arange(1, 9), "x").iterate(0))["x"]
        assert dataset.output_shapes() == [[int(first)]]
        assert made == [1]
    finally:
        ds.config.set_prefetch_size(before)


@pytest.mark.parametrize(
    ("length", "size", "whole", "begun"),
    [(0, 3, 0, 0), (1, 3, 0, 1), (2, 3, 0, 1), (3, 3, 1, 1), (4, 3, 1, 2), (6, 3, 2, 2), (6, 1, 6, 6), (7, 2, 3, 4)],
)
def test_the_last_batch_counts_where_it_is_whole_or_need_not_be(length: int, size: int, whole: int, begun: int) -> None:
    assert (len(numbers(length).batch(size, True)), len(list(numbers(length).batch(size, True).iterate()))) == (
        whole,
    ) * 2
    assert (len(numbers(length).batch(size)), len(list(numbers(length).batch(size).iterate()))) == (begun,) * 2


@pytest.mark.parametrize(
    ("make", "seeds"),
    [
        (lambda: ds.NumpySlicesDataset([1], "x"), (4,)),
        (lambda: ds.NumpySlicesDataset([1], "x", shuffle=False), ()),
        (lambda: ds.NumpySlicesDataset([1], "x", sampler=[0]), ()),
        (lambda: ds.GeneratorDataset(lambda: iter([1]), "x"), ()),
        (lambda: ds.NumpySlicesDataset([1], "x").batch(1).shuffle(2).repeat(2).take(1).skip(0), (4, 4)),
        (lambda: ds.GeneratorDataset(lambda: iter([1]), "x").shuffle(2).rename("x", "y"), (4,)),
    ],
)
def test_seeds_are_those_of_what_shuffles(make: Any, seeds: tuple[int, ...]) -> None:
    ds.config.set_seed(4)
    assert make().seeds == seeds


def test_the_repeats_before_the_last_one_do_not_count_and_endless_ones_do() -> None:
    rows = numbers(4)
    assert rows.repeat(3).take(2).rename("x", "z").get_repeat_count() == 3
    assert rows.repeat().repeat(2).get_repeat_count() == 2
    assert rows.repeat(-1).batch(2).get_repeat_count() == -1
    assert (len(rows.repeat(2).repeat(3)), xs(rows.take(2).repeat(2).repeat(2))) == (24, [0, 1] * 4)
