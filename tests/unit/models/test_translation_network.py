"""The tutorials' network for translation against NumPy: its embeddings, its loss, its stages, and what decays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, float32, float64
from mpiparallel.graph.parameter import Parameter
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork, decay_groups
from mpiparallel.nn.transformer import TransformerOpParallelConfig

BATCH, SOURCE, TARGET, WORDS = 2, 4, 3, 50
SMALL: dict[str, Any] = {
    "batch_size": BATCH,
    "source_length": SOURCE,
    "target_length": TARGET,
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_heads": 2,
}
# The last word of the second sentence is padding, whose number is 1; number 2 is a word.
SOURCE_IDS, TARGET_IDS = np.array([[3, 4, 5, 6], [7, 8, 1, 1]]), np.array([[2, 9, 10], [2, 11, 1]])
LABELS = np.array([[9, 10, 2], [11, 2, 1]])


def made(dropout_rate: float = 0.0, **options: int) -> TranslationNetwork:
    config = TranslationConfig(**SMALL, dropout_rate=dropout_rate, dtype=float64)
    return TranslationNetwork(config, TransformerOpParallelConfig(**options))


def positions(length: int) -> np.ndarray[Any, Any]:
    return np.broadcast_to(np.arange(length), (BATCH, length))


def batch() -> list[Tensor]:
    arrays = [SOURCE_IDS, positions(SOURCE), TARGET_IDS, positions(TARGET), LABELS]
    source, places, target, target_places, labels = (Tensor(one.astype(np.int32)) for one in arrays)
    mask, memory = Tensor(np.ones((BATCH, SOURCE, SOURCE))), Tensor(np.ones((BATCH, TARGET, SOURCE)))
    return [source, places, mask, target, target_places, memory, labels]


def test_the_loss_is_the_mean_cross_entropy_of_the_target_words_that_are_not_padding() -> None:
    network, given = made(), batch()
    kept = TARGET_IDS != 1
    mask = kept[:, :, None] & kept[:, None, :] & np.tri(TARGET, dtype=bool)
    source = network.source_embedding(given[0], given[1])
    target = network.target_embedding(given[3], given[4])
    decoded = network.transformer(source, given[2], target, Tensor(mask.astype(float)), given[5])[0].asnumpy()
    scores = (decoded @ network.head.weight.asnumpy().T).reshape(BATCH, TARGET, WORDS)
    chances = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    losses = -np.log(np.take_along_axis(chances, LABELS[..., None], -1)[..., 0])
    found = network(*given).asnumpy()
    np.testing.assert_allclose(found, losses[kept].sum() / (kept.sum() + 1e-5), rtol=1e-9)
    # Nothing else is dropped in training where no rate is given.
    np.testing.assert_array_equal(network.set_train()(*given).asnumpy(), found)


def test_a_tenth_of_an_embedding_is_dropped_where_nothing_else_is_said_and_its_first_values_are_small() -> None:
    config = TranslationConfig()
    assert (config.num_heads, config.dropout_rate, config.dtype) == (8, 0.1, float32)
    network = made(config.dropout_rate).set_train()
    words = network.source_embedding.word_embedding.embedding_table.asnumpy()
    places = network.target_embedding.position_embedding.embedding_table.asnumpy()
    assert (words.shape, places.shape) == ((WORDS, 16), (TARGET, 16))
    assert words.std() == pytest.approx(0.02, rel=0.1)
    ids = np.random.default_rng(1).integers(0, WORDS, (40, SOURCE))
    whole = words[ids] + network.source_embedding.position_embedding.embedding_table.asnumpy()
    found = network.source_embedding(Tensor(ids), Tensor(np.broadcast_to(np.arange(SOURCE), ids.shape))).asnumpy()
    dropped = found == 0
    assert dropped.mean() == pytest.approx(0.1, abs=0.03)
    np.testing.assert_allclose(found[~dropped], whole[~dropped] / 0.9, rtol=1e-9)


@pytest.mark.parametrize("stages", [1, 2])
def test_embeddings_are_in_the_first_stage_head_and_loss_in_the_last(stages: int) -> None:
    network = made(pipeline_stage=stages, micro_batch_num=stages)
    cells = network.source_embedding, network.target_embedding, network.head, network.loss
    assert [cell.pipeline_stage for cell in cells] == [0, 0, stages - 1, stages - 1]


def test_matrices_decay_by_a_tenth_and_vectors_norms_and_biases_not_at_all() -> None:
    shapes = {
        "dense.weight": (2, 3),
        "gamma": (3,),
        "table": (1, 4, 4),
        "LayerNorm.weight": (2, 2),
        "dense.Bias": (2, 1),
    }
    parameters = [Parameter(np.zeros(shape), name) for name, shape in shapes.items()]
    decayed, spared, order = decay_groups(parameters)
    assert [one.name for one in decayed["params"]] == ["dense.weight", "table"]
    assert [one.name for one in spared["params"]] == ["gamma", "LayerNorm.weight", "dense.Bias"]
    assert (decayed["weight_decay"], spared["weight_decay"], order) == (0.1, 0.0, {"order_params": parameters})
    assert decay_groups(parameters, 0.5)[0]["weight_decay"] == 0.5
