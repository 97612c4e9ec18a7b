"""Containers of cells: how they are filled, what they are called on, and what they tell of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.errors import ConfigurationError


class Sum(nn.Cell):
    def construct(self, x: ms.Tensor, y: ms.Tensor) -> ms.Tensor:
        return x + y


CELLS = [nn.ReLU(), nn.Tanh(), nn.Sigmoid()]


@pytest.mark.parametrize("kind", [nn.SequentialCell, nn.CellList])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_cells_may_be_given_one_by_one_in_a_list_or_with_names(kind: Any, count: int) -> None:
    cells = CELLS[:count]
    for made in (kind(*cells), kind(cells), kind(tuple(cells))):
        assert list(made) == cells
        assert list(made.name_cells()) == ["0", "1", "2"][:count]
        assert (len(made), made[0], made[-1]) == (count, cells[0], cells[-1])
    assert list(kind(dict(zip("abc", cells, strict=False))).name_cells()) == list("abc")[:count]


@pytest.mark.parametrize("kind", [nn.SequentialCell, nn.CellList])
def test_a_container_is_empty_until_a_cell_is_put_at_its_end(kind: Any) -> None:
    made = kind()
    assert len(made) == 0
    assert made.append(CELLS[0]).append(CELLS[1]) is made
    assert list(made.name_cells()) == ["0", "1"]
    assert list(made) == CELLS[:2]


@pytest.mark.parametrize("cells", [(CELLS[0], 3), (3, CELLS[0])])
def test_what_is_no_cell_is_refused_by_its_place(cells: tuple[Any, ...]) -> None:
    place = cells.index(3)
    for kind in (nn.SequentialCell, nn.CellList):
        with pytest.raises(ConfigurationError, match=f"{kind.__name__}: element {place} is a int; give cells"):
            kind(*cells)


def test_the_first_cell_takes_all_inputs_and_each_other_what_came_before() -> None:
    x, y = np.array([1.0, -2.0]), np.array([2.0, -3.0])
    given = ms.Tensor(x), ms.Tensor(y)
    np.testing.assert_allclose(nn.SequentialCell(Sum(), nn.ReLU(), nn.Tanh())(*given).asnumpy(), [np.tanh(3.0), 0.0])
    np.testing.assert_allclose(nn.SequentialCell(Sum())(*given).asnumpy(), [3.0, -5.0])


def test_no_cells_return_what_they_are_given() -> None:
    x, y = ms.Tensor([1.0]), ms.Tensor([2.0])
    assert nn.SequentialCell()(x).asnumpy().tolist() == [1.0]
    assert [one.asnumpy().tolist() for one in nn.SequentialCell()(x, y)] == [[1.0], [2.0]]
