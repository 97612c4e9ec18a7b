"""Sharding rules written as equations over labelled dims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from mpiparallel.layout.layout import Reduction

Labels = tuple[str | None, ...]


@dataclass(frozen=True)
class Equation:
    """Which dims of an operator's inputs and outputs are cut together. One label has one cut.

    Extents of a label may differ, as those of images and of windows over them do. Then each tensor is cut by the rule
    for its own. A label of an input that an output lacks is summed away: where it is cut, that output is partial. The
    axis of repeated calculation is the last of the device matrix, but the first where a label of ``repeats_first`` is
    cut.

    Parameters
    ----------
    inputs, outputs : tuple of tuple of str or None
        A label for each dim of each tensor; None marks a dim that is never cut, such as a broadcast dim of one element.
    whole : frozenset of str
        Labels that are not cut either.
    reduction : {"sum", "max", "min", "prod"}
        What the terms of a partial output make.
    batch : str, optional
        The label that batch parallelism cuts.
    divisors : dict of str to int
        Such a label is cut only into a number of parts that divides its entry.
    strategy_inputs : tuple of tuple of str or None
        The labels that a strategy speaks of, where they are not those of ``inputs``.
    order : tuple of str
        The first labels of the order in which cut labels become axes of the device matrix. Without it that is the order
        of the tensor with most labels.
    repeats_first : frozenset of str
        See above.
    sizes : dict of (int, str) to tuple of int
        The lengths of the parts of a dim that is cut unevenly. The key is the place of its tensor, counted over inputs
        and then outputs, and its label.

    Examples
    --------
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
    order: tuple[str, ...] = ()
    repeats_first: frozenset[str] = frozenset()
    sizes: Mapping[tuple[int, str], tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.strategy_inputs:
            object.__setattr__(self, "strategy_inputs", self.inputs)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        mappings = frozenset(self.divisors.items()), frozenset(self.sizes.items())
        return hash((self.inputs, self.outputs, self.whole, self.reduction, self.batch, self.strategy_inputs, mappings))

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

    def allows(self, label: str, parts: int) -> bool:
        """Return whether a label may be cut into so many parts.

        >>> Equation.parse("mk,kn->mn", whole="k").allows("k", 2)
        False
        """
        if parts == 1:
            return True
        fits = all(len(sizes) == parts for (_, named), sizes in self.sizes.items() if named == label)
        return label not in self.whole and self.divisors.get(label, 0) % parts == 0 and fits

    @cached_property
    def own_to_outputs(self) -> frozenset[str]:
        """The labels of outputs that no input has: however they are cut, no rank needs more of the inputs.

        >>> sorted(Equation.parse("a->ab").own_to_outputs)
        ['b']
        """
        read = {label for labels in self.inputs for label in labels}
        return frozenset(label for labels in self.outputs for label in labels if label is not None) - read

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels that a strategy may cut, in the order of the axes of the device matrix.

        That is ``order``, then the order of the tensor with most labels, an input before an output, then that of the
        inputs. So it is that of the dims of a broadcast output, or of the input dims of a reduction or a transposition.

        >>> Equation.parse("bc,abc->abc").labels
        ('a', 'b', 'c')
        """
        spoken = [_named(labels) for labels in self.strategy_inputs]
        widest = max((*spoken, *map(_named, self.outputs)), key=len, default=())
        cuttable = {label for labels in spoken for label in labels}
        ordered = dict.fromkeys(label for labels in (self.order, widest, *spoken) for label in labels)
        return tuple(label for label in ordered if label in cuttable)


def _named(labels: Labels) -> tuple[str, ...]:
    return tuple(label for label in labels if label is not None)
