"""The configuration of a transformer's cuts."""

from __future__ import annotations

import pytest

from mpiparallel import context
from mpiparallel.context import get_auto_parallel_context, reset_auto_parallel_context
from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.transformer import (
    EmbeddingOpParallelConfig,
    OpParallelConfig,
    TransformerOpParallelConfig,
    TransformerRecomputeConfig,
)


def test_configurations_of_parts_are_those_of_the_whole():
    config = TransformerOpParallelConfig(data_parallel=2, model_parallel=4, vocab_emb_dp=False)
    assert config.dp_mp_config == OpParallelConfig(2, 4)
    assert config.embedding_dp_mp_config == EmbeddingOpParallelConfig(2, 4, False)
    assert config.embedding_dp_mp_config.dp_mp_config == OpParallelConfig(2, 4)


def test_defaults_cut_nothing():
    config = TransformerOpParallelConfig(recompute=TransformerRecomputeConfig())
    assert config.dp_mp_config == OpParallelConfig(1, 1)
    assert config.embedding_dp_mp_config.vocab_emb_dp


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data_parallel": 0}, "data_parallel 0 must be an integer of at least 1"),
        ({"model_parallel": 2.0}, "model_parallel 2.0 must be an integer"),
        ({"micro_batch_num": True}, "micro_batch_num True must be an integer"),
        ({"recompute": "no"}, "recompute 'no' must be True or False"),
        ({"vocab_emb_dp": 1}, "vocab_emb_dp 1 must be True or False"),
        ({"pipeline_stage": 0}, "pipeline_stage 0 must be an integer of at least 1"),
        ({"expert_parallel": 2}, "expert_parallel=2 is not implemented yet; use 1"),
    ],
)
def test_wrong_and_unimplemented_values_are_refused_given_or_assigned(options, message):
    with pytest.raises(ConfigurationError, match=f"TransformerOpParallelConfig: {message}"):
        TransformerOpParallelConfig(**options)
    config = TransformerOpParallelConfig()
    ((name, value),) = options.items()
    with pytest.raises(ConfigurationError, match=f"TransformerOpParallelConfig: {message}"):
        setattr(config, name, value)
    assert config == TransformerOpParallelConfig()


@pytest.mark.parametrize(
    "config", [OpParallelConfig(), EmbeddingOpParallelConfig(), TransformerRecomputeConfig()], ids=repr
)
def test_configurations_of_parts_check_what_is_assigned(config):
    for name in vars(config):
        with pytest.raises(ConfigurationError, match=f"{type(config).__name__}: {name} 'x' must be"):
            setattr(config, name, "x")
    with pytest.raises(ConfigurationError, match="'data_paralel' is not one of its values; "):
        config.data_paralel = 2


def test_optimizer_shard_assigned_later_holds_too():
    config = TransformerOpParallelConfig(optimizer_shard=True)
    try:
        config.optimizer_shard = False
        assert not get_auto_parallel_context("enable_parallel_optimizer")
    finally:
        reset_auto_parallel_context()


def test_optimizer_shard_turns_the_parallel_optimizer_on():
    try:
        TransformerOpParallelConfig()
        assert not get_auto_parallel_context("enable_parallel_optimizer")
        TransformerOpParallelConfig(optimizer_shard=True)
        assert get_auto_parallel_context("enable_parallel_optimizer")
    finally:
        reset_auto_parallel_context()


def test_stages_are_those_of_the_context():
    try:
        context.set_auto_parallel_context(pipeline_stages=4)
        config = TransformerOpParallelConfig()
        assert get_auto_parallel_context("pipeline_stages") == 4
        config.pipeline_stage = 2
        assert get_auto_parallel_context("pipeline_stages") == 2
        TransformerOpParallelConfig(pipeline_stage=3, micro_batch_num=6)
        assert get_auto_parallel_context("pipeline_stages") == 3
    finally:
        reset_auto_parallel_context()


def test_a_configuration_that_is_told_nothing_has_the_values_of_its_page():
    assert vars(TransformerOpParallelConfig()) == {
        "data_parallel": 1,
        "model_parallel": 1,
        "expert_parallel": 1,
        "pipeline_stage": 1,
        "micro_batch_num": 1,
        "recompute": TransformerRecomputeConfig(False, False, True, False),
        "optimizer_shard": False,
        "gradient_aggregation_group": 4,
        "vocab_emb_dp": True,
    }
    assert vars(TransformerRecomputeConfig()) == {
        "recompute": False,
        "parallel_optimizer_comm_recompute": False,
        "mp_comm_recompute": True,
        "recompute_slice_activation": False,
    }


@pytest.mark.parametrize("recompute", [False, True])
def test_recomputation_may_be_said_by_a_flag_alone(recompute):
    whole = TransformerRecomputeConfig(recompute)
    assert TransformerOpParallelConfig(recompute=recompute).recomputation == whole
    assert TransformerOpParallelConfig(recompute=whole).recomputation is whole


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("data_paralel", "did you mean 'data_parallel'[?]"),
        ("vocab_dp", "did you mean 'vocab_emb_dp'[?]"),
        ("zzz", "known are data_parallel, model_parallel, vocab_emb_dp"),
    ],
)
def test_a_value_of_no_known_name_is_refused_with_what_may_be_meant(name, hint):
    config = EmbeddingOpParallelConfig()
    with pytest.raises(ConfigurationError, match=f"^EmbeddingOpParallelConfig: '{name}' is not one of .*; {hint}$"):
        setattr(config, name, 1)


def test_more_experts_are_not_offered_and_no_number_of_them_is_refused_as_such():
    for wrong in (0, -1, "1", True):
        with pytest.raises(ConfigurationError, match=f"expert_parallel {wrong!r} must be an integer of at least 1"):
            TransformerOpParallelConfig(expert_parallel=wrong)


def test_what_the_context_says_stays_where_a_configuration_says_nothing():
    try:
        context.set_auto_parallel_context(enable_parallel_optimizer=True)
        config = TransformerOpParallelConfig()
        assert get_auto_parallel_context("enable_parallel_optimizer")
        config.pipeline_stage = 1
        assert get_auto_parallel_context("pipeline_stages") == 1
    finally:
        reset_auto_parallel_context()
