"""A heat map of who sends to whom, in text."""

from __future__ import annotations

from collections.abc import Sequence

# Two characters make a cell about as wide as it is high.
_SHADES = ("· ", "░░", "▒▒", "▓▓", "██")
_PLAIN_SHADES = (". ", "::", "++", "##", "@@")
_MOST_CELLS = 32


def coarse(matrix: Sequence[Sequence[int]], cells: int) -> list[list[int]]:
    """Return the matrix with at most ``cells`` rows and columns, neighbours added up.

    >>> coarse([[1, 2, 0], [0, 4, 0], [0, 0, 8]], 2)
    [[7, 0], [0, 8]]
    """
    count = min(cells, len(matrix))
    found = [[0] * count for _ in range(count)]
    for row, values in enumerate(matrix):
        for column, value in enumerate(values):
            found[row * count // len(matrix)][column * count // len(matrix)] += value
    return found


def heat_map(matrix: Sequence[Sequence[int]], starts: Sequence[int], plain: bool) -> tuple[list[str], int]:
    """Return the lines of the map, and the most bytes of a cell; ``starts`` are the first ranks of rows and columns.

    >>> print(*heat_map([[0, 4], [1, 0]], [0, 1], plain=True)[0], sep=chr(10))
           0 1
         0 . @@
         1 ::.
    """
    cells = coarse(matrix, _MOST_CELLS)
    first = [starts[index] for index in _first_of_blocks(len(starts), len(cells))]
    most = max((value for row in cells for value in row), default=0)
    shades = _PLAIN_SHADES if plain else _SHADES
    lines = [" " * 7 + _header(first)]
    for start, row in zip(first, cells, strict=True):
        lines.append(f"{start:>6} " + "".join(shades[_level(value, most, len(shades) - 1)] for value in row).rstrip())
    return lines, most


def _first_of_blocks(count: int, blocks: int) -> list[int]:
    return [-(-block * count // blocks) for block in range(blocks)]


def _header(first: Sequence[int]) -> str:
    """Return the first ranks of columns, as many as there is room for."""
    line = ""
    for column, rank in enumerate(first):
        if len(line) <= 2 * column:
            line = f"{line:<{2 * column}}{rank} "
    return line.rstrip()


def _level(value: int, most: int, levels: int) -> int:
    """Return the shade: none for nothing only."""
    return -(-value * levels // most) if value else 0
