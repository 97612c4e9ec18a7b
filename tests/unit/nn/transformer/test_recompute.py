"""``TransformerRecomputeConfig``: layers are computed again for their gradients, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn, ops
from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.transformer import Transformer, TransformerOpParallelConfig, TransformerRecomputeConfig

SHAPE = 2, 3, 4


class Whole(nn.Cell):
    def __init__(self, recompute):
        super().__init__()
        context.set_seed(1)
        self.transformer = Transformer(
            hidden_size=4,
            batch_size=2,
            ffn_hidden_size=8,
            src_seq_length=3,
            tgt_seq_length=3,
            encoder_layers=1,
            decoder_layers=1,
            num_heads=2,
            attention_dropout_rate=0.0,
            hidden_dropout_rate=0.0,
            parallel_config=TransformerOpParallelConfig(recompute=recompute),
        )

    def construct(self, x, mask):
        return self.transformer(x, mask, x, mask, mask)[0].sum()


def gradients(recompute):
    network = Whole(recompute)
    x = Tensor(np.random.default_rng(2).normal(size=SHAPE).astype(np.float32))
    mask = Tensor(np.ones((2, 3, 3), np.float32))
    found = ops.GradOperation(get_by_list=True)(network, network.trainable_params())(x, mask)
    again = [node for node in network.sharded_graph(x, mask).graph.nodes if node.notes.segment is not None]
    return [gradient.asnumpy() for gradient in found], len(again)


@pytest.mark.parametrize("recompute", [True, TransformerRecomputeConfig(True, parallel_optimizer_comm_recompute=True)])
def test_gradients_are_the_same_and_both_layers_are_segments(recompute) -> None:
    (kept, segments), (found, recomputed) = gradients(False), gradients(recompute)
    assert segments == 0 < recomputed
    for one, other in zip(found, kept, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_recompute_does_not_offer_is_refused_or_said(remarks) -> None:
    with pytest.raises(ConfigurationError, match="mp_comm_recompute=False is not offered"):
        Whole(TransformerRecomputeConfig(True, mp_comm_recompute=False))
    Whole(TransformerRecomputeConfig(True, recompute_slice_activation=True))
    assert ["recompute_slice_activation=True has no effect here" in line for line in remarks()] == [True]
