"""Cross entropy over a vocabulary that may be cut."""

from __future__ import annotations

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.transformer.arguments import checked
from mpiparallel.nn.transformer.op_parallel_config import DpMpConfig, OpParallelConfig


class CrossEntropyLoss(Cell):
    """The mean cross entropy of the rows that a mask keeps: ``sum(loss * mask) / (sum(mask) + 1e-5)``, a scalar.

    Logits (n, classes) are cut by data_parallel and model_parallel: no rank sees all classes of a row, and of each row
    three numbers are exchanged. The small addend makes the loss of no kept row 0 (MindSpore's rule).

    Parameters
    ----------
    parallel_config : OpParallelConfig, optional
        The cuts; by default there is none.

    Examples
    --------
    >>> round(float(CrossEntropyLoss()(Tensor([[0.0, 0.0]]), Tensor([1]), Tensor([1.0]))), 3)
    0.693
    """

    keeps_float32 = True

    @checked
    def __init__(self, parallel_config: DpMpConfig | None = None) -> None:
        super().__init__()
        config = parallel_config or OpParallelConfig()
        dp, mp = config.data_parallel, config.model_parallel
        self.max = ops.ReduceMax(keep_dims=True).shard(((dp, mp),))
        self.sum_exp = ops.SumExp().shard(((dp, mp), (dp, 1)))
        self.log = ops.Log().shard(((dp, 1),))
        self.add = ops.Add().shard(((dp, 1), (dp, 1)))
        self.pick = ops.GatherLast().shard(((dp, mp), (dp,)))
        self.sub = ops.Sub().shard(((dp,), (dp,)))
        self.mul = ops.Mul().shard(((dp,), (dp,)))
        self.sum = ops.ReduceSum().shard(((dp,),))

    def construct(self, logits: Tensor, label: Tensor, input_mask: Tensor) -> Tensor:
        """Return the loss of ``logits`` (n, classes) and ``label`` (n,), where ``input_mask`` (n,) is 1."""
        # Picked first, so that its sum over the parts of the classes travels with that of the exponentials.
        picked = self.pick(logits, label)
        largest = ops.StopGradient()(self.max(logits, -1))
        normaliser = self.add(self.log(self.sum_exp(logits, largest)), largest).reshape((-1,))
        losses = self.sub(normaliser, picked)
        mask = input_mask.reshape((-1,)).astype(logits.dtype)
        mean: Tensor = self.sum(self.mul(losses, mask)) / (self.sum(mask) + 1e-5)
        return mean
