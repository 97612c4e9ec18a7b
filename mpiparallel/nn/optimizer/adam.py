"""Adam."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.compatibility.arguments import only
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.optimizer.optimizer import Optimizer


class Adam(Optimizer):
    """Running means of gradient and squared gradient, corrected for their start at 0 (Kingma and Ba, 2015).

    ``parameter -= learning_rate * sqrt(1 - beta2 ** t) / (1 - beta1 ** t) * moment1 / (sqrt(moment2) + eps)`` in step t
    = 1, 2, ...; weight decay is added to the gradient. The state is "moment1.<parameter>", "moment2.<parameter>", and
    the powers of the betas, "beta1_power" and "beta2_power".

    Parameters
    ----------
    params : list of Parameter, or of dict
        What is trained, or groups of it: see ``Optimizer``.
    learning_rate : float, sequence of float or LearningRateSchedule
        Of each step.
    beta1, beta2 : float
        Of the running means; above 0 and below 1.
    eps : float
        Above 0.
    use_locking : bool
        MindSpore's; changes nothing, as a remark says.
    use_nesterov : bool
        Whether it steps by what the first moment will be.
    weight_decay : float
        The share of the parameters that is added to the gradient.
    loss_scale : float
        By which gradients are divided.
    use_amsgrad : bool
        False.

    Raises
    ------
    ConfigurationError
        For values out of range and malformed groups.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> network = nn.Dense(2, 1, weight_init="ones", has_bias=False)
    >>> _ = Adam(network.trainable_params(), learning_rate=0.5)([Tensor([[2.0, -3.0]])])
    >>> network.weight.asnumpy().round(4).tolist()
    [[0.5, 1.5]]
    """

    def __init__(
        self,
        params: Iterable[Any],
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        use_locking: bool = False,
        use_nesterov: bool = False,
        weight_decay: float = 0.0,
        loss_scale: float = 1.0,
        use_amsgrad: bool = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        only("Adam", "use_amsgrad", use_amsgrad, False)
        self.check("beta1", beta1, 0 < beta1 < 1, "above 0 and below 1")
        self.check("beta2", beta2, 0 < beta2 < 1, "above 0 and below 1")
        self.check("eps", eps, eps > 0, "above 0")
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.beta1_power = Parameter(np.ones(1, np.float32), "beta1_power", requires_grad=False)
        self.beta2_power = Parameter(np.ones(1, np.float32), "beta2_power", requires_grad=False)
        self.moment1 = self.state("moment1")
        self.moment2 = self.state("moment2")
        self.opt = ops.Adam(use_locking, use_nesterov)

    def construct(self, gradients: Sequence[Tensor]) -> None:
        """Make one step."""
        power1, power2 = self.beta1_power * self.beta1, self.beta2_power * self.beta2
        powers = power1.reshape(()), power2.reshape(())
        ready = self.decayed(self.unscaled(gradients))
        states = zip(self.parameters, self.moment1, self.moment2, self.rates(), ready, strict=True)
        for parameter, moment1, moment2, rate, gradient in states:
            self.opt(parameter, moment1, moment2, *powers, rate, self.beta1, self.beta2, self.eps, gradient)
        ops.Assign()(self.beta1_power, power1)
        ops.Assign()(self.beta2_power, power2)
        self.count_step()
