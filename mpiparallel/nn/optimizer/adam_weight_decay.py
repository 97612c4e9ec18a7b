"""Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.optimizer.optimizer import Optimizer


class AdamWeightDecay(Optimizer):
    """Adam whose weight decay acts on the parameters themselves, without correction of bias, as MindSpore's.

    ``m = beta1 * m + (1 - beta1) * gradient``, ``v = beta2 * v + (1 - beta2) * gradient ** 2``,
    ``parameter -= learning_rate * (m / (sqrt(v) + eps) + weight_decay * parameter)``. The state is "adam_m.<parameter>"
    and "adam_v.<parameter>".

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
    weight_decay : float
        By which the parameters themselves decay.

    Raises
    ------
    ConfigurationError
        For values out of range and malformed groups.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> network = nn.Dense(2, 1, weight_init="ones", has_bias=False)
    >>> _ = AdamWeightDecay(network.trainable_params(), 0.5, weight_decay=0.5)([Tensor([[0.0, 0.0]])])
    >>> network.weight.asnumpy().tolist()
    [[0.75, 0.75]]
    """

    def __init__(
        self,
        params: Iterable[Any],
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        self.check("beta1", beta1, 0 < beta1 < 1, "above 0 and below 1")
        self.check("beta2", beta2, 0 < beta2 < 1, "above 0 and below 1")
        self.check("eps", eps, eps > 0, "above 0")
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.moments1 = self.state("adam_m")
        self.moments2 = self.state("adam_v")
        self.opt = ops.AdamWeightDecay()

    def construct(self, gradients: Sequence[Tensor]) -> None:
        """Make one step."""
        states = zip(self.parameters, self.moments1, self.moments2, self.rates(), self.weight_decays, strict=True)
        for gradient, (parameter, m, v, rate, decay) in zip(gradients, states, strict=True):
            self.opt(parameter, m, v, rate, self.beta1, self.beta2, self.eps, decay, gradient)
        self.count_step()
