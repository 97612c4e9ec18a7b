"""Cells that hold cells in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.cell import Cell


class _Ordered(Cell):
    """Cells under names in an order."""

    def __init__(self, cells: Mapping[str, Cell] | Iterable[Cell]) -> None:
        super().__init__()
        named = cells if isinstance(cells, Mapping) else {str(index): cell for index, cell in enumerate(cells)}
        for name, cell in named.items():
            self._add(name, cell)

    def _add(self, name: str, cell: Cell) -> None:
        if not isinstance(cell, Cell):
            raise ConfigurationError(f"{type(self).__name__}: element {name} is a {type(cell).__name__}; give cells")
        self.insert_child_to_cell(name, cell)

    def append(self, cell: Cell) -> Cell:
        """Put a cell at the end; returns the container."""
        self._add(str(len(self)), cell)
        return self

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(list(self._cells.values()))

    def __getitem__(self, index: int) -> Cell:
        return list(self._cells.values())[index]


class SequentialCell(_Ordered):
    """Cells that are applied one after another.

    Parameters
    ----------
    *cells : Cell
        Or one list of them, or one dict with names.

    Examples
    --------
    >>> len(SequentialCell(Cell(), Cell()))
    2
    """

    def __init__(self, *cells: Any) -> None:
        single = len(cells) == 1 and not isinstance(cells[0], Cell)
        super().__init__(cells[0] if single else cells)

    def construct(self, *inputs: Any) -> Any:
        """Return what the last cell returns."""
        result: Any = inputs[0] if len(inputs) == 1 else inputs
        for index, cell in enumerate(self):
            result = cell(*inputs) if index == 0 else cell(result)
        return result


class CellList(_Ordered):
    """A list of cells: ``CellList([a, b])``. Its parameters are named ``0.weight``, ``1.weight`` and so on.

    Assign it to a cell when it is filled, so that names are prefixed with its place.

    Parameters
    ----------
    *cells : list of Cell
        Or cells, one after another.

    Examples
    --------
    >>> [name for name, _ in CellList([Cell(), Cell()]).cells_and_names()]
    ['', '0', '1']
    """

    def __init__(self, *cells: Any) -> None:
        single = len(cells) == 1 and not isinstance(cells[0], Cell)
        super().__init__(cells[0] if single else cells)

    def extend(self, cells: Iterable[Cell]) -> CellList:
        """Put cells at the end; returns the list."""
        for cell in cells:
            self.append(cell)
        return self
