"""Loss, gradients and training of the tutorial's network on thread ranks are those of one rank, however it is cut."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from mpiparallel import nn
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.context import set_auto_parallel_context
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.transformer import TransformerOpParallelConfig
from mpiparallel.ops.gradients.gradient import value_and_grad
from tests.unit.nn.transformer.sample_network import Translator, sample_batch, set_values

SHARDED_OPTIMIZER = {
    "enable_parallel_optimizer": True,
    "parallel_optimizer_config": {"parallel_optimizer_threshold": 0},
}


def network(cuts, vocab_emb_dp=True, **options):
    if cuts != (1, 1):
        set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    config = TransformerOpParallelConfig(*cuts, vocab_emb_dp=vocab_emb_dp)
    return set_values(Translator(config, dtype=np.float64, **options))


def loss_and_gradients(communicator, cuts, vocab_emb_dp, options):
    cell = network(cuts, vocab_emb_dp, **options)
    weights = cell.trainable_params()
    batch = map(Tensor, sample_batch(options.get("batch", 4)))
    loss, gradients = value_and_grad(cell, None, weights)(*batch)
    return float(loss), {weight.name: gradient.asnumpy() for weight, gradient in zip(weights, gradients, strict=True)}


@pytest.mark.parametrize(
    ("cuts", "vocab_emb_dp", "options"),
    [
        ((2, 2), True, {}),
        ((2, 2), False, {"cut_head": True}),
        ((1, 4), True, {"cut_head": True}),
        ((4, 1), True, {}),
        ((2, 2), True, {"batch": 3}),
        ((1, 3), False, {"cut_head": True}),
        ((2, 2), True, {"num_heads": 1}),
        ((2, 3), False, {"batch": 5, "num_heads": 5, "hidden_size": 15, "cut_head": True}),
    ],
)
def test_loss_and_gradients_are_those_of_one_rank(cuts, vocab_emb_dp, options):
    wanted_loss, wanted = loss_and_gradients(alone(), (1, 1), vocab_emb_dp, options)
    for loss, gradients in run_world(cuts[0] * cuts[1], loss_and_gradients, cuts, vocab_emb_dp, options):
        assert loss == pytest.approx(wanted_loss, rel=1e-12)
        for name, gradient in gradients.items():
            scale = max(abs(wanted[name]).max(), 1.0)
            np.testing.assert_allclose(gradient, wanted[name], rtol=0, atol=1e-12 * scale, err_msg=name)


def train(communicator, cuts, make, context):
    cell = network(cuts, dropout=0.25, cut_head=True)
    if context:
        set_auto_parallel_context(**context)
    optimizer = make(cell.trainable_params())
    step = nn.TrainOneStepCell(cell, optimizer).set_train()
    losses = [float(step(*map(Tensor, sample_batch()))) for _ in range(3)]
    return losses, {p.name: (p.box, p.asnumpy()) for p in step.get_parameters()}


def grouped(parameters):
    plain = [parameter for parameter in parameters if "layernorm" in parameter.name or "bias" in parameter.name]
    others = [parameter for parameter in parameters if not any(parameter is one for one in plain)]
    groups = [{"params": others, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0, "lr": 0.02}]
    return nn.AdamWeightDecay([*groups, {"order_params": parameters}], 0.01)


@cache
def trained_alone(make):
    return train(alone(), (1, 1), make, {})


@pytest.mark.parametrize("context", [{}, SHARDED_OPTIMIZER], ids=["replicated", "parallel optimizer"])
@pytest.mark.parametrize(
    "make",
    [
        grouped,
        lambda p: nn.Momentum(p, [0.05, 0.01], 0.9, weight_decay=0.01),
        lambda p: nn.SGD(p, 0.05, 0.9, weight_decay=0.01),
        lambda p: nn.Adam(p, 0.01, weight_decay=0.01),
    ],
    ids=["AdamWeightDecay", "Momentum", "SGD", "Adam"],
)
def test_three_steps_with_dropout_leave_the_parameters_of_one_rank(make, context):
    wanted_losses, wanted = trained_alone(make)
    for losses, parameters in run_world(4, train, (2, 2), make, context):
        np.testing.assert_allclose(losses, wanted_losses, rtol=1e-10)
        assert list(parameters) == list(wanted)
        for name, (box, part) in parameters.items():
            whole_box, whole = wanted[name]
            np.testing.assert_allclose(part, whole[box.within(whole_box)], rtol=1e-8, atol=1e-9, err_msg=name)
