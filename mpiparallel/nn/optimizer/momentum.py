"""Gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.optimizer.optimizer import Optimizer


class Momentum(Optimizer):
    """``moment = momentum * moment + gradient``, then ``parameter -= learning_rate * moment``.

    With ``use_nesterov`` the step is ``learning_rate * (gradient + momentum * moment)``. The state is
    "moments.<parameter>".

    Parameters
    ----------
    params : list of Parameter, or of dict
        What is trained, or groups of it: see ``Optimizer``.
    learning_rate : float, sequence of float or LearningRateSchedule
        Of each step.
    momentum : float
        At least 0.
    weight_decay : float
        The share of the parameters that is added to the gradient.
    loss_scale : float
        By which gradients are divided.
    use_nesterov : bool
        Whether it steps by what the moment will be.

    Raises
    ------
    ConfigurationError
        For values out of range and malformed groups.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> network = nn.Dense(2, 1, weight_init="ones", has_bias=False)
    >>> _ = Momentum(network.trainable_params(), 0.5, 0.9)([Tensor([[1.0, 2.0]])])
    >>> network.weight.asnumpy().tolist()
    [[0.5, 0.0]]
    """

    def __init__(
        self,
        params: Iterable[Any],
        learning_rate: Any,
        momentum: float,
        weight_decay: float = 0.0,
        loss_scale: float = 1.0,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.check("momentum", momentum, momentum >= 0, "at least 0")
        self.momentum = self.scalar("momentum", momentum)
        self.moments = self.state("moments")
        self.opt = ops.ApplyMomentum(use_nesterov)

    def construct(self, gradients: Sequence[Tensor]) -> None:
        """Make one step."""
        ready = self.decayed(self.unscaled(gradients))
        for parameter, moment, rate, gradient in zip(self.parameters, self.moments, self.rates(), ready, strict=True):
            self.opt(parameter, moment, rate, gradient, self.momentum)
        self.count_step()
