"""Operators that overwrite parameters: the update rules of optimizers, and assignment."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import sqrt
from typing import Any, ClassVar

from mpiparallel.backend.protocol import Array
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.ops.blocks import block_size, element_blocks, with_scratch


class Update(Operator):
    """An operator that overwrites parameters in place and has no output.

    Its inputs are tensors of the first one's shape, all cut alike, and scalars: 0-d tensors that are read at each run.
    """

    updates: ClassVar[tuple[int, ...]] = (0,)
    scalars: ClassVar[tuple[int, ...]] = ()
    """The inputs that are 0-d."""
    scratch_count: ClassVar[int] = 1

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

    def coefficients(self, *scalars: float) -> tuple[float, ...]:
        """Return what ``compute`` is given, from the values of the scalar inputs in this run."""
        return scalars

    def compute(self, xp: Any, coefficients: tuple[float, ...], *arrays: Array) -> None:
        """Update one block, given the arrays of the inputs that are no scalars, and scratch."""
        raise NotImplementedError(self.name)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, scalars = runtime.array_module, [inputs[position] for position in self.scalars]
        arrays = [array for position, array in enumerate(inputs) if position not in self.scalars]
        blocks = with_scratch(runtime, element_blocks(arrays, block_size(runtime)), self.scratch_count, arrays[0].dtype)

        def run() -> None:
            coefficients = self.coefficients(*map(float, scalars))
            for block in blocks:
                self.compute(xp, coefficients, *block)

        return run


@register
class ApplyMomentum(Update):
    """Momentum: ``accumulation = momentum * accumulation + gradient * gradient_scale``, along which it steps.

    With ``use_nesterov`` the step is ``learning_rate * (gradient * gradient_scale + momentum * accumulation)``.
    """

    updates = (0, 1)
    scalars = (2, 4)

    def __init__(self, use_nesterov: bool = False, use_locking: bool = False, gradient_scale: float = 1.0) -> None:
        self.use_nesterov = use_nesterov
        self.use_locking = use_locking
        self.gradient_scale = gradient_scale

    def __call__(self, variable: Any, accumulation: Any, learning_rate: Any, gradient: Any, momentum: Any) -> Any:
        return super().__call__(variable, accumulation, learning_rate, gradient, momentum)

    def compute(self, xp: Any, coefficients: tuple[float, ...], *arrays: Array) -> None:
        learning_rate, momentum = coefficients
        variable, accumulation, gradient, step = arrays
        xp.multiply(gradient, self.gradient_scale, out=step)
        xp.multiply(accumulation, momentum, out=accumulation)
        xp.add(accumulation, step, out=accumulation)
        _descend(xp, variable, accumulation, step, learning_rate, momentum if self.use_nesterov else None)


def _descend(
    xp: Any, variable: Array, velocity: Array, step: Array, learning_rate: float, nesterov: float | None
) -> None:
    """Step along the velocity; with Nesterov's momentum along ``step``, the gradient, plus that times the velocity."""
    if nesterov is None:
        xp.multiply(velocity, learning_rate, out=step)
        xp.subtract(variable, step, out=variable)
        return
    xp.multiply(step, learning_rate, out=step)
    xp.subtract(variable, step, out=variable)
    xp.multiply(velocity, learning_rate * nesterov, out=step)
    xp.subtract(variable, step, out=variable)


@register
class SGD(Update):
    """Gradient descent with momentum and weight decay.

    ``gradient + weight_decay * parameters`` is the step. With momentum, ``accum`` becomes ``momentum * accum + (1 -
    dampening) * step`` (the step itself where ``stat`` is positive, which marks the first time and is then set to 0)
    and takes the step's place; with ``nesterov`` the step becomes ``step + momentum * accum``. Raises
    ConfigurationError for ``nesterov`` with a dampening.
    """

    updates = (0, 3, 5)
    scalars = (2, 4)
    scratch_count = 2

    def __init__(self, dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False) -> None:
        if nesterov and dampening:
            raise ConfigurationError(f"{self.name}: nesterov=True needs dampening=0.0, not {dampening}")
        self.dampening = dampening
        self.weight_decay = weight_decay
        self.nesterov = nesterov

    def __call__(self, parameters: Any, gradient: Any, learning_rate: Any, accum: Any, momentum: Any, stat: Any) -> Any:
        return super().__call__(parameters, gradient, learning_rate, accum, momentum, stat)

    def compute(self, xp: Any, coefficients: tuple[float, ...], *arrays: Array) -> None:
        learning_rate, momentum = coefficients
        variable, gradient, accumulation, first, step, started = arrays
        xp.multiply(variable, self.weight_decay, out=step)
        xp.add(step, gradient, out=step)
        if momentum == 0.0:
            _descend(xp, variable, step, step, learning_rate, None)
            return
        xp.less_equal(first, 0, out=started)
        xp.multiply(accumulation, momentum, out=accumulation)
        xp.multiply(accumulation, started, out=accumulation)
        xp.multiply(started, -self.dampening, out=started)
        xp.add(started, 1.0, out=started)
        xp.multiply(started, step, out=started)
        xp.add(accumulation, started, out=accumulation)
        first.fill(0)
        _descend(xp, variable, accumulation, step, learning_rate, momentum if self.nesterov else None)


class AdaptiveMoments(Update):
    """What the rules of Adam share: running means of the gradient and of its square."""

    updates = (0, 1, 2)

    @staticmethod
    def average(xp: Any, mean: Array, sample: Array, decay: float, scratch: Array) -> None:
        """Set ``mean`` to ``decay * mean + (1 - decay) * sample``; the scratch may be the sample."""
        xp.multiply(mean, decay, out=mean)
        xp.multiply(sample, 1.0 - decay, out=scratch)
        xp.add(mean, scratch, out=mean)


@register
class Adam(AdaptiveMoments):
    """Adam with correction of bias; ``beta1_power`` and ``beta2_power`` are the powers of the betas up to this step.

    ``m = beta1 * m + (1 - beta1) * gradient``, ``v = beta2 * v + (1 - beta2) * gradient ** 2``,
    ``var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon)``; with ``use_nesterov`` ``m``
    is replaced there by ``beta1 * m + (1 - beta1) * gradient``. Source: Kingma and Ba, "Adam" (2015).
    """

    scalars = (3, 4, 5, 6, 7, 8)
    scratch_count = 2

    def __init__(self, use_locking: bool = False, use_nesterov: bool = False) -> None:
        self.use_locking = use_locking
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

    def coefficients(self, *scalars: float) -> tuple[float, ...]:
        beta1_power, beta2_power, rate, beta1, beta2, epsilon = scalars
        return rate * sqrt(1.0 - beta2_power) / (1.0 - beta1_power), beta1, beta2, epsilon

    def compute(self, xp: Any, coefficients: tuple[float, ...], *arrays: Array) -> None:
        rate, beta1, beta2, epsilon = coefficients
        variable, mean, square, gradient, step, ahead = arrays
        self.average(xp, mean, gradient, beta1, step)
        xp.multiply(gradient, gradient, out=step)
        self.average(xp, square, step, beta2, step)
        xp.sqrt(square, out=step)
        xp.add(step, epsilon, out=step)
        if self.use_nesterov:
            xp.multiply(mean, beta1 / (1.0 - beta1), out=ahead)
            xp.add(ahead, gradient, out=ahead)
            xp.multiply(ahead, 1.0 - beta1, out=ahead)
            xp.divide(ahead, step, out=step)
        else:
            xp.divide(mean, step, out=step)
        xp.multiply(step, rate, out=step)
        xp.subtract(variable, step, out=variable)


@register
class AdamWeightDecay(AdaptiveMoments):
    """Adam with decoupled weight decay and, as MindSpore's, without correction of bias.

    ``m`` and ``v`` are those of Adam; ``var -= lr * (m / (sqrt(v) + epsilon) + decay * var)``.
    """

    scalars = (3, 4, 5, 6, 7)

    def __init__(self, use_locking: bool = False) -> None:
        self.use_locking = use_locking

    def __call__(
        self, var: Any, m: Any, v: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, decay: Any, gradient: Any
    ) -> Any:
        return super().__call__(var, m, v, lr, beta1, beta2, epsilon, decay, gradient)

    def compute(self, xp: Any, coefficients: tuple[float, ...], *arrays: Array) -> None:
        rate, beta1, beta2, epsilon, decay = coefficients
        variable, mean, square, gradient, step = arrays
        self.average(xp, mean, gradient, beta1, step)
        xp.multiply(gradient, gradient, out=step)
        self.average(xp, square, step, beta2, step)
        xp.sqrt(square, out=step)
        xp.add(step, epsilon, out=step)
        xp.divide(mean, step, out=step)
        xp.multiply(step, rate, out=step)
        xp.multiply(variable, 1.0 - rate * decay, out=variable)
        xp.subtract(variable, step, out=variable)


class Assignment(Operator):
    """An operator that overwrites a variable with what it computes from it and a value, of its shape or 0-d."""

    updates = (0,)

    def __call__(self, variable: Any, value: Any) -> Any:
        return super().__call__(variable, value)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        variable, value = inputs
        if value.shape not in ((), variable.shape):
            raise ShapeError(f"value has shape {value.shape}; it must be that of the variable, {variable.shape}, or ()")
        return ()

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels: Labels = tuple(f"d{dim}" for dim in range(len(inputs[0].shape)))
        return Equation((labels, labels if inputs[1].shape else ()), (), batch=labels[0] if labels else None)


@register
class Assign(Assignment):
    """``variable = value``."""

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.copyto, *inputs, casting="same_kind")


@register
class AssignAdd(Assignment):
    """``variable += value``."""

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.add, *inputs, out=inputs[0])


@register
class AssignSub(Assignment):
    """``variable -= value``."""

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.subtract, *inputs, out=inputs[0])
