"""Train on 8 ranks, go on with 6, and with 8 again, in one job; see README.md beside this file.

mpiparallel run -n 8 train.py
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import mpiparallel as ms
from mpiparallel import Model, nn, ops
from mpiparallel.communication import get_rank, init
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train.callback import Callback, LossMonitor

CUTS = {8: (2, 4), 6: (2, 3)}  # by the number of ranks: the batch, and the hidden units


class Network(nn.Cell):
    """A picture of 8 x 8 pixels, hidden units, and ten digits, cut for a number of ranks."""

    def __init__(self, ranks, hidden=600):
        super().__init__()
        batch, units = CUTS[ranks]
        self.w1 = ms.Parameter(ms.initializer("xavier_uniform", [64, hidden]), name="w1")
        self.w2 = ms.Parameter(ms.initializer("xavier_uniform", [hidden, 10]), name="w2")
        self.first = ops.MatMul().shard(((batch, 1), (1, units)))
        self.relu = ops.ReLU().shard(((batch, units),))
        self.second = ops.MatMul().shard(((batch, units), (units, 1)))

    def construct(self, pictures):
        return self.second(self.relu(self.first(pictures, self.w1)), self.w2)


class Elastic(Callback):
    """Move the training to so many ranks after each of the steps of a plan."""

    def __init__(self, model, plan):
        self.model, self.plan = model, plan

    def step_end(self, run_context):
        ranks = self.plan.get(run_context.original_args().cur_step_num)
        if ranks is None:
            return
        moved = self.model.reshard(Network(ranks), ranks=ranks)
        if self.model.active and get_rank() == 0:
            kept = f"{moved.bytes_kept / 1e3:.0f} kB stayed"
            print(f"{moved.bytes_moved / 1e3:.0f} kB moved, {kept}; {ranks} ranks train", flush=True)

    def retired(self, run_context):
        print("this rank waits", flush=True)


class Losses(Callback):
    """Keep the loss of each step."""

    def __init__(self):
        self.losses = []

    def step_end(self, run_context):
        self.losses.append(float(run_context.original_args().net_outputs.asnumpy()))


def digits(batch_size):
    from mpi4py import MPI  # after init, which starts MPI

    loaded = None
    if MPI.COMM_WORLD.rank == 0:  # one rank reads for all, as scikit-learn takes a second to import
        from sklearn.datasets import load_digits  # an extra that only this example needs

        loaded = load_digits(return_X_y=True)
    pictures, labels = MPI.COMM_WORLD.bcast(loaded)
    columns = (pictures / 16).astype("float32"), labels.astype("int32")
    return NumpySlicesDataset(columns, ["pictures", "labels"], shuffle=True).batch(batch_size, drop_remainder=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--still", action="store_true", help="stay on 8 ranks, to compare the losses")
    arguments = parser.parse_args()
    init()
    ms.set_seed(1)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    data = digits(batch_size=60)
    steps = data.get_dataset_size()
    network = Network(8)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(network, loss, nn.Adam(network.trainable_params(), 0.003))
    plan = {} if arguments.still else {10: 6, 2 * steps: 8}
    losses = Losses()
    callbacks = [losses, Elastic(model, plan)] + ([LossMonitor(10)] if get_rank() == 0 else [])
    model.train(arguments.epochs, data, callbacks, dataset_sink_mode=False)
    if get_rank() == 0:
        name = "8 ranks" if arguments.still else "8, 6, 8 ranks"
        lines = {name: [list(range(1, len(losses.losses) + 1)), losses.losses]}
        Path(f"{name.replace(' ', '_')}.result.json").write_text(json.dumps({"x": "step", "y": "loss", "lines": lines}))


if __name__ == "__main__":
    main()
