"""An evaluation of 26 samples, of which each rank has its own share: three each, the last one those that are left."""

from __future__ import annotations

import numpy as np


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel import Model, Tensor, context, nn
    from mpiparallel.communication import get_group_size, get_rank, init
    from mpiparallel.dataset import NumpySlicesDataset

    random = np.random.default_rng(5)
    x = random.normal(size=(26, 6)).astype(np.float32)
    weight = random.normal(size=(3, 6)).astype(np.float32)
    labels = random.integers(0, 3, 26).astype(np.int32)
    init()
    context.set_auto_parallel_context(parallel_mode="data_parallel", parameter_broadcast=True)
    start = 3 * get_rank()
    own = slice(start, None if get_rank() == get_group_size() - 1 else start + 3)
    network = nn.Dense(6, 3, weight_init=Tensor(weight), has_bias=False)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(network, loss, metrics={"acc", "loss", "top_5_accuracy"})
    found = model.eval(NumpySlicesDataset((x[own], labels[own]), ["x", "y"], shuffle=False).batch(4))

    logits = x @ weight.T
    cost = np.mean(np.log(np.exp(logits).sum(1)) - logits[range(26), labels])
    np.testing.assert_allclose(found["acc"], (logits.argmax(1) == labels).mean(), rtol=1e-12)
    np.testing.assert_allclose(found["loss"], cost, rtol=1e-5)
    assert found["top_5_accuracy"] == 1
    print(f"rank {get_rank()} evaluated")


if __name__ == "__main__":
    main()
