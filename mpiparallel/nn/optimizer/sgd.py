"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.optimizer.optimizer import Optimizer


class SGD(Optimizer):
    """``parameter -= learning_rate * step``, where ``step`` is the decayed gradient, or with momentum its running sum.

    The sum starts as the first step and goes on as ``momentum * sum + (1 - dampening) * step``; ``nesterov`` steps
    along ``step + momentum * sum``. All parameters are decayed, whatever their names. The state is "accum.<parameter>"
    and "stat.<parameter>", which is 1 before the first step.

    Parameters
    ----------
    params : list of Parameter, or of dict
        What is trained, or groups of it: see ``Optimizer``.
    learning_rate : float, sequence of float or LearningRateSchedule
        Of each step.
    momentum, dampening : float
        At least 0.
    weight_decay : float
        The share of the parameters that is added to the gradient.
    nesterov : bool
        Whether it steps by what the sum will be.
    loss_scale : float
        By which gradients are divided.

    Raises
    ------
    ConfigurationError
        For ``nesterov`` without momentum or with dampening, for values out of range and malformed groups.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> network = nn.Dense(2, 1, weight_init="ones", has_bias=False)
    >>> _ = SGD(network.trainable_params(), 0.5)([Tensor([[1.0, 2.0]])])
    >>> network.weight.asnumpy().tolist()
    [[0.5, 0.0]]
    """

    def __init__(
        self,
        params: Iterable[Any],
        learning_rate: Any = 0.1,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.check("momentum", momentum, momentum >= 0, "at least 0")
        self.check("dampening", dampening, dampening >= 0, "at least 0")
        self.check("momentum", momentum, momentum > 0 or not nesterov, "above 0 with nesterov=True")
        if not self.is_group:
            self.weight_decays = (float(weight_decay),) * len(self.parameters)
        self.momentum = self.scalar("momentum", momentum)
        self.accum = self.state("accum")
        self.stat = self.state("stat", 1.0)
        self.opt = tuple(ops.SGD(dampening, decay, nesterov) for decay in self.weight_decays)

    def construct(self, gradients: Sequence[Tensor]) -> None:
        """Make one step."""
        states = zip(self.opt, self.parameters, self.rates(), self.accum, self.stat, strict=True)
        for gradient, (update, parameter, rate, accum, stat) in zip(self.unscaled(gradients), states, strict=True):
            update(parameter, gradient, rate, accum, self.momentum, stat)
        self.count_step()
