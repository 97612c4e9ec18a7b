"""Learning rates as functions of the step, computed in the program of the optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.expression.term import Term, call
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell


class LearningRateSchedule(Cell):
    """A learning rate for each step; a subclass says in ``construct(global_step)`` which.

    It is given to an optimizer, or to a group of parameters, as learning rate.

    Notes
    -----
    ``global_step``, an integer tensor of one element, counts the steps made before: 0 in the first. What is returned
    has one element.

    Examples
    --------
    >>> class Halved(LearningRateSchedule):
    ...     def construct(self, global_step):
    ...         return 0.5 ** global_step
    >>> float(Halved()(Tensor(2)))
    0.25
    """


class RateOfStep(Operator):
    """A function of one integer as a 0-d float32 tensor, in double precision until it is stored."""

    follows = True

    def __init__(self, formula: Callable[[Term], Term]) -> None:
        self.formula = formula

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec((), np.dtype(np.float32)),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation((tuple(None for _ in inputs[0].shape),), ((),))

    def expression(self, *inputs: Term) -> Sequence[Term]:
        return (self.formula(inputs[0].reshape(()).astype(np.float64)),)


class _Formula(LearningRateSchedule):
    """A schedule that is a function of the number of steps made."""

    def rate(self, step: Term) -> Term:
        """Return the learning rate after ``step`` steps, a term in float64."""
        raise NotImplementedError

    def construct(self, global_step: Tensor) -> Tensor:
        """Return the learning rate of a step, 0-d."""
        found: Tensor = RateOfStep(self.rate)(global_step)
        return found

    def checked(self, name: str, value: Any, at_least: float | None = None) -> Any:
        """Return a number above 0, or of at least another; raise ConfigurationError for anything else."""
        number = not isinstance(value, bool) and isinstance(value, (int, float, np.number))
        if not number or (value <= 0 if at_least is None else value < at_least):
            wanted = "above 0" if at_least is None else f"of at least {at_least}"
            raise ConfigurationError(f"{type(self).__name__}: {name} {value!r} must be a number {wanted}")
        return value


class _Decay(_Formula):
    """What the decays share: first rate, decay rate, and the steps of one decay, whole ones with ``is_stair``."""

    def __init__(self, learning_rate: float, decay_rate: float, decay_steps: int, is_stair: bool = False) -> None:
        super().__init__()
        self.learning_rate = self.checked("learning_rate", learning_rate)
        self.decay_rate = self.checked("decay_rate", decay_rate)
        self.decay_steps = self.checked("decay_steps", decay_steps, 1)
        self.is_stair = is_stair

    def decays(self, step: Term) -> Term:
        """Return how many times the rate has decayed after ``step`` steps."""
        count: Term = step / self.decay_steps
        return call("floor", count) if self.is_stair else count


class ExponentialDecayLR(_Decay):
    """``learning_rate * decay_rate ** (step / decay_steps)``.

    Parameters
    ----------
    learning_rate, decay_rate : float
        The first rate, and how it decays.
    decay_steps : int
        In how many steps.
    is_stair : bool
        Whether it changes in jumps, once every ``decay_steps`` steps.

    Examples
    --------
    >>> float(ExponentialDecayLR(0.1, 0.5, 4)(Tensor(8)))
    0.02500000037252903
    """

    def rate(self, step: Term) -> Term:
        found: Term = self.learning_rate * call("power", self.decay_rate, self.decays(step))
        return found


class NaturalExpDecayLR(_Decay):
    """``learning_rate * exp(-decay_rate * step)``.

    Parameters
    ----------
    learning_rate, decay_rate : float
        At least 0.
    decay_steps : int
        With ``is_stair``: the steps after which the rate changes.
    is_stair : bool
        Whether steps count in whole ``decay_steps``.

    Examples
    --------
    >>> round(float(NaturalExpDecayLR(1.0, 0.5, 4)(Tensor(2))), 4)
    0.3679
    """

    def rate(self, step: Term) -> Term:
        count = self.decays(step) * self.decay_steps
        found: Term = self.learning_rate * call("exp", -self.decay_rate * count)
        return found


class InverseDecayLR(_Decay):
    """``learning_rate / (1 + decay_rate * step / decay_steps)``.

    Parameters
    ----------
    learning_rate, decay_rate : float
        The first rate, and how it decays.
    decay_steps : int
        In how many steps.
    is_stair : bool
        Whether it changes in jumps, once every ``decay_steps`` steps.

    Examples
    --------
    >>> float(InverseDecayLR(1.0, 1.0, 1)(Tensor(3)))
    0.25
    """

    def rate(self, step: Term) -> Term:
        found: Term = self.learning_rate / (1.0 + self.decay_rate * self.decays(step))
        return found


class CosineDecayLR(_Formula):
    """Half a cosine from ``max_lr`` down to ``min_lr`` over ``decay_steps`` steps, and ``min_lr`` from there on.

    Parameters
    ----------
    min_lr, max_lr : float
        The last rate, and the first.
    decay_steps : int
        In how many steps.

    Raises
    ------
    ConfigurationError
        For values out of range.

    Examples
    --------
    >>> float(CosineDecayLR(0.0, 1.0, 2)(Tensor(1)))
    0.5
    """

    def __init__(self, min_lr: float, max_lr: float, decay_steps: int) -> None:
        super().__init__()
        self.min_lr = self.checked("min_lr", min_lr, 0)
        self.max_lr = self.checked("max_lr", max_lr)
        self.decay_steps = self.checked("decay_steps", decay_steps, 1)
        if min_lr >= max_lr:
            raise ConfigurationError(f"CosineDecayLR: max_lr {max_lr} must be above min_lr {min_lr}")

    def rate(self, step: Term) -> Term:
        angle = math.pi * call("minimum", step, self.decay_steps) / self.decay_steps
        found: Term = self.min_lr + 0.5 * (self.max_lr - self.min_lr) * (1.0 + call("cos", angle))
        return found


class PolynomialDecayLR(_Formula):
    """``(learning_rate - end) * (1 - step / decay_steps) ** power + end`` down to ``end_learning_rate``.

    Parameters
    ----------
    learning_rate, end_learning_rate : float
        The first rate, and the last.
    decay_steps : int
        In how many steps.
    power : float
        Above 0.
    update_decay_steps : bool
        Whether ``decay_steps`` are multiplied by the number of times that they have been begun.

    Examples
    --------
    >>> float(PolynomialDecayLR(1.0, 0.0, 2, 1.0)(Tensor(1)))
    0.5
    """

    def __init__(
        self,
        learning_rate: float,
        end_learning_rate: float,
        decay_steps: int,
        power: float,
        update_decay_steps: bool = False,
    ) -> None:
        super().__init__()
        self.learning_rate = self.checked("learning_rate", learning_rate)
        self.end_learning_rate = self.checked("end_learning_rate", end_learning_rate, 0)
        self.decay_steps = self.checked("decay_steps", decay_steps, 1)
        self.power = self.checked("power", power)
        self.update_decay_steps = update_decay_steps

    def rate(self, step: Term) -> Term:
        done = call("minimum", step, self.decay_steps) / self.decay_steps
        if self.update_decay_steps:
            begun = call("maximum", call("ceil", step / self.decay_steps), 1.0)
            done = step / (self.decay_steps * begun)
        left = call("power", 1.0 - done, self.power)
        found: Term = (self.learning_rate - self.end_learning_rate) * left + self.end_learning_rate
        return found


class WarmUpLR(_Formula):
    """A straight rise from 0 to ``learning_rate`` over ``warmup_steps`` steps, and ``learning_rate`` from there on.

    Parameters
    ----------
    learning_rate : float
        The last rate.
    warmup_steps : int
        In how many steps.

    Examples
    --------
    >>> float(WarmUpLR(1.0, 4)(Tensor(1)))
    0.25
    """

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        self.learning_rate = self.checked("learning_rate", learning_rate)
        self.warmup_steps = self.checked("warmup_steps", warmup_steps, 1)

    def rate(self, step: Term) -> Term:
        found: Term = self.learning_rate * call("minimum", step, self.warmup_steps) / self.warmup_steps
        return found
