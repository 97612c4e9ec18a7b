"""What all layers of a transformer share: where they stand, whose gradients are fused, and where dropout acts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn
from mpiparallel.nn import transformer
from mpiparallel.nn.transformer import TransformerOpParallelConfig, TransformerRecomputeConfig


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    context.reset_auto_parallel_context()


def encoder(layers: int, **options: Any) -> transformer.TransformerEncoder:
    return transformer.TransformerEncoder(2, layers, 2, 2, 3, 1, **options)


def decoder(layers: int, **options: Any) -> transformer.TransformerDecoder:
    return transformer.TransformerDecoder(layers, 2, 2, 2, 3, 4, 1, **options)


@pytest.mark.parametrize(
    ("layers", "groups", "fused"),
    [
        (8, 4, [1, 1, 2, 2, 3, 3, 4, 4]),
        (8, 2, [1, 1, 1, 1, 2, 2, 2, 2]),
        (5, 2, [1, 1, 2, 2, 3]),
        (3, 4, [1, 2, 3]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_gradients_of_layers_are_fused_in_so_many_groups(layers: int, groups: int, fused: list[int]) -> None:
    blocks = encoder(layers, parallel_config=TransformerOpParallelConfig(gradient_aggregation_group=groups)).blocks
    assert [{one.comm_fusion for one in block.get_parameters()} for block in blocks] == [{one} for one in fused]


@pytest.mark.parametrize("make", [encoder, decoder])
@pytest.mark.parametrize(
    ("offset", "stages", "wanted"), [(0, 2, [0, 0, 1, 1]), (2, 2, [1, 1, 1, 1]), (1, 4, [1, 2, 3, 3])]
)
def test_layers_alone_are_spread_over_stages_from_their_offset_on(
    make: Callable[..., Any], offset: int, stages: int, wanted: list[int]
) -> None:
    config = TransformerOpParallelConfig(pipeline_stage=stages)
    assert [one.pipeline_stage for one in make(4, offset=offset, parallel_config=config).blocks] == wanted


@pytest.mark.parametrize("make", [encoder, decoder])
def test_a_function_of_ones_own_is_told_of_each_layer_with_the_configuration(make: Callable[..., Any]) -> None:
    config, told = TransformerOpParallelConfig(), []
    blocks = make(
        2, offset=3, parallel_config=config, lambda_func=lambda layer, **named: told.append((layer, named))
    ).blocks
    shared = {"offset": 3, "parallel_config": config, "layers": 2}
    assert told == [(block, {"layer_id": number, **shared}) for number, block in enumerate(blocks)]
    assert [one.pipeline_stage for one in blocks] == [None, None]


def rates(layer: nn.Cell) -> dict[str, float]:
    """Return the probability of 0 of each dropout by its place."""
    return {
        place: round(1 - cell.keep_prob, 6) for place, cell in layer.cells_and_names() if isinstance(cell, nn.Dropout)
    }


def test_the_rate_of_attention_is_that_of_its_probabilities_and_the_other_that_of_outputs() -> None:
    attention = {"dropout": 0.25, "prob_dropout": 0.5}
    said: dict[str, Any] = {"attention_dropout_rate": 0.5, "hidden_dropout_rate": 0.25}
    assert rates(transformer.MultiHeadAttention(2, 3, 3, 2, 1, **said)) == attention
    of_encoder = {f"attention.{name}": rate for name, rate in attention.items()} | {"output.dropout": 0.25}
    of_decoder = of_encoder | {f"cross_attention.{name}": rate for name, rate in attention.items()}
    assert rates(transformer.TransformerEncoderLayer(2, 2, 2, 1, 3, **said)) == of_encoder
    assert rates(transformer.TransformerDecoderLayer(2, 2, 1, 2, 3, 4, **said)) == of_decoder
    assert rates(encoder(1, **said)) == {f"blocks.0.{name}": rate for name, rate in of_encoder.items()}
    assert rates(decoder(1, **said)) == {f"blocks.0.{name}": rate for name, rate in of_decoder.items()}
    whole = transformer.Transformer(2, 2, 2, 3, 4, 1, 1, 1, **said)
    assert rates(whole) == {f"encoder.blocks.0.{name}": rate for name, rate in of_encoder.items()} | {
        f"decoder.blocks.0.{name}": rate for name, rate in of_decoder.items()
    }


def test_the_activation_is_the_one_that_is_named_and_only_between_the_two_layers() -> None:
    x = Tensor(np.random.default_rng(1).normal(size=(5, 3)))
    layer = transformer.FeedForward(3, 4, 0.0, "relu", np.float64)
    hidden = np.maximum(x.asnumpy() @ layer.mapping.weight.asnumpy(), 0)
    np.testing.assert_allclose(layer(x).asnumpy(), hidden @ layer.projection.weight.asnumpy(), rtol=1e-12)
    for whole in (encoder(1, hidden_act="relu"), decoder(1, hidden_act="relu")):
        assert whole.blocks[0].output.mapping.act_name == "relu"
        assert whole.blocks[0].output.projection.act_name is None


@pytest.mark.parametrize("recompute", [True, TransformerRecomputeConfig(recompute=True)])
@pytest.mark.parametrize("make", [encoder, decoder])
def test_layers_are_recomputed_where_that_is_asked_for(make: Callable[..., Any], recompute: Any) -> None:
    x, mask = np.ones((2, 3, 2), np.float32), np.ones((2, 3, 3), np.float32)
    for asked, some in ((recompute, True), (False, False), (TransformerRecomputeConfig(), False)):
        whole = make(1, parallel_config=TransformerOpParallelConfig(recompute=asked))
        nodes = whole.sharded_graph(x, mask).graph.nodes
        assert any(node.notes.segment is not None for node in nodes) == some


def test_extents_as_they_were_said_are_not_remarked_on_and_others_are_each(remarks: Callable[[], list[str]]) -> None:
    source, target = np.ones((2, 3, 2), np.float32), np.ones((2, 4, 2), np.float32)
    masks = [np.ones(shape, np.float32) for shape in ((2, 3, 3), (2, 4, 4), (2, 4, 3))]
    transformer.Transformer(2, 2, 2, 3, 4, 1, 1, 1)(*map(Tensor, (source, masks[0], target, masks[1], masks[2])))
    assert remarks() == []
    attention = transformer.MultiHeadAttention(5, 6, 7, 2, 1)
    attention(Tensor(target), Tensor(source), Tensor(source), Tensor(masks[2]))
    assert remarks() == [
        f"MultiHeadAttention: {said} has no effect here: shapes are read from the inputs, which have {seen}"
        for said, seen in (("batch_size=5", 2), ("src_seq_length=6", 4), ("tgt_seq_length=7", 3))
    ]
