"""What optimizers share: parameters, learning rates, weight decay and the count of steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell, ParameterTuple
from mpiparallel.nn.initializer import Constant
from mpiparallel.nn.learning_rate_schedule import LearningRateSchedule
from mpiparallel.nn.optimizer.parameter_groups import read_parameters


class Optimizer(Cell):
    """A cell that overwrites ``parameters`` along their gradients; subclasses say how in ``construct(gradients)``.

    A number or a table of learning rates is the parameter "learning_rate"; group i with one of its own has the
    parameter "learning_rate_group_i". So both are saved, and can be changed between steps.

    Parameters
    ----------
    learning_rate : float, sequence of float or LearningRateSchedule
        A number; or one for each step, of which the last holds on; or what makes it of ``global_step``, which counts
        the steps.
    parameters : list of Parameter, or of dict
        Parameters, or groups of them: dicts with ``params`` and perhaps ``lr`` and ``weight_decay``, and one with
        ``order_params`` for the order of all.
    weight_decay : float
        It is not for parameters with "beta" or "gamma" in their names, unless groups are given (MindSpore's rule).
    loss_scale : float
        By which gradients are divided.

    Raises
    ------
    ConfigurationError
        For values out of range and malformed groups.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> network = nn.Dense(2, 1, weight_init="ones", has_bias=False)
    >>> class Descent(Optimizer):
    ...     def construct(self, gradients):
    ...         for parameter, gradient, rate in zip(self.parameters, gradients, self.rates()):
    ...             ops.AssignSub()(parameter, rate * gradient)
    >>> _ = Descent(0.5, network.trainable_params())([Tensor([[1.0, 2.0]])])
    >>> network.weight.asnumpy().tolist()
    [[0.5, 0.0]]
    """

    _whole_inputs = True

    def __init__(
        self, learning_rate: Any, parameters: Iterable[Any], weight_decay: float = 0.0, loss_scale: float = 1.0
    ) -> None:
        super().__init__(auto_prefix=False)
        self.check("weight_decay", weight_decay, weight_decay >= 0, "at least 0")
        self.check("loss_scale", loss_scale, loss_scale > 0, "above 0")
        trained = read_parameters(type(self).__name__, parameters)
        self.parameters = ParameterTuple(trained.parameters)
        self.loss_scale = float(loss_scale)
        self.is_group = trained.grouped
        self.global_step = Parameter(np.zeros(1, np.int32), "global_step", requires_grad=False)
        self.learning_rate = self._rate_parameter(learning_rate, "learning_rate")
        rates = [self.learning_rate] * len(trained.groups)
        for index, group in enumerate(trained.groups):
            if group.learning_rate is not None:
                rates[index] = self._rate_parameter(group.learning_rate, f"learning_rate_group_{index}")
        own_rates = [rate for rate in rates if rate is not self.learning_rate]
        self.group_learning_rates = ParameterTuple(rate for rate in own_rates if isinstance(rate, Parameter))
        groups = trained.group_indices
        self._rates: list[Any] = [rates[index] for index in groups]
        decays = [trained.groups[index].weight_decay for index in groups]
        self.weight_decays = tuple(float(weight_decay) if decay is None else decay for decay in decays)
        if not trained.grouped:
            self.weight_decays = tuple(
                0.0 if "beta" in parameter.name or "gamma" in parameter.name else decay
                for parameter, decay in zip(trained.parameters, self.weight_decays, strict=True)
            )

    def check(self, name: str, value: float, holds: bool, wanted: str) -> None:
        """Raise ConfigurationError unless ``holds``."""
        if not holds:
            raise ConfigurationError(f"{type(self).__name__}: {name} {value} must be {wanted}")

    def _rate_parameter(self, rate: Any, name: str) -> Parameter | LearningRateSchedule:
        if isinstance(rate, LearningRateSchedule):
            return rate
        values = np.asarray(rate.asnumpy() if isinstance(rate, Tensor) else rate)
        if values.dtype.kind not in "iuf" or values.ndim > 1 or values.size == 0:
            raise ConfigurationError(
                f"{type(self).__name__}: {name} is a {type(rate).__name__}; give a number, a list for the steps, or a "
                "LearningRateSchedule"
            )
        self.check(name, float(values.min()), bool(np.all(values >= 0)), "at least 0")
        return Parameter(values.astype(np.float32), name, requires_grad=False)

    def __call__(self, gradients: Sequence[Any]) -> Any:
        """Overwrite the parameters along ``gradients``, one for each of ``parameters``."""
        if len(gradients) != len(self.parameters):
            raise ConfigurationError(
                f"{type(self).__name__}: {len(gradients)} gradients are given for {len(self.parameters)} parameters"
            )
        return super().__call__(*gradients)

    def _construct_scoped(self, *gradients: Any) -> Any:
        return super()._construct_scoped(gradients)

    @property
    def step(self) -> int:
        """How many steps have been made."""
        return int(self.global_step.asnumpy()[0])

    def state(self, prefix: str, value: float = 0.0) -> ParameterTuple:
        """Return parameters like those that are trained, named ``prefix.name`` and filled with ``value``."""
        return self.parameters.clone(prefix, Constant(value))

    def scalar(self, name: str, value: float) -> Parameter:
        """Return a 0-d float32 parameter that is not trained, to be set as an attribute."""
        return Parameter(np.asarray(value, np.float32), name, requires_grad=False)

    def rates(self) -> list[Tensor]:
        """Return the learning rate of each parameter in this step, 0-d."""
        known: dict[int, Tensor] = {}
        for rate in self._rates:
            if id(rate) not in known:
                known[id(rate)] = self._rate_now(rate)
        return [known[id(rate)] for rate in self._rates]

    def get_lr(self) -> Any:
        """Return the learning rate of the next step, 0-d; of groups a tuple, one for each parameter."""
        rates = self.rates()
        return tuple(rates) if self.is_group else rates[0]

    def _rate_now(self, rate: Parameter | LearningRateSchedule) -> Tensor:
        if isinstance(rate, Parameter):
            return rate if rate.ndim == 0 else self._looked_up(rate)
        found: Tensor = rate(self.global_step)
        return found.reshape(())

    def _looked_up(self, table: Parameter) -> Tensor:
        step = ops.Minimum()(self.global_step, table.size - 1)
        rate: Tensor = ops.Gather().configured(in_range=True)(table, step, 0)
        return rate.reshape(())

    def unscaled(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients divided by the scale of the loss."""
        if self.loss_scale == 1.0:
            return list(gradients)
        return [gradient * (1.0 / self.loss_scale) for gradient in gradients]

    def decayed(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients with weight decay times the parameters added."""
        return [
            gradient + parameter * decay if decay else gradient
            for gradient, parameter, decay in zip(gradients, self.parameters, self.weight_decays, strict=True)
        ]

    def count_step(self) -> None:
        """Add one to ``global_step``."""
        ops.AssignAdd()(self.global_step, 1)
