"""Same program, any cut: the tutorial's Transformer on thread ranks against one rank."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import mpiparallel as ms
import mpiparallel.dataset as ds
import mpiparallel.dataset.transforms.c_transforms as C
from mpiparallel import context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset.text import translation_dataset
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork, decay_groups
from mpiparallel.nn import AdamWeightDecay
from mpiparallel.nn.transformer import TransformerOpParallelConfig
from mpiparallel.train import Callback, Model
from mpiparallel.train.persistence.state import state_of

STEPS, MORE_STEPS = 20, 10
TUTORIAL = {
    "batch_size": 32,
    "source_length": 10,
    "target_length": 10,
    "vocab_size": 20000,
    "hidden_size": 128,
    "encoder_layers": 1,
    "decoder_layers": 1,
}
"""What its train.py takes where the command line says nothing."""
WORDS = [f"w{number}" for number in range(40)]


def test_a_network_of_no_given_sizes_is_as_large_as_the_tutorials():
    config = TranslationConfig()
    assert {name: getattr(config, name) for name in TUTORIAL} == TUTORIAL


def make_dataset(dtype):
    random = np.random.default_rng(5)
    pairs = [
        (" ".join(random.choice(WORDS, length)), " ".join(random.choice(WORDS, length)))
        for length in random.integers(2, 8, 64)
    ]
    return translation_dataset(pairs, 5, 6, 43, 8, 3, float_type=dtype, start_token=True)


def make_model(dtype, data_parallel, model_parallel):
    config = TranslationConfig(
        batch_size=8,
        source_length=5,
        target_length=6,
        vocab_size=43,
        hidden_size=16,
        num_heads=4,
        dtype=dtype,
    )
    cuts = TransformerOpParallelConfig(data_parallel=data_parallel, model_parallel=model_parallel)
    network = TranslationNetwork(config, cuts)
    return Model(network, optimizer=AdamWeightDecay(decay_groups(network.trainable_params()), learning_rate=1e-3))


class Losses(Callback):
    def __init__(self, last_step):
        self.values, self.last_step, self.staged = [], last_step, None

    def step_end(self, run_context):
        parameters = run_context.original_args()
        self.staged = parameters.staged
        self.values.append(float(parameters.net_outputs))
        if parameters.cur_step_num >= self.last_step:
            run_context.request_stop()


def train(model, dataset, last_step):
    losses = Losses(last_step)
    model.train(100, dataset, losses, dataset_sink_mode=False)
    return losses


def set_parallel(optimizer_parallel=False):
    context.set_seed(11)
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=optimizer_parallel,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )


def losses_of_cut(_communicator, dtype, cut, optimizer_parallel):
    set_parallel(optimizer_parallel)
    return train(make_model(dtype, *cut), make_dataset(dtype), STEPS + MORE_STEPS).values


@cache
def one_rank_losses(dtype):
    return run_world(1, losses_of_cut, np.dtype(dtype), (1, 1), False)[0]


CUTS = {
    "batch": (2, (2, 1), True),
    "heads": (2, (1, 2), False),
    "batch 8 uneven over 3": (3, (3, 1), True),
    "4 heads uneven over 3": (3, (1, 3), False),
    "4 heads uneven over 3 of 6": (6, (2, 3), True),
    "batch and heads": (8, (2, 4), True),
    "half of the ranks repeat": (8, (2, 2), True),
}
# In float64 a wrong cut is seen at the ninth digit; two cuts show that float32 goes the same way.
IN_FLOAT32 = ("4 heads uneven over 3", "batch and heads")


@pytest.mark.parametrize(
    ("cut", "dtype"), [*((cut, "float64") for cut in CUTS), *((cut, "float32") for cut in IN_FLOAT32)]
)
def test_losses_are_those_of_one_rank(cut, dtype) -> None:
    ranks, parts, optimizer_parallel = CUTS[cut]
    expected = one_rank_losses(dtype)
    assert expected[-1] < expected[0]
    beside_computation = ranks == 8
    arguments = np.dtype(dtype), parts, optimizer_parallel
    for found in run_world(ranks, losses_of_cut, *arguments, overlaps=beside_computation):
        np.testing.assert_allclose(found, expected, rtol={"float64": 1e-9, "float32": 2e-5}[dtype])


def losses_with_a_move(_communicator, dtype, cut, target_cut):
    set_parallel(True)
    dataset = make_dataset(dtype)
    model = make_model(dtype, *cut)
    before = train(model, dataset, STEPS)
    cut_anew = make_model(dtype, *target_cut).predict_network
    ranks = target_cut[0] * target_cut[1]
    moved = model.reshard(cut_anew, ranks=ranks, retire="end", enable_parallel_optimizer=False)
    if not model.active:
        return before.values, None, moved.bytes_moved
    return before.values, train(model, dataset, STEPS + MORE_STEPS).values, moved.bytes_moved


@pytest.mark.parametrize(
    ("ranks", "cut", "target_cut"), [(8, (2, 4), (1, 4)), (6, (3, 2), (1, 4)), (3, (1, 3), (2, 1))]
)
def test_training_goes_on_with_fewer_ranks_as_one_rank_would(ranks, cut, target_cut) -> None:
    expected = one_rank_losses("float64")
    for before, after, moved in run_world(ranks, losses_with_a_move, np.dtype(np.float64), cut, target_cut):
        np.testing.assert_allclose(before, expected[:STEPS], rtol=1e-9)
        assert moved > 0
        if after is not None:
            np.testing.assert_allclose(after, expected[STEPS:], rtol=1e-9)


def initial_weights(communicator, cut):
    set_parallel(True)
    model = make_model(np.dtype(np.float32), *cut)
    dataset = make_dataset(np.float32)
    model.build(train_dataset=dataset)
    staged = model.shard(list(next(iter(dataset.iterate())).values()))
    arrays, layouts = state_of(staged)
    return {name: (layouts[name].box(communicator.rank), array.copy()) for name, array in arrays.items()}


def test_initial_weights_do_not_depend_on_the_cut() -> None:
    (whole,) = run_world(1, initial_weights, (1, 1))
    for held in run_world(6, initial_weights, (2, 3)):
        for name, (box, array) in held.items():
            full_box, full = whole[name]
            np.testing.assert_array_equal(array, full[box.within(full_box)], err_msg=name)


def tutorial_pipeline(dtype):
    """Return the tutorial's pipeline: a generator of the seven columns, cast and batched by MindSpore's classes."""

    def generator_seq2seq():
        random = np.random.default_rng(8)
        for _ in range(24):
            target = random.integers(3, 43, 6)
            yield (
                random.integers(3, 43, 5),
                np.arange(5),
                np.ones((5, 5)),
                target,
                np.arange(6),
                np.ones((6, 5)),
                np.append(target[1:], 2),
            )

    columns = ["src_ids", "src_position", "attention_mask", "tgt_ids", "tgt_position", "memory_mask", "label"]
    dataset = ds.GeneratorDataset(generator_seq2seq, column_names=columns)
    for name in columns:
        dataset = dataset.map(operations=C.TypeCast(dtype if "mask" in name else ms.int32), input_columns=name)
    return dataset.batch(8, drop_remainder=True)


def losses_of_the_tutorials_pipeline(_communicator, cut):
    set_parallel()
    model, losses = make_model(np.dtype(np.float64), *cut), Losses(100)
    model.train(2, tutorial_pipeline(np.float64), losses, dataset_sink_mode=False)
    return losses.values


def test_it_is_fed_by_a_generator_dataset_as_in_the_tutorial() -> None:
    (expected,) = run_world(1, losses_of_the_tutorials_pipeline, (1, 1))
    assert len(expected) == 6
    for found in run_world(4, losses_of_the_tutorials_pipeline, (2, 2)):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def losses_in_stages(_communicator, stages, cut):
    set_parallel()
    config = TranslationConfig(
        batch_size=4,
        source_length=5,
        target_length=6,
        vocab_size=43,
        hidden_size=16,
        num_heads=4,
        encoder_layers=2,
        decoder_layers=2,
        dtype=np.dtype(np.float64),
    )
    network = TranslationNetwork(config, TransformerOpParallelConfig(*cut, pipeline_stage=stages, micro_batch_num=2))
    trained = nn.PipelineCell(network, 2)
    model = Model(trained, optimizer=AdamWeightDecay(decay_groups(network.trainable_params()), learning_rate=1e-3))
    return train(model, make_dataset(np.float64), 5).values


def test_stages_by_the_rule_of_the_layers_train_as_one_rank_does():
    (expected,) = run_world(1, losses_in_stages, 1, (1, 1))
    for found in run_world(4, losses_in_stages, 2, (1, 2)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
