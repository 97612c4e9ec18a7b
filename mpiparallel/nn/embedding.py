"""A table of vectors, one for each id."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Initial, Tensor
from mpiparallel.layout.box import Box
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.dense import initial_tensor


class ZeroRow:
    """First values with row ``row`` set to 0."""

    def __init__(self, inside: Initial, row: int) -> None:
        self.inside, self.row = inside, row

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> np.ndarray[Any, Any]:
        """Return the values of ``box`` of the tensor ``name`` of ``shape``."""
        values = np.array(self.inside.part(name, shape, box))
        if box.start[0] <= self.row < box.stop[0]:
            values[self.row - box.start[0]] = 0
        return values


class Embedding(Cell):
    """The rows of ``embedding_table``, of shape (vocab_size, embedding_size), at integer ids of any shape.

    The ids are taken as one dim, so that strategies speak of one: ``embedding.gather.shard(((4, 1), (2,)))`` cuts rows
    4 ways and ids 2 ways.

    Parameters
    ----------
    vocab_size, embedding_size : int
        Rows of the table, and elements of one.
    use_one_hot : bool
        Whether rows are picked by a product with one-hot vectors.
    embedding_table : str, Initializer or Tensor
        First values.
    dtype : dtype
        Of the parameters.
    padding_idx : int, optional
        The row that starts as 0.

    Raises
    ------
    ConfigurationError
        When ``padding_idx`` is out of range.

    Examples
    --------
    >>> Embedding(10, 4)(Tensor([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        use_one_hot: bool = False,
        embedding_table: Any = "normal",
        dtype: Any = np.float32,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.use_one_hot = use_one_hot
        table = initial_tensor("embedding_table", embedding_table, (vocab_size, embedding_size), dtype)
        if padding_idx is not None:
            table = _with_zero_row(table, padding_idx)
        self.embedding_table = Parameter(table, "embedding_table")
        self.gather = ops.Gather()
        self.one_hot = ops.OneHot()
        self.array_mul = ops.MatMul()

    def construct(self, ids: Tensor) -> Tensor:
        """Return a tensor of the shape of ``ids`` with one more dim, of embedding_size elements."""
        flat = ids.reshape((-1,))
        if self.use_one_hot:
            one, zero = (np.asarray(value, self.embedding_table.dtype) for value in (1, 0))
            rows: Tensor = self.array_mul(self.one_hot(flat, self.vocab_size, one, zero), self.embedding_table)
        else:
            rows = self.gather(self.embedding_table, flat, 0)
        return rows.reshape((*ids.shape, self.embedding_size))


def _with_zero_row(table: Tensor, row: int) -> Tensor:
    if not 0 <= row < table.shape[0]:
        raise ConfigurationError(
            f"Embedding: padding_idx {row} is out of range for {table.shape[0]} rows; give 0 to {table.shape[0] - 1}"
        )
    if table.initial is not None:
        return Tensor(shape=table.shape, dtype=table.dtype, init=ZeroRow(table.initial, row))
    values = table.asnumpy().copy()
    values[row] = 0
    return Tensor(values)
