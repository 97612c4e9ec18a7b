"""What the layers of a transformer refuse, all alike, and what they say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor
from mpiparallel.errors import ConfigurationError
from mpiparallel.nn import transformer

SIZES: dict[str, Any] = {
    "hidden_size": 8,
    "ffn_hidden_size": 8,
    "num_heads": 2,
    "num_layers": 1,
    "batch_size": 2,
    "seq_length": 3,
    "src_seq_length": 3,
    "tgt_seq_length": 3,
    "vocab_size": 5,
    "embedding_size": 4,
    "dropout_rate": 0.1,
}
LAYERS = {
    name: list(inspect.signature(kind).parameters)
    for name, kind in vars(transformer).items()
    if name in transformer.__all__ and not name.endswith("Config")
}
WRONG: dict[str, tuple[Any, ...]] = {
    "batch_size": ("1", 0, -1, True, 1.0),
    **dict.fromkeys(("seq_length", "src_seq_length", "tgt_seq_length"), (-1, 0, "3", None, 2.5, True)),
    **dict.fromkeys(("hidden_size", "ffn_hidden_size", "num_heads", "num_layers"), (0, "8", None, 8.0)),
    **dict.fromkeys(("vocab_size", "embedding_size", "encoder_layers"), (0, "8", None, 8.0)),
    **dict.fromkeys(("decoder_layers", "offset"), (-1, "1", None, True)),
    **dict.fromkeys(("dropout_rate", "hidden_dropout_rate", "attention_dropout_rate"), (-0.1, 1.0, "0.1", None, True)),
    **dict.fromkeys(("post_layernorm_residual", "use_past"), (0, "yes", None)),
    **dict.fromkeys(
        ("layernorm_compute_type", "softmax_compute_type", "param_init_type"), (np.int32, "floot", None, 3)
    ),
    "lambda_func": ("f", 3),
    "hidden_act": ("gelo", 3, None),
    "parallel_config": (False, 2, {"data_parallel": 2}, "dp"),
}
CASES = [(layer, name, value) for layer, names in LAYERS.items() for name in names for value in WRONG.get(name, ())]


def build(layer: str, **options: Any) -> Any:
    """Return a small layer with these options."""
    return getattr(transformer, layer)(**{name: SIZES[name] for name in LAYERS[layer] if name in SIZES} | options)


@pytest.mark.parametrize(("layer", "name", "value"), CASES)
def test_a_value_that_an_argument_cannot_have_is_refused_by_name(layer: str, name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name}|activation|encoder layers"):
        build(layer, **{name: value})


@pytest.mark.parametrize("layer", LAYERS)
def test_each_argument_has_a_check(layer: str) -> None:
    assert {name for name in LAYERS[layer] if name not in WRONG} <= {"param_init"}


def test_a_configuration_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"parallel_config=.* must be a TransformerOpParallelConfig, or None"):
        build("Transformer", parallel_config=transformer.OpParallelConfig())
    with pytest.raises(ConfigurationError, match=r"parallel_config=.* must be a EmbeddingOpParallelConfig, or None"):
        build("VocabEmbedding", parallel_config=transformer.OpParallelConfig())


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({}, ()),
        ({"batch_size": None}, ()),
        ({"batch_size": 3}, ("batch_size=3 has no effect here: shapes are read from the inputs, which have 2",)),
        ({"seq_length": 3}, ()),
    ],
)
def test_a_batch_of_another_size_than_said_is_remarked_on(
    said: dict[str, Any], line: tuple[str, ...], remarks: Callable[[], list[str]]
) -> None:
    x, mask = np.ones((2, 3, 8), np.float32), np.ones((2, 3, 3), np.float32)
    build("TransformerEncoderLayer", **said)(Tensor(x), Tensor(mask))
    assert remarks() == [f"MultiHeadAttention: {words}" for words in line]


COUNTS = ("hidden_size", "num_heads", "num_layers", "vocab_size", "seq_length")
FLOATING = "a floating-point dtype such as mpiparallel.float32"
SAID: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(COUNTS, (0, "an integer of at least 1")),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "offset"), (-1, "an integer of at least 0")),
    "batch_size": (0, "an integer of at least 1, or None"),
    **dict.fromkeys(("dropout_rate", "hidden_dropout_rate"), (1, "at least 0 and below 1")),
    "attention_dropout_rate": (-0.5, "at least 0 and below 1"),
    **dict.fromkeys(("post_layernorm_residual", "use_past"), (1, "True or False")),
    **dict.fromkeys(("param_init_type", "softmax_compute_type"), ("int8", FLOATING)),
    "hidden_act": (None, "the name of an activation"),
    "lambda_func": ("f", "a function of a layer, or None"),
    "parallel_config": (1, "a "),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_refusal_says_whose_argument_it_is_and_what_it_must_be(layer: str) -> None:
    for name in SAID.keys() & set(LAYERS[layer]):
        wrong, wanted = SAID[name]
        with pytest.raises(ConfigurationError) as refused:
            build(layer, **{name: wrong})
        assert str(refused.value).startswith(f"{layer}: {name}={wrong!r} must be {wanted}")


LEAST: dict[str, Any] = {name: 1 for name, value in SIZES.items() if isinstance(value, int)} | {
    **dict.fromkeys(("decoder_layers", "offset", "dropout_rate", "hidden_dropout_rate", "attention_dropout_rate"), 0),
    "encoder_layers": np.int64(1),
    "hidden_act": "relu",
    "param_init_type": "float16",
}


@pytest.mark.parametrize("layer", LAYERS)
def test_the_least_that_an_argument_may_be_is_taken(layer: str) -> None:
    build(layer, **{name: value for name, value in LEAST.items() if name in LAYERS[layer]})
    rates = [name for name in LAYERS[layer] if name.endswith("dropout_rate")]
    build(layer, **dict.fromkeys(rates, np.float32(0.99)))
