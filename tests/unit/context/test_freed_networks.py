"""What a network holds is freed with it, without a look of the collector."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest

from mpiparallel import Model, Tensor, jit, nn, ops
from mpiparallel.dataset import NumpySlicesDataset

X, Y = Tensor(np.ones((5, 3), np.float32)), Tensor(np.ones((5, 2), np.float32))
USES: dict[str, Callable[[nn.Cell], Any]] = {
    "call": lambda network: network(X),
    "step": lambda network: nn.TrainOneStepCell(
        nn.WithLossCell(network, nn.MSELoss()), nn.Adam(network.trainable_params())
    )(X, Y),
    "training": lambda network: Model(network, nn.MSELoss(), nn.SGD(network.trainable_params())).train(
        1, NumpySlicesDataset((X.asnumpy(), Y.asnumpy()), ["x", "y"]).batch(5)
    ),
    "compiled function": lambda network: jit(lambda x: network(x) + 1.0)(X),
    "gradient": lambda network: ops.GradOperation(get_by_list=True)(network, network.trainable_params())(X),
    "value and gradient": lambda network: ops.value_and_grad(network, None, network.trainable_params())(X),
}


def parameters_after(use: Callable[[nn.Cell], Any]) -> list[ref[Tensor]]:
    """Return references to the parameters of a network that has been used, and that nobody has any more."""
    network = nn.SequentialCell(nn.Dense(3, 4), nn.ReLU(), nn.Dense(4, 2))
    use(network)
    return [ref(one) for one in network.trainable_params()]


@pytest.mark.parametrize("use", USES)
def test_a_network_that_nobody_has_any_more_is_freed_at_once(use: str) -> None:
    """Whoever makes a second one in its place would need room for both."""
    gc.collect()
    gc.disable()
    try:
        assert [one() is None for one in parameters_after(USES[use])] == [True] * 4
    finally:
        gc.enable()
