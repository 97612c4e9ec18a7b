"""A small training with all that a reshard must carry: model parallel cuts, dropout, Adam, a schedule, an embedding."""

from __future__ import annotations

import numpy as np

import mpiparallel.ops as ops
from mpiparallel import Model, context, nn
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.nn.transformer import TransformerEncoderLayer, TransformerOpParallelConfig
from mpiparallel.nn.transformer.linear import Linear
from mpiparallel.train import Callback

BATCH, LENGTH, HIDDEN, STEPS = 12, 4, 8, 12
SEMI_AUTO = {"parallel_mode": "semi_auto_parallel", "full_batch": True}
SHARDS = {"enable_parallel_optimizer": True, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
CUTS = {8: (4, 2), 6: (3, 2), 3: (3, 1), 5: (5, 1), 4: (2, 2), 2: (1, 2), 1: (1, 1)}


class Network(nn.Cell):
    """A layer of a transformer on rows that are given, and its mean squared distance from others."""

    def __init__(self, data_parallel=1, model_parallel=1):
        super().__init__()
        config = TransformerOpParallelConfig(data_parallel=data_parallel, model_parallel=model_parallel)
        self.layer = TransformerEncoderLayer(
            BATCH,
            HIDDEN,
            4 * HIDDEN,
            4,
            LENGTH,
            attention_dropout_rate=0.2,
            hidden_dropout_rate=0.3,
            param_init_type=np.float64,
            layernorm_compute_type=np.float64,
            softmax_compute_type=np.float64,
            parallel_config=config,
        )
        self.head = Linear(HIDDEN, 3, param_init_type=np.float64)
        self.mean = ops.ReduceMean()

    def construct(self, x, y):
        mask = ops.Ones()((x.shape[0], LENGTH, LENGTH), np.float64)
        seen, _ = self.layer(x, mask)
        rows = self.head(seen.reshape((-1, HIDDEN)))
        return self.mean((rows - y.reshape((-1, 3))) ** 2)


def dataset(rows=4 * BATCH, batch=BATCH, **shards):
    random = np.random.default_rng(11)
    data = random.normal(size=(rows, LENGTH, HIDDEN)), random.normal(size=(rows, LENGTH, 3))
    return NumpySlicesDataset(data, ["x", "y"], shuffle=True, **shards).batch(batch)


def make_model(ranks, **settings):
    """Return a model cut for a number of ranks, and set the context for it."""
    context.set_seed(5)
    context.set_auto_parallel_context(**SEMI_AUTO, **settings)
    network = Network(*CUTS[ranks])
    schedule = nn.ExponentialDecayLR(0.05, 0.9, 3, is_stair=False)
    return Model(network, optimizer=nn.Adam(network.trainable_params(), schedule))


class Losses(Callback):
    """Notes the loss of every step, by its number."""

    def __init__(self):
        self.by_step = {}

    def every_step(self, run_context):
        parameters = run_context.original_args()
        self.by_step[parameters.cur_step_num] = float(parameters.net_outputs.asnumpy())


class ReshardAt(Callback):
    """Calls ``model.reshard`` with what is said for a step."""

    def __init__(self, model, legs):
        self.model, self.legs = model, legs

    def step_end(self, run_context):
        step = run_context.original_args().cur_step_num
        if step in self.legs:
            leg = dict(self.legs[step])
            count = leg.get("ranks")
            if isinstance(count, int) and "strategy" not in leg:
                leg["strategy"] = Network(*CUTS[count])
            self.model.reshard(**leg)


def unmoved_losses():
    """Return the losses of the training on one rank that never moves."""
    model, losses = make_model(1), Losses()
    model.train(3, dataset(), losses, dataset_sink_mode=False)
    return losses.by_step


def state(model):
    """Return this rank's slices of all that is trained or kept, with their layouts."""
    return {one.name: (one.layout, one.asnumpy().copy()) for one in model.train_network.get_parameters()}
