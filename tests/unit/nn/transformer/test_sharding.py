"""The tutorial's network cut for 8 devices, 2 ways by batch and 4 ways by model: no data, no MPI, no devices."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import nn
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.context import reset_auto_parallel_context, set_auto_parallel_context
from mpiparallel.nn.transformer import TransformerOpParallelConfig
from mpiparallel.parallel.collective_operators import AllReduce
from tests.unit.nn.transformer.sample_network import Translator, sample_batch

CUTS = {
    "dense1.weight": (4, 1),
    "dense2.weight": (4, 1),
    "dense3.weight": (4, 1),
    "dense1.bias": (4,),
    "dense2.bias": (4,),
    "dense3.bias": (4,),
    "attention.projection.weight": (4, 1),
    "attention.projection.bias": (1,),
    "output.mapping.weight": (1, 4),
    "output.mapping.bias": (4,),
    "output.projection.weight": (4, 1),
    "output.projection.bias": (1,),
    "gamma": (1,),
    "beta": (1,),
    "position_embedding.embedding_table": (1, 1),
}


@pytest.fixture(autouse=True)
def eight_devices():
    set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8, full_batch=True)
    yield
    reset_auto_parallel_context()


def network(vocab_emb_dp=True, **options):
    return Translator(TransformerOpParallelConfig(2, 4, vocab_emb_dp=vocab_emb_dp), **options)


def collectives(graph):
    return [node for node in graph.nodes if node.operator.kind == "communication"]


@pytest.mark.parametrize("cut_head", [False, True])
def test_parameters_are_cut_as_megatron_cuts_them(cut_head):
    sharded = network(cut_head=cut_head).sharded_graph(*sample_batch())
    wanted = CUTS | {"word_embedding.embedding_table": (1, 1), "head.weight": (4 if cut_head else 1, 1)}
    for name, layout in sharded.used.items():
        assert layout.cuts == next(cuts for end, cuts in wanted.items() if name.endswith(end)), name
        assert layout.devices.size == 8


def test_rows_of_tables_are_cut_when_vocab_emb_dp_is_off():
    sharded = network(vocab_emb_dp=False).sharded_graph(*sample_batch())
    tables = {name: layout.cuts for name, layout in sharded.used.items() if name.endswith("embedding_table")}
    assert set(tables.values()) == {(4, 1)}
    assert len(tables) == 4


def test_the_forward_pass_needs_one_all_reduce_for_each_sublayer():
    sharded = network(cut_head=True).sharded_graph(*sample_batch())
    found = collectives(local_graph(sharded, 0))
    assert all(isinstance(node.operator, AllReduce) for node in found)
    assert [node.name for node in found if "base1" in node.name] == [
        f"base1/{place}/projection/MatMul:0/reduce"
        for place in (
            "encoder/0/attention",
            "encoder/0/output",
            "decoder/0/attention",
            "decoder/0/cross_attention",
            "decoder/0/output",
        )
    ]
    assert max(value.spec.size for node in found if "loss" in node.name for value in node.inputs) == 4 * 6 // 2


def test_a_training_step_needs_all_reduces_only_and_one_for_the_input_of_each_group_of_columns():
    cell = network(cut_head=True)
    train = nn.TrainOneStepCell(cell, nn.AdamWeightDecay(cell.trainable_params()))
    sharded = train.sharded_graph(*sample_batch())
    found = collectives(local_graph(sharded, 0))
    assert all(isinstance(node.operator, AllReduce) for node in found)
    activations = {(4 * length // 2, 16) for length in (5, 6)}
    backward = [node for node in found if not node.name.startswith("network/")]
    inputs = [value.name for node in backward for value in node.inputs if value.spec.shape in activations]
    assert len(inputs) == 1 + 2 + 4, inputs
    assert all(sharded.stored[f"adam_m.{name}"].cuts == sharded.stored[name].cuts for name in cell.parameters_dict())


def test_uneven_cuts_are_legal():
    set_auto_parallel_context(device_num=6)
    cell = Translator(TransformerOpParallelConfig(2, 3), batch=3, hidden_size=20, num_heads=5)
    sharded = cell.sharded_graph(*sample_batch(batch=3))
    layout = sharded.used["base1.encoder.blocks.0.attention.dense1.weight"]
    assert [layout.local_shape(rank)[0] for rank in range(3)] == [7, 7, 6]


def test_the_parallel_optimizer_cuts_weights_and_moments_again():
    everything = {"parallel_optimizer_threshold": 0}
    set_auto_parallel_context(enable_parallel_optimizer=True, parallel_optimizer_config=everything)
    cell = network(cut_head=True)
    optimizer = nn.AdamWeightDecay(cell.trainable_params(), weight_decay=0.1)
    sharded = nn.TrainOneStepCell(cell, optimizer).sharded_graph(*sample_batch())
    name = "base1.encoder.blocks.0.output.mapping.weight"
    assert sharded.used[name].cuts == (1, 4)
    assert sharded.stored[name].cuts == sharded.stored[f"adam_v.{name}"].cuts == (2, 4)
    assert sharded.stored["base1.encoder.blocks.0.output.projection.bias"].cuts == (1,)
    assert np.prod(sharded.stored["src_embedding.word_embedding.embedding_table"].cuts) == 1
