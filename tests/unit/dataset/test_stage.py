"""Rows of a dataset: each column is made when it is first asked for, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.dataset.stage import Columns, Row
from mpiparallel.errors import DatasetError


def test_columns_are_a_mapping_that_makes_each_array_once() -> None:
    made: list[str] = []

    def make(name: str) -> np.ndarray:
        made.append(name)
        return np.array([len(name)])

    columns = Columns(("long", "b"), make)
    assert (list(columns), len(columns), made) == (["long", "b"], 2, [])
    assert "b" in columns
    assert made == ["b"]
    assert {name: array.tolist() for name, array in columns.items()} == {"long": [4], "b": [1]}
    assert columns["long"] is columns["long"]
    assert made == ["b", "long"]


def test_a_row_is_made_once_and_tells_its_rows_before() -> None:
    made: list[int] = []
    row = Row(7, lambda: made.append(1) or {"a": np.zeros(2)}, 2)
    assert (row.number, row.stacked, made) == (7, 2, [])
    assert row.values is row.values
    assert made == [1]


def rows(*values: Any) -> ds.Dataset:
    return ds.GeneratorDataset(lambda: iter(values), "x")


def pairs() -> ds.Dataset:
    return ds.NumpySlicesDataset({"x": [1, 2], "y": [3, 4]}, shuffle=False)


def refusal_of(act: Callable[[], Any]) -> str:
    with pytest.raises(DatasetError) as caught:
        act()
    return str(caught.value)


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        (
            rows(1, 2, [3], [[4]]).batch(2),
            'batch: column "x" has shape () in row 2 and (1,) in row 3; map an operation that pads or crops it to '
            "one shape",
        ),
        (
            rows(0, 1, 2, 3.5, 4).batch(5),
            'batch: column "x" is int64 in row 0 and float64 in row 3; map TypeCast to one dtype',
        ),
        (rows(0.5, "a").batch(2), 'batch: column "x" is float64 in row 0 and <U1 in row 1; map TypeCast to one dtype'),
        (rows("a", 0.5).batch(2), 'batch: column "x" is <U1 in row 0 and float64 in row 1; map TypeCast to one dtype'),
        (rows("a", b"b").batch(2), 'batch: column "x" is <U1 in row 0 and |S1 in row 1; map TypeCast to one dtype'),
    ],
)
def test_rows_that_make_no_batch_are_told_by_their_numbers(dataset: ds.Dataset, said: str) -> None:
    assert refusal_of(lambda: list(dataset.iterate())) == said


@pytest.mark.parametrize("texts", [("a", "bcd", ""), (b"a", b"bcd", b"")])
def test_texts_and_bytes_of_any_length_make_a_batch(texts: tuple[Any, ...]) -> None:
    (batch,) = rows(*texts).batch(3).iterate()
    assert batch["x"].tolist() == list(texts)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: pairs().project([]), "project: no column is named; the columns are x, y"),
        (lambda: pairs().project(["y", "z"]), 'project: there is no column "z"; the columns are x, y'),
        (lambda: pairs().project(["y", "y"]), 'project: column "y" is named twice; give every column its own name'),
        (lambda: pairs().rename("z", "a"), 'rename: there is no column "z"; the columns are x, y'),
        (
            lambda: pairs().rename(["x", "y"], "a"),
            "rename: 2 input_columns but 1 output_columns; give a new name for each",
        ),
        (lambda: pairs().rename("y", "x"), 'rename: column "x" is named twice; give every column its own name'),
        (
            lambda: pairs().rename(["x", "x"], ["a", "b"]),
            'rename: column "x" is named twice; give every column its own name',
        ),
        (
            lambda: pairs().map(abs, ["x", "x"], ["a", "b"]),
            'map: column "x" is named twice; give every column its own name',
        ),
        (
            lambda: pairs().map(abs, "x", ["a", "a"]),
            'map: column "a" is named twice; give every column its own name',
        ),
        (
            lambda: pairs().map(abs, "x", "x", 4),  # type: ignore[arg-type]
            "map: column_order 4 must name columns; name the argument num_parallel_workers=4, which newer versions of "
            "MindSpore have in its place",
        ),
        (lambda: pairs().map([]), "Compose: there is no operation; give a list of at least one"),
        (
            lambda: pairs().map([abs, "x"], "x"),  # type: ignore[list-item]
            "Compose: 'x' cannot be called; give functions or transforms",
        ),
        (
            lambda: list(pairs().map([np.negative, lambda x: (x, x, x)], "y", ["a", "b"]).iterate()),
            "map: negative, <lambda> on y in row 0 gave 3 values for 2 output columns (a, b); give output_columns one "
            "name for each value",
        ),
        (
            lambda: list(pairs().skip(1).map([abs, lambda x: [].pop()], "y").iterate()),
            "map: abs, <lambda> on y in row 1: IndexError: pop from empty list",
        ),
        (
            lambda: pairs().take(2).skip(2).output_types(),
            "output_shapes: the dataset has no row; check take, skip, num_samples and drop_remainder",
        ),
        (
            lambda: pairs().repeat().get_dataset_size(),
            "get_dataset_size: repeat without a count never ends; give repeat a count, or take rows",
        ),
        (lambda: pairs().repeat(True), "repeat: count is True; give an integer of 1 or more"),
        (lambda: pairs().take(-2), "take: count is -2; give an integer of 1 or more"),
        (lambda: pairs().skip(1.0), "skip: count is 1.0; give an integer of 0 or more"),  # type: ignore[arg-type]
        (lambda: pairs().repeat(-2), "repeat: count is -2; give an integer of 1 or more"),
        (lambda: pairs().batch("2"), "batch: batch_size is '2'; give an integer of 1 or more"),  # type: ignore[arg-type]
        (lambda: pairs().shuffle(0), "shuffle: buffer_size is 0; give an integer of 1 or more"),
    ],
)
def test_a_step_without_meaning_is_told_whole(act: Callable[[], Any], said: str) -> None:
    assert refusal_of(act) == said


def test_columns_keep_their_values_under_other_names_and_in_another_order() -> None:
    for dataset, expected in (
        (pairs().project("y"), {"y": 3}),
        (pairs().project(["y", "x"]), {"y": 3, "x": 1}),
        (pairs().rename("y", "z"), {"x": 1, "z": 3}),
        (pairs().rename(["y", "x"], ["x", "y"]), {"y": 1, "x": 3}),
        (pairs().map(np.negative, "y", "z", ["z"]), {"z": -3}),
        (pairs().map(lambda x: (x, x + 10, x + 20), "x", ["a", "b", "x"]), {"a": 1, "b": 11, "x": 21, "y": 3}),
        (pairs().map(lambda x, y: (y, x), ["x", "y"], ["y", "x"]), {"y": 3, "x": 1}),
        (pairs().repeat(-1).take(1), {"x": 1, "y": 3}),
        (pairs().skip(0).take(-1), {"x": 1, "y": 3}),
    ):
        row = next(dataset.iterate())
        assert list(row) == dataset.get_col_names()
        assert [(name, int(value)) for name, value in row.items()] == list(expected.items())


def test_an_operation_runs_once_for_a_row_and_only_where_its_columns_are_wanted() -> None:
    calls: list[int] = []

    def both(x: Any) -> Any:
        calls.append(int(x))
        return x, x

    dataset = pairs().map(both, "x", ["a", "b"])
    assert [(int(row["a"]), int(row["b"])) for row in dataset.iterate()] == [(1, 1), (2, 2)]
    assert calls == [1, 2]
    assert [int(row["y"]) for row in dataset.project("y").iterate()] == [3, 4]
    assert calls == [1, 2]
