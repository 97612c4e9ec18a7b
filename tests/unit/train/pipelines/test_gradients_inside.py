"""A network in stages may take the gradient of something itself."""

from __future__ import annotations

import numpy as np

from mpiparallel import Model, Tensor, context, nn, ops
from mpiparallel.communication.threads import run_world

BATCHES = np.random.default_rng(2).normal(size=(3, 8, 4))
WEIGHTS = np.random.default_rng(3).normal(size=(2, 4, 4)) / 2


class Layers(nn.Cell):
    """Two layers, a stage each, of the input or of the slope of its third power, and the mean of squares."""

    def __init__(self, takes_slope: bool) -> None:
        super().__init__()
        self.takes_slope = takes_slope
        self.first, self.second = (
            nn.Dense(4, 4, Tensor(one), has_bias=False, dtype=np.float64) for one in WEIGHTS.copy()
        )
        self.first.pipeline_stage, self.second.pipeline_stage = 0, 1

    def construct(self, x):
        if self.takes_slope:
            x = ops.grad(lambda one: (one * one * one).sum())(x)
        return (self.second(ops.tanh(self.first(x))) ** 2).mean()


def losses(_communicator, stages: int, takes_slope: bool) -> list[float]:
    settings = {"pipeline_stages": stages} if stages > 1 else {}
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, **settings)
    network = Layers(takes_slope)
    trained = nn.PipelineCell(network, 2) if stages > 1 else network
    model = Model(trained, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9))
    batches = BATCHES if takes_slope else 3 * BATCHES**2
    return [float(model.run_step([batch])) for batch in batches]


def test_the_gradient_of_what_is_in_no_stage_is_what_the_stages_take() -> None:
    (wanted,) = run_world(1, losses, 1, False)
    assert len(set(wanted)) == len(BATCHES)
    for found in run_world(2, losses, 2, True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
