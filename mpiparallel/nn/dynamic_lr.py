"""Learning rates as tables, one number a step, for an optimizer's ``learning_rate`` (MindSpore's ``dynamic_lr``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mpiparallel.errors import ConfigurationError


def _check(function: str, **positive: float) -> None:
    for name, value in positive.items():
        if not value > 0:
            raise ConfigurationError(f"{function}: {name} {value!r} must be above 0")


def _by_epoch(total_step: int, step_per_epoch: int, rate: Callable[[int], float]) -> list[float]:
    return [rate(step // step_per_epoch) for step in range(total_step)]


def piecewise_constant_lr(milestone: Sequence[int], learning_rates: Sequence[float]) -> list[float]:
    """Return ``learning_rates[i]`` for the steps before ``milestone[i]``.

    Parameters
    ----------
    milestone : sequence of int
        Steps, ascending.
    learning_rates : sequence of float
        As many.

    Returns
    -------
    list of float
        The learning rate of each step.

    Raises
    ------
    ConfigurationError
        For values out of range.

    Examples
    --------
    >>> piecewise_constant_lr([2, 5], [0.1, 0.05])
    [0.1, 0.1, 0.05, 0.05, 0.05]
    """
    if len(milestone) != len(learning_rates) or not milestone:
        raise ConfigurationError("piecewise_constant_lr: give as many learning_rates as milestones, at least one")
    if list(milestone) != sorted(set(milestone)) or milestone[0] < 1:
        raise ConfigurationError(f"piecewise_constant_lr: milestone {list(milestone)} must rise, from 1 on")
    table: list[float] = []
    for stop, rate in zip(milestone, learning_rates, strict=True):
        table += [rate] * (stop - len(table))
    return table


def exponential_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """Return ``learning_rate * decay_rate ** (epoch / decay_epoch)``; ``is_stair`` makes the exponent an integer.

    Parameters
    ----------
    learning_rate, decay_rate : float
        The first rate, and by what it is multiplied.
    total_step, step_per_epoch : int
        How many rates are returned, and the steps of an epoch.
    decay_epoch : int
        In how many epochs.
    is_stair : bool
        Whether it changes in jumps, once every ``decay_epoch`` epochs.

    Returns
    -------
    list of float
        The learning rate of each step.

    Raises
    ------
    ConfigurationError
        For values out of range.

    Examples
    --------
    >>> exponential_decay_lr(1.0, 0.5, 3, 1, 1)
    [1.0, 0.5, 0.25]
    """
    _check("exponential_decay_lr", total_step=total_step, step_per_epoch=step_per_epoch, decay_epoch=decay_epoch)

    def rate(epoch: int) -> float:
        power = epoch // decay_epoch if is_stair else epoch / decay_epoch
        return float(learning_rate * decay_rate**power)

    return _by_epoch(total_step, step_per_epoch, rate)


def cosine_decay_lr(
    min_lr: float, max_lr: float, total_step: int, step_per_epoch: int, decay_epoch: int
) -> list[float]:
    """Return half a cosine from ``max_lr`` to ``min_lr`` over ``decay_epoch`` epochs, constant within each.

    Parameters
    ----------
    min_lr, max_lr : float
        The last rate, and the first.
    total_step, step_per_epoch : int
        How many rates are returned, and the steps of an epoch.
    decay_epoch : int
        In how many epochs.

    Returns
    -------
    list of float
        The learning rate of each step.

    Raises
    ------
    ConfigurationError
        For values out of range.

    Examples
    --------
    >>> cosine_decay_lr(0.0, 1.0, 3, 1, 2)
    [1.0, 0.5, 0.0]
    """
    _check("cosine_decay_lr", total_step=total_step, step_per_epoch=step_per_epoch, decay_epoch=decay_epoch)

    def rate(epoch: int) -> float:
        angle = math.pi * min(epoch, decay_epoch) / decay_epoch
        return min_lr + 0.5 * (max_lr - min_lr) * (1.0 + math.cos(angle))

    return [round(value, 15) for value in _by_epoch(total_step, step_per_epoch, rate)]


def polynomial_decay_lr(
    learning_rate: float,
    end_learning_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    power: float,
    update_decay_epoch: bool = False,
) -> list[float]:
    """Return a decay from ``learning_rate`` to ``end_learning_rate`` along ``(1 - epoch / decay_epoch) ** power``.

    Parameters
    ----------
    learning_rate, end_learning_rate : float
        The first rate, and the last.
    total_step, step_per_epoch : int
        How many rates are returned, and the steps of an epoch.
    decay_epoch : int
        In how many epochs.
    power : float
        Above 0.
    update_decay_epoch : bool
        Whether ``decay_epoch`` is multiplied by the number of times that it has been begun.

    Returns
    -------
    list of float
        The learning rate of each step.

    Raises
    ------
    ConfigurationError
        For values out of range.

    Examples
    --------
    >>> polynomial_decay_lr(1.0, 0.0, 3, 1, 2, 1.0)
    [1.0, 0.5, 0.0]
    """
    _check("polynomial_decay_lr", total_step=total_step, step_per_epoch=step_per_epoch, decay_epoch=decay_epoch)

    def rate(epoch: int) -> float:
        epochs = decay_epoch * max(math.ceil(epoch / decay_epoch), 1) if update_decay_epoch else decay_epoch
        left = 1.0 - min(epoch, epochs) / epochs
        return float((learning_rate - end_learning_rate) * left**power + end_learning_rate)

    return _by_epoch(total_step, step_per_epoch, rate)


def warmup_lr(learning_rate: float, total_step: int, step_per_epoch: int, warmup_epoch: int) -> list[float]:
    """Return a straight rise from 0 to ``learning_rate`` over ``warmup_epoch`` epochs, constant within each.

    Parameters
    ----------
    learning_rate : float
        The last rate.
    total_step, step_per_epoch : int
        How many rates are returned, and the steps of an epoch.
    warmup_epoch : int
        In how many epochs.

    Returns
    -------
    list of float
        The learning rate of each step.

    Raises
    ------
    ConfigurationError
        For values out of range.

    Examples
    --------
    >>> warmup_lr(0.1, 4, 2, 1)
    [0.0, 0.0, 0.1, 0.1]
    """
    _check("warmup_lr", total_step=total_step, step_per_epoch=step_per_epoch, warmup_epoch=warmup_epoch)
    return _by_epoch(total_step, step_per_epoch, lambda epoch: learning_rate * min(epoch, warmup_epoch) / warmup_epoch)
