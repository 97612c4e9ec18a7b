"""The layers of a transformer are what a plain NumPy program computes from the same parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpiparallel.context import reset_auto_parallel_context
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.initializer import initializer
from mpiparallel.nn.transformer import (
    AttentionMask,
    CrossEntropyLoss,
    FeedForward,
    MultiHeadAttention,
    Transformer,
    TransformerDecoder,
    TransformerEncoder,
    TransformerOpParallelConfig,
    VocabEmbedding,
)
from tests.unit.nn.transformer.sample_network import set_values

BATCH, SOURCE, TARGET, HIDDEN, HEADS = 3, 5, 4, 8, 2
GENERATOR = np.random.default_rng(9)
ENCODED = GENERATOR.normal(size=(BATCH, SOURCE, HIDDEN))
DECODED = GENERATOR.normal(size=(BATCH, TARGET, HIDDEN))
MASK = (GENERATOR.random((BATCH, SOURCE, SOURCE)) < 0.7).astype(np.float32)
CAUSAL = np.tile(np.tril(np.ones((TARGET, TARGET), np.float32)), (BATCH, 1, 1))
MEMORY_MASK = (GENERATOR.random((BATCH, TARGET, SOURCE)) < 0.7).astype(np.float32)


def gelu(x):
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Reference:
    """The layers written for one device, from parameters by name."""

    def __init__(self, cell, post=False):
        self.parameters = {parameter.name: parameter.asnumpy() for parameter in cell.get_parameters()}
        self.post = post

    def linear(self, place, x, transposed):
        weight = self.parameters[f"{place}weight"]
        return x @ (weight.T if transposed else weight) + self.parameters[f"{place}bias"]

    def norm(self, place, x):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * self.parameters[f"{place}gamma"] + self.parameters[f"{place}beta"]

    def attention(self, place, x, memory, mask):
        query, key, value = (
            self.linear(f"{place}dense{index}.", given, True) for index, given in ((1, x), (2, memory), (3, memory))
        )
        size = HIDDEN // HEADS
        seen = np.empty_like(query)
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = query[..., part] @ key[..., part].swapaxes(1, 2) / math.sqrt(size) - 10000.0 * (1 - mask)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            seen[..., part] = weights / weights.sum(-1, keepdims=True) @ value[..., part]
        return self.linear(f"{place}projection.", seen, False)

    def feed_forward(self, place, x):
        return self.linear(f"{place}projection.", gelu(self.linear(f"{place}mapping.", x, False)), False)

    def add(self, x, normalised, sublayer):
        return (normalised if self.post else x) + sublayer

    def encoder_layer(self, place, x, mask):
        normalised = self.norm(f"{place}layernorm1.", x)
        x = self.add(x, normalised, self.attention(f"{place}attention.", normalised, normalised, mask))
        normalised = self.norm(f"{place}layernorm2.", x)
        return self.add(x, normalised, self.feed_forward(f"{place}output.", normalised))

    def decoder_layer(self, place, x, mask, memory, memory_mask):
        normalised = self.norm(f"{place}layernorm1.", x)
        x = self.add(x, normalised, self.attention(f"{place}attention.", normalised, normalised, mask))
        normalised = self.norm(f"{place}cross_attention_layernorm.", x)
        x = self.add(x, normalised, self.attention(f"{place}cross_attention.", normalised, memory, memory_mask))
        normalised = self.norm(f"{place}layernorm2.", x)
        return self.add(x, normalised, self.feed_forward(f"{place}output.", normalised))


def transformer(**options):
    cell = Transformer(
        hidden_size=HIDDEN,
        batch_size=BATCH,
        ffn_hidden_size=12,
        src_seq_length=SOURCE,
        tgt_seq_length=TARGET,
        num_heads=HEADS,
        param_init_type=np.float64,
        **options,
    )
    return set_values(cell)


@pytest.mark.parametrize("post", [False, True])
def test_transformer_is_the_plain_one(post):
    cell = transformer(encoder_layers=2, decoder_layers=2, post_layernorm_residual=post)
    inputs = (ENCODED, MASK, DECODED, CAUSAL, MEMORY_MASK)
    output, encoder_present, decoder_present = cell(*map(Tensor, inputs))
    plain = Reference(cell, post)
    memory, x = ENCODED, DECODED
    for index in range(2):
        memory = plain.encoder_layer(f"encoder.blocks.{index}.", memory, MASK)
    for index in range(2):
        x = plain.decoder_layer(f"decoder.blocks.{index}.", x, CAUSAL, memory, MEMORY_MASK)
    np.testing.assert_allclose(output.asnumpy(), x, rtol=1e-10, atol=1e-10)
    assert encoder_present == decoder_present == (None, None)


def test_what_is_masked_a_little_loses_its_share_of_ten_thousand():
    mask = 1 - GENERATOR.uniform(0, 3e-4, (BATCH, SOURCE, SOURCE))
    cell = set_values(MultiHeadAttention(BATCH, SOURCE, SOURCE, HIDDEN, HEADS, param_init_type=np.float64))
    found, _ = cell(*[Tensor(ENCODED)] * 3, Tensor(mask))
    np.testing.assert_allclose(found.asnumpy(), Reference(cell).attention("", ENCODED, ENCODED, mask), rtol=1e-9)


def test_transformer_without_a_decoder_returns_the_encoders_output():
    cell = transformer(encoder_layers=1, decoder_layers=0)
    output, present, nothing = cell(Tensor(ENCODED), Tensor(MASK))
    np.testing.assert_allclose(
        output.asnumpy(), Reference(cell).encoder_layer("encoder.blocks.0.", ENCODED, MASK), rtol=1e-10, atol=1e-10
    )
    assert (present, nothing) == ((None,), None)


def test_layers_take_rows_as_well_as_batches():
    encoder = set_values(TransformerEncoder(BATCH, 1, HIDDEN, 12, SOURCE, HEADS, param_init_type=np.float64))
    rows, _ = encoder(Tensor(ENCODED.reshape(-1, HIDDEN)), Tensor(MASK))
    batch, _ = encoder(Tensor(ENCODED), Tensor(MASK))
    np.testing.assert_array_equal(rows.asnumpy(), batch.asnumpy().reshape(-1, HIDDEN))


def test_a_decoder_alone_has_no_attention_to_an_encoder():
    decoder = set_values(TransformerDecoder(1, BATCH, HIDDEN, 12, SOURCE, TARGET, HEADS, param_init_type=np.float64))
    output, _ = decoder(Tensor(DECODED), Tensor(CAUSAL))
    plain = Reference(decoder)
    normalised = plain.norm("blocks.0.layernorm1.", DECODED)
    x = DECODED + plain.attention("blocks.0.attention.", normalised, normalised, CAUSAL)
    wanted = x + plain.feed_forward("blocks.0.output.", plain.norm("blocks.0.layernorm2.", x))
    np.testing.assert_allclose(output.asnumpy(), wanted, rtol=1e-10, atol=1e-10)


def test_float32_stays_float32_and_float64_parameters_widen_their_inputs():
    narrow = MultiHeadAttention(BATCH, SOURCE, SOURCE, HIDDEN, HEADS)
    x = Tensor(ENCODED.astype(np.float32))
    assert narrow(x, x, x, Tensor(MASK))[0].dtype == np.float32
    wide = TransformerEncoder(BATCH, 1, HIDDEN, 12, SOURCE, HEADS, param_init_type=np.float64)
    assert wide(x, Tensor(MASK))[0].dtype == np.float64


def test_wider_compute_types_are_used_inside_a_float32_layer():
    x = Tensor(ENCODED.astype(np.float32))
    types = {"layernorm_compute_type": np.float64, "softmax_compute_type": np.float64}
    encoder = set_values(TransformerEncoder(BATCH, 1, HIDDEN, 12, SOURCE, HEADS, **types))
    nodes = encoder.sharded_graph(x, Tensor(MASK)).graph.nodes
    inside = [node.outputs[0].spec.dtype for node in nodes if node.operator.name in ("LayerNorm", "Softmax")]
    assert inside == [np.float64] * 3
    found = encoder(x, Tensor(MASK))[0]
    assert found.dtype == np.float32
    plain = Reference(encoder).encoder_layer("blocks.0.", ENCODED, MASK)
    np.testing.assert_allclose(found.asnumpy(), plain, rtol=1e-3, atol=1e-4)


def test_dropout_acts_in_training_only():
    cell = transformer(encoder_layers=1, decoder_layers=0, attention_dropout_rate=0.5, hidden_dropout_rate=0.5)
    at_rest = cell(Tensor(ENCODED), Tensor(MASK))[0].asnumpy()
    cell.set_train()
    assert not np.allclose(cell(Tensor(ENCODED), Tensor(MASK))[0].asnumpy(), at_rest)
    cell.set_train(False)
    np.testing.assert_array_equal(cell(Tensor(ENCODED), Tensor(MASK))[0].asnumpy(), at_rest)


def test_lambda_func_sees_each_layer_with_its_place_in_the_whole():
    seen = []

    def place(network, layer_id, offset, parallel_config, layers):
        seen.append((type(network).__name__, layer_id, offset, layers))
        network.pipeline_stage = layer_id + offset

    cell = transformer(encoder_layers=2, decoder_layers=1, lambda_func=place)
    assert seen == [
        ("TransformerEncoderLayer", 0, 0, 2),
        ("TransformerEncoderLayer", 1, 0, 2),
        ("TransformerDecoderLayer", 0, 2, 1),
    ]
    assert cell.decoder.blocks[0].pipeline_stage == 2


def test_without_lambda_func_layers_are_on_stage_0_and_their_gradients_in_groups():
    cell = transformer(encoder_layers=3, decoder_layers=3)
    blocks = [*cell.encoder.blocks, *cell.decoder.blocks]
    assert [block.pipeline_stage for block in blocks] == [0] * 6
    assert [next(block.get_parameters()).comm_fusion for block in blocks] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [
        # (layer + offset) // (layers // stages), and what is left over is in the last stage.
        ((2, 2), 2, [0, 0, 1, 1]),
        ((2, 2), 4, [0, 1, 2, 3]),
        ((1, 2), 2, [0, 1, 1]),
        ((3, 2), 3, [0, 1, 2, 2, 2]),
        ((1, 1), 4, [0, 1]),
    ],
)
def test_without_lambda_func_layers_are_spread_over_the_stages_by_mindspores_rule(layers, stages, expected):
    try:
        config = TransformerOpParallelConfig(pipeline_stage=stages)
        cell = transformer(encoder_layers=layers[0], decoder_layers=layers[1], parallel_config=config)
    finally:
        reset_auto_parallel_context()
    assert [block.pipeline_stage for block in (*cell.encoder.blocks, *cell.decoder.blocks)] == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiHeadAttention(2, 4, 4, 10, 3), "hidden_size 10 is not a multiple of num_heads 3"),
        (lambda: FeedForward(8, 8, 1.0), "=1.0 must be at least 0 and below 1"),
        (lambda: FeedForward(8, 8, 0.1, "swishy"), "activation 'swishy'"),
        (lambda: transformer(encoder_layers=0), "0 encoder layers and 3 decoder layers"),
        (lambda: transformer(use_past=True), "use_past=True is not implemented yet"),
    ],
)
def test_what_cannot_be_made_is_refused(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(ShapeError, match="attention"):
        transformer(encoder_layers=1, decoder_layers=0)(Tensor(ENCODED), Tensor(MASK[:, :3, :3]))


def test_feed_forward_is_two_linear_layers():
    layer = set_values(FeedForward(HIDDEN, 12, 0.1, param_init_type=np.float64))
    np.testing.assert_allclose(
        layer(Tensor(ENCODED)).asnumpy(), Reference(layer).feed_forward("", ENCODED), rtol=1e-11, atol=1e-12
    )


def test_attention_mask_is_causal_between_valid_positions():
    valid = np.array([[1, 1, 1, 0], [1, 0, 1, 1]], np.float32)
    wanted = np.tril(valid[:, :, None] * valid[:, None, :])
    found = AttentionMask(4)(Tensor(valid))
    np.testing.assert_array_equal(found.asnumpy(), wanted)
    assert found.dtype == np.float32


def test_vocab_embedding_returns_vectors_and_its_table():
    table = GENERATOR.normal(size=(10, 4))
    layer = VocabEmbedding(10, 4, param_init=Tensor(table))
    ids = GENERATOR.integers(0, 10, (2, 3)).astype(np.int32)
    vectors, whole = layer(Tensor(ids))
    np.testing.assert_array_equal(vectors.asnumpy(), table[ids])
    np.testing.assert_array_equal(whole.asnumpy(), table)
    wide = VocabEmbedding(10, 4, param_init=initializer("normal", (10, 4), np.float64))
    assert wide.embedding_table.dtype == np.float64
    assert not wide.embedding_table.parallel_optimizer


def test_cross_entropy_loss_is_the_mean_over_rows_that_the_mask_keeps():
    logits = GENERATOR.normal(size=(7, 9)) * 50
    labels = GENERATOR.integers(0, 9, 7).astype(np.int32)
    mask = np.array([1, 1, 0, 1, 0, 1, 1], np.float32)
    shifted = logits - logits.max(1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(7), labels]
    found = CrossEntropyLoss()(Tensor(logits), Tensor(labels), Tensor(mask))
    assert found.shape == ()
    assert float(found) == pytest.approx((losses * mask).sum() / (5 + 1e-5), rel=1e-12)
    assert float(CrossEntropyLoss()(Tensor(logits), Tensor(labels), Tensor(mask * 0))) == 0.0
