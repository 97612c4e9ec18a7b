"""The embedding of a vocabulary."""

from __future__ import annotations

from typing import Any

from mpiparallel import ops
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.dense import initial_tensor
from mpiparallel.nn.transformer.arguments import checked
from mpiparallel.nn.transformer.op_parallel_config import EmbeddingOpParallelConfig


class VocabEmbedding(Cell):
    """The rows of ``embedding_table`` at ids (batch, length), and the table itself.

    The ids are cut by ``data_parallel``.

    Parameters
    ----------
    vocab_size, embedding_size : int
        Rows of the table, and elements of one.
    parallel_config : EmbeddingOpParallelConfig, optional
        The table is whole on every rank with ``vocab_emb_dp``; else its rows are cut by ``model_parallel``.
    param_init : str, Initializer or Tensor
        First values; of a tensor of ``initializer`` the table has the dtype.

    Examples
    --------
    >>> vectors, table = VocabEmbedding(10, 4)(Tensor([[1, 2, 3]]))
    >>> vectors.shape, table.shape
    ((1, 3, 4), (10, 4))
    """

    @checked
    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        parallel_config: EmbeddingOpParallelConfig | None = None,
        param_init: Any = "normal",
    ) -> None:
        super().__init__()
        config = parallel_config or EmbeddingOpParallelConfig()
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        table = initial_tensor("embedding_table", param_init, (vocab_size, embedding_size), "float32")
        self.embedding_table = Parameter(table, "embedding_table", parallel_optimizer=False)
        rows = 1 if config.vocab_emb_dp else config.model_parallel
        self.gather = ops.Gather().shard(((rows, 1), (config.data_parallel, 1)))

    def construct(self, input_ids: Tensor) -> tuple[Tensor, Parameter]:
        """Return vectors of shape (batch, length, embedding_size), and the table."""
        return self.gather(self.embedding_table, input_ids, 0), self.embedding_table
