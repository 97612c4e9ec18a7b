"""Rows of a dataset: each column is made when it is first asked for, once."""

from __future__ import annotations

import numpy as np

from mpiparallel.dataset.stage import Columns, Row


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
