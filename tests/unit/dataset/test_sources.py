"""The kinds of sources, and what is refused of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.context.simulation import Simulation, simulating
from mpiparallel.errors import DatasetError


class Squares:
    def __init__(self, length: int) -> None:
        self.length = length
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[int, int]:
        self.read.append(index)
        return index, index * index


class Restarting:
    """An iterable that is its own iterator and starts again, as MindSpore's tutorials write it."""

    def __iter__(self) -> Restarting:
        self.left = 3
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


class Exhausted:
    def __init__(self) -> None:
        self.rows = iter([1, 2])

    def __iter__(self) -> Iterator[int]:
        return self.rows


def xs(dataset: ds.Dataset, epoch: int = 0, skip: int = 0) -> list[Any]:
    return [row["x"].tolist() for row in dataset.iterate(epoch, skip)]


def test_functions_iterables_and_random_access_sources_give_the_same_rows() -> None:
    def function() -> Iterator[int]:
        yield from (2, 1, 0)

    sources: list[Any] = [function, Restarting(), {2: None, 1: None, 0: None}.keys(), [2, 1, 0], np.array([2, 1, 0])]
    for source in sources:
        dataset = ds.GeneratorDataset(source, ["x"], shuffle=False)
        assert xs(dataset) == xs(dataset, epoch=1) == [2, 1, 0]
        assert xs(ds.GeneratorDataset(source, "x", shuffle=False, num_samples=2)) == [2, 1]
        assert dataset.get_dataset_size() == 3


def test_a_resume_does_not_read_the_samples_before_it() -> None:
    source = Squares(1000)
    dataset = ds.GeneratorDataset(source, ["x", "y"]).map(np.negative, "x").batch(10)
    assert len(list(dataset.iterate(epoch=2, skip=98))) == 2
    assert len(source.read) == 20


def test_random_access_sources_are_shuffled_unless_told_otherwise() -> None:
    rows = list(range(50))
    assert xs(ds.GeneratorDataset(Squares(50), ["x", "y"])) != rows
    assert xs(ds.GeneratorDataset(Squares(50), ["x", "y"], shuffle=True)) != rows
    assert xs(ds.GeneratorDataset(Squares(50), ["x", "y"], shuffle=False)) == rows
    assert xs(ds.GeneratorDataset(Squares(50), ["x", "y"], sampler=rows[::-2])) == rows[::-2]
    assert xs(ds.GeneratorDataset(Squares(50), ["x", "y"], sampler=np.array(rows[::-2]))) == rows[::-2]


def test_num_samples_limits_each_shard() -> None:
    dataset = ds.NumpySlicesDataset(np.arange(10), "x", num_samples=2, num_shards=2, shard_id=1, shuffle=False)
    assert xs(dataset) == [1, 3]


@pytest.mark.parametrize(
    ("data", "names", "expected"),
    [
        ({"a": [1, 2], "b": [3, 4]}, None, {"a": 1, "b": 3}),
        (([1, 2], [3, 4]), None, {"column_0": 1, "column_1": 3}),
        (np.array([[1, 2], [3, 4]]), "x", {"x": [1, 2]}),
        ([1, 2], ["x"], {"x": 1}),
    ],
)
def test_numpy_slices_reads_dicts_tuples_and_arrays(data: Any, names: Any, expected: dict[str, Any]) -> None:
    row = next(ds.NumpySlicesDataset(data, names, shuffle=False).iterate())
    assert {column: array.tolist() for column, array in row.items()} == expected


def squares(**options: Any) -> ds.Dataset:
    return ds.GeneratorDataset(Squares(4), ["x", "y"], **options)


ERRORS = [
    (lambda: xs(ds.GeneratorDataset(Squares(4), "x")), "row .* has 2 values, but there are 1 columns"),
    (lambda: xs(squares(column_types=[np.int64, np.int32])), 'column "y" is int64, but column_types says int32'),
    (lambda: squares(column_types=[np.int64]), "1 column_types for 2 columns"),
    (lambda: ds.GeneratorDataset(Squares(4)), "column_names is missing"),
    (lambda: ds.GeneratorDataset(Squares(4), ["x", "x"]), 'column "x" is named twice'),
    (lambda: squares(schema="s.json"), "schema is not supported"),
    (lambda: squares(num_shards=2), "num_shards is 2 and shard_id is None; give both"),
    (lambda: squares(num_shards=2, shard_id=2), "shard_id is 2, but num_shards is 2; give 0 to 1"),
    (lambda: squares(num_shards=0, shard_id=0), "num_shards is 0"),
    (lambda: squares(num_samples=0), "num_samples is 0"),
    (lambda: squares(sampler=[1], shuffle=True), "sampler stands beside shuffle"),
    (lambda: squares(sampler=iter([1])), "sampler is an iterator"),
    (lambda: xs(squares(sampler=[1, 4])), "the sampler gave index 4; give indices from 0 to 3"),
    (lambda: ds.GeneratorDataset((i for i in range(3)), "x"), "source is a generator, used up after one epoch"),
    (lambda: ds.GeneratorDataset(3, "x"), "source is a int; give a function"),
    (lambda: ds.GeneratorDataset(Restarting(), "x", shuffle=True), "shuffle needs a source with __getitem__"),
    (lambda: ds.GeneratorDataset(Restarting(), "x", num_shards=2, shard_id=0), "num_shards needs a source"),
    (lambda: ds.GeneratorDataset(Restarting(), "x", num_samples=0), "num_samples is 0"),
    (lambda: ds.NumpySlicesDataset(([1, 2], [1])), r"the shapes are column_0 \(2,\), column_1 \(1,\)"),
    (lambda: ds.NumpySlicesDataset({}), "the shapes are missing"),
    (lambda: ds.NumpySlicesDataset(([1], [2]), ["x"]), r"2 arrays but 1 column_names \(x\)"),
]


@pytest.mark.parametrize(("act", "message"), ERRORS)
def test_a_mistake_is_named(act: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        act()


def test_a_source_that_cannot_start_again_is_refused_in_the_second_epoch() -> None:
    dataset = ds.GeneratorDataset(Exhausted(), "x")
    assert xs(dataset) == [1, 2]
    with pytest.raises(DatasetError, match="gave no row in epoch 1"):
        xs(dataset, epoch=1)


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_the_batches_of_rows_that_never_end_are_not_counted(drop_remainder: bool) -> None:
    dataset = ds.GeneratorDataset([0, 1, 2], ["x"], shuffle=False).repeat().batch(2, drop_remainder=drop_remainder)
    with pytest.raises(DatasetError, match="repeat without a count never ends; give repeat a count, or take rows"):
        dataset.get_dataset_size()
    rows = dataset.iterate()
    assert [next(rows)["x"].tolist() for _ in range(3)] == [[0, 1], [2, 0], [1, 2]]
    rows.close()


def test_a_simulation_that_is_told_of_other_columns_says_which_there_are() -> None:
    dataset = ds.NumpySlicesDataset({"x": np.zeros((4, 3)), "y": np.zeros(4)}, shuffle=False).batch(2)
    x, y = TensorSpec((8, 3), np.dtype(np.float32)), TensorSpec((8,), np.dtype(np.int32))
    with simulating(Simulation({"x": x, "y": y})):
        batch = next(dataset.iterate())
        assert {name: (array.shape, array.dtype.name) for name, array in batch.items()} == {
            "x": ((8, 3), "float32"),
            "y": ((8,), "int32"),
        }
    words = "--input: the dataset has the columns x, y, but x, image were given; give each column of a batch its shape"
    with simulating(Simulation({"x": x, "image": y})), pytest.raises(DatasetError, match=words):
        next(dataset.iterate())


class Uncounted:
    """Rows by index, of which nobody says how many there are."""

    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: ds.GeneratorDataset([1], "x", schema=False),
            "GeneratorDataset: a schema is not supported; give column_names and column_types",
        ),
        (
            lambda: ds.GeneratorDataset([1], ""),
            "GeneratorDataset: column_names is missing; name every value of a row",
        ),
        (
            lambda: ds.GeneratorDataset([1], []),
            "GeneratorDataset: column_names is missing; name every value of a row",
        ),
        (
            lambda: ds.GeneratorDataset((i for i in range(3)), "x"),
            "GeneratorDataset: source is a generator, used up after one epoch; give the generator function itself, "
            "uncalled",
        ),
        (
            lambda: ds.GeneratorDataset(Uncounted(), "x"),
            "GeneratorDataset: source is a Uncounted; give a function that returns an iterator, an iterable, or an "
            "object with __getitem__ and __len__",
        ),
        (
            lambda: ds.GeneratorDataset(Restarting(), "x", num_samples=True),
            "GeneratorDataset: num_samples is True; give an integer of 1 or more",
        ),
        (
            lambda: ds.GeneratorDataset([1], "x", ["int64", "int32"]),
            "GeneratorDataset: 2 column_types for 1 columns; give one for each",
        ),
        (
            lambda: ds.GeneratorDataset([1], ["x", "y", "x"]),
            'GeneratorDataset: column "x" is named twice; give every column its own name',
        ),
        (
            lambda: ds.GeneratorDataset([1], "x", sampler=iter([0])),
            "GeneratorDataset: sampler is an iterator, used up after one epoch; give a list or an array of indices",
        ),
        (
            lambda: ds.NumpySlicesDataset({"a": [1], "b": [2]}, ["x", "y", "z"]),
            "NumpySlicesDataset: 2 arrays but 3 column_names (x, y, z); give a name for each",
        ),
        (
            lambda: ds.NumpySlicesDataset({"a": [1], "b": [{}]}),
            'NumpySlicesDataset: column "b": a list is no array of numbers or text; turn it into numbers first',
        ),
    ],
)
def test_a_source_without_meaning_is_told_whole(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(DatasetError) as caught:
        make()
    assert str(caught.value) == said


def test_rows_of_different_lengths_are_no_column() -> None:
    with pytest.raises(DatasetError) as caught:
        ds.NumpySlicesDataset({"a": [[1], [1, 2]]})
    assert str(caught.value).startswith('NumpySlicesDataset: column "a": the value is no array (')
    assert str(caught.value).endswith("); make its rows equally long")


def test_a_source_that_can_be_called_is_called_also_where_it_could_be_iterated() -> None:
    class Both(Restarting):
        def __call__(self) -> list[int]:
            return [5, 6]

    assert xs(ds.GeneratorDataset(Both(), "x")) == [5, 6]


@pytest.mark.parametrize(("option", "value"), [("python_multiprocessing", True), ("max_rowsize", 7)])
def test_how_processes_would_read_a_source_is_remarked_upon(
    option: str, value: Any, remarks: Callable[[], list[str]]
) -> None:
    ds.GeneratorDataset([1], "x", **{option: value})
    assert remarks() == [
        f"GeneratorDataset: {option}={value} has no effect here: one thread reads ahead, and rows do not depend on who "
        "reads them; see config.set_prefetch_size"
    ]


@pytest.mark.parametrize("name", ["xyz", ["xyz"], ("xyz",)])
def test_one_name_is_a_column_whatever_its_length(name: Any) -> None:
    assert ds.NumpySlicesDataset([1], name).get_col_names() == ["xyz"]
    assert ds.GeneratorDataset([1], name).get_col_names() == ["xyz"]
    assert ds.NumpySlicesDataset({"a": [1]}, name).get_col_names() == ["xyz"]
