"""Operators that overwrite parameters: the update rules of optimizers, and assignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.expression.term import Term, call
from mpiparallel.graph.operator import Operator, register

_ALONE = "nobody else writes to the parameters of a rank"


class Update(Operator):
    """An operator that overwrites parameters in place and has no output.

    Its inputs are tensors of the first one's shape, all cut alike, and scalars: 0-d tensors that are read at each run.
    """

    joins = True
    updates: ClassVar[tuple[int, ...]] = (0,)
    scalars: ClassVar[tuple[int, ...]] = ()
    """The inputs that are 0-d."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        for position, spec in enumerate(inputs):
            wanted = () if position in self.scalars else inputs[0].shape
            if spec.shape != wanted:
                raise ShapeError(f"input {position} has shape {spec.shape}; it must be {wanted}")
        return ()

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels: Labels = tuple(f"d{dim}" for dim in range(len(inputs[0].shape)))
        rule = tuple(() if position in self.scalars else labels for position in range(len(inputs)))
        return Equation(rule, (), batch=labels[0] if labels else None)

    def coefficients(self, *scalars: Term) -> Sequence[Term]:
        """Return what ``rule`` is given, in float64, from the scalar inputs in this run."""
        return scalars

    def rule(self, coefficients: Sequence[Term], *arrays: Term) -> Sequence[Term]:
        """Return what the updated inputs become, from the inputs that are no scalars."""
        raise NotImplementedError(self.name)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        scalars = [inputs[position].astype(np.float64) for position in self.scalars]
        arrays = [one for position, one in enumerate(inputs) if position not in self.scalars]
        return self.rule([one.astype(arrays[0].dtype) for one in self.coefficients(*scalars)], *arrays)


@register
class ApplyMomentum(Update):
    """Momentum: ``accumulation = momentum * accumulation + gradient * gradient_scale``, along which it steps.

    With ``use_nesterov`` the step is ``learning_rate * (gradient * gradient_scale + momentum * accumulation)``.

    Parameters
    ----------
    use_nesterov : bool
        Whether it steps by what the accumulation will be.
    use_locking : bool
        MindSpore's; changes nothing, as a remark says.
    gradient_scale : float
        By which gradients are multiplied.

    Examples
    --------
    >>> from mpiparallel.graph.parameter import Parameter
    >>> variable, accumulation = Parameter([1.0], "w"), Parameter([0.0], "a")
    >>> _ = ApplyMomentum()(variable, accumulation, 0.5, [1.0], 0.9)
    >>> variable.asnumpy().tolist(), accumulation.asnumpy().tolist()
    ([0.5], [1.0])
    """

    updates = (0, 1)
    scalars = (2, 4)

    def __init__(self, use_nesterov: bool = False, use_locking: bool = False, gradient_scale: float = 1.0) -> None:
        self.use_nesterov = use_nesterov
        no_effect(self.name, "use_locking", use_locking, _ALONE, default=False)
        self.gradient_scale = gradient_scale

    def __call__(self, variable: Any, accumulation: Any, learning_rate: Any, gradient: Any, momentum: Any) -> Any:
        return super().__call__(variable, accumulation, learning_rate, gradient, momentum)

    def rule(self, coefficients: Sequence[Term], *arrays: Term) -> Sequence[Term]:
        learning_rate, momentum = coefficients
        variable, accumulation, gradient = arrays
        scaled = gradient if self.gradient_scale == 1.0 else gradient * self.gradient_scale
        velocity = accumulation * momentum + scaled
        step = scaled + velocity * momentum if self.use_nesterov else velocity
        return variable - step * learning_rate, velocity


@register
class SGD(Update):
    """Gradient descent with momentum and weight decay.

    ``gradient + weight_decay * parameters`` is the step. With momentum, ``accum`` becomes ``momentum * accum + (1 -
    dampening) * step`` and replaces the step. At the first update, where ``stat`` is positive, ``accum`` becomes the
    step itself, and ``stat`` becomes 0. With ``nesterov`` the step becomes ``step + momentum * accum``.

    Parameters
    ----------
    dampening : float
        How much less of a gradient goes into the momentum.
    weight_decay : float
        The share of the parameters that is added to the gradient.
    nesterov : bool
        Whether it steps by what the momentum will be.

    Raises
    ------
    ConfigurationError
        For ``nesterov`` with a dampening.

    Examples
    --------
    >>> from mpiparallel.graph.parameter import Parameter
    >>> parameters, accum, stat = Parameter([1.0], "w"), Parameter([0.0], "a"), Parameter([1.0], "s")
    >>> _ = SGD()(parameters, [1.0], 0.5, accum, 0.0, stat)
    >>> parameters.asnumpy().tolist()
    [0.5]
    """

    updates = (0, 3, 5)
    scalars = (2, 4)

    def __init__(self, dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False) -> None:
        if nesterov and dampening:
            raise ConfigurationError(f"{self.name}: nesterov=True needs dampening=0.0, not {dampening}")
        self.dampening = dampening
        self.weight_decay = weight_decay
        self.nesterov = nesterov

    def __call__(self, parameters: Any, gradient: Any, learning_rate: Any, accum: Any, momentum: Any, stat: Any) -> Any:
        return super().__call__(parameters, gradient, learning_rate, accum, momentum, stat)

    def rule(self, coefficients: Sequence[Term], *arrays: Term) -> Sequence[Term]:
        learning_rate, momentum = coefficients
        variable, gradient, accumulation, first = arrays
        step = variable * self.weight_decay + gradient
        is_first, has_momentum = call("greater", first, 0.0), call("not_equal", momentum, 0.0)
        velocity = call("where", is_first, step, accumulation * momentum + step * (1.0 - self.dampening))
        taken = step + velocity * momentum if self.nesterov else velocity
        return (
            variable - call("where", has_momentum, taken, step) * learning_rate,
            call("where", has_momentum, velocity, accumulation),
            call("where", has_momentum, 0.0, first),
        )


class AdaptiveMoments(Update):
    """What the rules of Adam share: running means of the gradient and of its square."""

    updates = (0, 1, 2)

    @staticmethod
    def averages(mean: Term, square: Term, gradient: Term, beta1: Term, beta2: Term) -> tuple[Term, Term]:
        """Return the new means of the gradient and of its square."""
        return mean * beta1 + gradient * (1.0 - beta1), square * beta2 + gradient * gradient * (1.0 - beta2)


@register
class Adam(AdaptiveMoments):
    """Adam with correction of bias; ``beta1_power`` and ``beta2_power`` are the powers of the betas up to this step.

    ``m = beta1 * m + (1 - beta1) * gradient``, ``v = beta2 * v + (1 - beta2) * gradient ** 2``,
    ``var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon)``; with ``use_nesterov`` ``m``
    is replaced there by ``beta1 * m + (1 - beta1) * gradient``. Source: Kingma and Ba, "Adam" (2015).

    Parameters
    ----------
    use_locking : bool
        MindSpore's; changes nothing, as a remark says.
    use_nesterov : bool
        Whether it steps by what the moment will be.

    Examples
    --------
    >>> from mpiparallel.graph.parameter import Parameter
    >>> var, m, v = (Parameter([0.0], name) for name in "wmv")
    >>> _ = Adam()(var, m, v, 0.9, 0.999, 0.1, 0.9, 0.999, 1e-8, [2.0])
    >>> var.asnumpy().round(4).tolist() == [np.float32(-0.1)]
    True
    """

    scalars = (3, 4, 5, 6, 7, 8)

    def __init__(self, use_locking: bool = False, use_nesterov: bool = False) -> None:
        no_effect(self.name, "use_locking", use_locking, _ALONE, default=False)
        self.use_nesterov = use_nesterov

    def __call__(
        self,
        var: Any,
        m: Any,
        v: Any,
        beta1_power: Any,
        beta2_power: Any,
        lr: Any,
        beta1: Any,
        beta2: Any,
        epsilon: Any,
        gradient: Any,
    ) -> Any:
        return super().__call__(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, gradient)

    def coefficients(self, *scalars: Term) -> Sequence[Term]:
        beta1_power, beta2_power, rate, beta1, beta2, epsilon = scalars
        return rate * call("sqrt", 1.0 - beta2_power) / (1.0 - beta1_power), beta1, beta2, epsilon

    def rule(self, coefficients: Sequence[Term], *arrays: Term) -> Sequence[Term]:
        rate, beta1, beta2, epsilon = coefficients
        variable, mean, square, gradient = arrays
        mean, square = self.averages(mean, square, gradient, beta1, beta2)
        ahead = mean * beta1 + gradient * (1.0 - beta1) if self.use_nesterov else mean
        return variable - ahead / (call("sqrt", square) + epsilon) * rate, mean, square


@register
class AdamWeightDecay(AdaptiveMoments):
    """Adam with decoupled weight decay and, as MindSpore's, without correction of bias.

    ``m`` and ``v`` are those of Adam; ``var -= lr * (m / (sqrt(v) + epsilon) + decay * var)``.

    Parameters
    ----------
    use_locking : bool
        MindSpore's; changes nothing, as a remark says.

    Examples
    --------
    >>> from mpiparallel.graph.parameter import Parameter
    >>> var, m, v = Parameter([1.0], "w"), Parameter([0.0], "m"), Parameter([0.0], "v")
    >>> _ = AdamWeightDecay()(var, m, v, 0.5, 0.9, 0.999, 1e-8, 0.5, [0.0])
    >>> var.asnumpy().tolist()
    [0.75]
    """

    scalars = (3, 4, 5, 6, 7)

    def __init__(self, use_locking: bool = False) -> None:
        no_effect(self.name, "use_locking", use_locking, _ALONE, default=False)

    def __call__(
        self, var: Any, m: Any, v: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, decay: Any, gradient: Any
    ) -> Any:
        return super().__call__(var, m, v, lr, beta1, beta2, epsilon, decay, gradient)

    def coefficients(self, *scalars: Term) -> Sequence[Term]:
        rate, beta1, beta2, epsilon, decay = scalars
        return rate, beta1, beta2, epsilon, 1.0 - rate * decay

    def rule(self, coefficients: Sequence[Term], *arrays: Term) -> Sequence[Term]:
        rate, beta1, beta2, epsilon, kept = coefficients
        variable, mean, square, gradient = arrays
        mean, square = self.averages(mean, square, gradient, beta1, beta2)
        return variable * kept - mean / (call("sqrt", square) + epsilon) * rate, mean, square
