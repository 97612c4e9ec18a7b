"""Sharding rules written as equations over labelled dims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mpiparallel.layout.layout import Reduction

Labels = tuple[str | None, ...]


@dataclass(frozen=True)
class Equation:
    """Which dims of an operator's inputs and outputs are cut together.

    One label has one cut; where its extents differ, as those of images and of windows over them do, each tensor is cut
    by the rule for its own. A label of an input that an output lacks is summed away (or reduced by ``reduction``):
    where it is cut, that output is partial. None marks a dim that is never cut, such as a broadcast dim of one element;
    labels in ``whole`` are not cut either, and a label in ``divisors`` only into a number of parts that divides its
    entry. ``batch`` is the label that batch parallelism cuts. ``strategy_inputs`` are the labels that a strategy
    speaks of, where they are not those of ``inputs``.

    >>> Equation.parse("mk,kn->mn").inputs
    (('m', 'k'), ('k', 'n'))
    """

    inputs: tuple[Labels, ...]
    outputs: tuple[Labels, ...]
    whole: frozenset[str] = frozenset()
    reduction: Reduction = "sum"
    batch: str | None = None
    divisors: Mapping[str, int] = field(default_factory=dict)
    strategy_inputs: tuple[Labels, ...] = ()

    def __post_init__(self) -> None:
        if not self.strategy_inputs:
            object.__setattr__(self, "strategy_inputs", self.inputs)

    @classmethod
    def parse(cls, text: str, whole: str = "", reduction: Reduction = "sum", batch: str | None = None) -> Equation:
        """Return the equation of an einsum-like text, one letter a dim."""
        inputs, outputs = ([tuple(part) for part in side.split(",")] for side in text.split("->"))
        first = batch or next((label for labels in inputs for label in labels if label not in whole), None)
        return cls(tuple(inputs), tuple(outputs), frozenset(whole), reduction, first)

    @classmethod
    def same(cls, *ranks: int, outputs: int = 1, whole: tuple[int, ...] = ()) -> Equation:
        """Return the equation of an operator on tensors whose dims correspond from the right, broadcasting left out."""
        labels = tuple(f"d{dim}" for dim in range(max(ranks)))
        return cls(
            tuple(labels[len(labels) - rank :] for rank in ranks),
            (labels,) * outputs,
            frozenset(labels[dim] for dim in whole),
            batch=labels[0] if labels else None,
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that a strategy may cut, in the order of their first place: the axes of the device matrix."""
        seen = dict.fromkeys(label for labels in self.strategy_inputs for label in labels if label is not None)
        return tuple(seen)
