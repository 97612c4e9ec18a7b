"""What users say of an operator beside its arguments: strategies, recomputation, and what changes nothing here."""

from __future__ import annotations

from typing import Any, TypeVar

from mpiparallel.compatibility.remark import remark
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError, StrategyError

Strategy = tuple[tuple[int, ...], ...]
Self = TypeVar("Self", bound="OperatorSettings")


@dataclass(eq=False)
class Segment:
    """A stretch of the program that is computed once more for its gradient; ``recomputed`` where it is the second time.

    ``regathers`` says that its parameters are then gathered from their shards anew.
    """

    regathers: bool = False
    recomputed: bool = False


class OperatorSettings:
    """The settings of an operator; each method returns the operator."""

    strategy: Strategy | None = None
    out_strategy: Strategy | None = None
    segment: Segment | None = None

    @property
    def name(self) -> str:
        """The operator's name in graphs, messages and strategy files."""
        return type(self).__name__

    @property
    def settings(self) -> tuple[object, ...]:
        """What a graph depends on: strategies, and whether outputs are recomputed."""
        return self.strategy, self.out_strategy, self.segment

    def shard(self: Self, in_strategy: Strategy | None = None, out_strategy: Strategy | None = None) -> Self:
        """Cut dim ``d`` of input ``i`` into ``in_strategy[i][d]`` parts.

        Whether the cuts fit the operator and the devices is checked when the network is compiled.

        Parameters
        ----------
        in_strategy : tuple of tuple of int, optional
            For each input, into how many parts each dim is cut. None takes the strategy away: the operator is then
            placed as one that never had any.
        out_strategy : tuple of tuple of int, optional
            Cuts to which the outputs are moved at once. A dim that is cut further takes the axes over which the output
            is a sum first. So a ReduceScatter does both: ``((1, 2), (2, 1))`` and ``((2, 1),)`` for a product.

        Returns
        -------
        Operator
            The operator itself.

        Raises
        ------
        StrategyError
            When one is not a tuple of tuples of positive integers, and for an ``out_strategy`` alone.
        """
        if in_strategy is None and out_strategy is not None:
            raise StrategyError(f"{self.name}: out_strategy {out_strategy!r} is given alone; give in_strategy too")
        self.strategy = None if in_strategy is None else _checked(self.name, "strategy", in_strategy)
        self.out_strategy = None if out_strategy is None else _checked(self.name, "out_strategy", out_strategy)
        return self

    def recompute(self: Self, mode: bool = True) -> Self:
        """Compute the outputs once more for the gradient rather than keep them; returns the operator."""
        self.segment = Segment() if mode else None
        return self

    def add_prim_attr(self: Self, name: str, value: Any) -> Self:
        """Return the operator: attributes are hints to MindSpore's planner, which are not needed here."""
        remark(f"{self.name}.add_prim_attr: {name}={value!r} has no effect here: the planner takes no hints")
        return self

    add_attr = add_prim_attr

    def set_device(self: Self, device_target: str) -> Self:
        """Return the operator, which runs on the device of its rank."""
        remark(f"{self.name}.set_device: {device_target!r} has no effect here: an operator runs where its rank does")
        return self

    def set_prim_instance_name(self: Self, instance_name: str) -> Self:
        """Return the operator, which goes by its place in the network."""
        remark(f"{self.name}.set_prim_instance_name: {instance_name!r} has no effect: its name is its place")
        return self

    def set_stage(self: Self, stage: int) -> Self:
        """Return the operator, which is in stage 0; raise ConfigurationError for another stage of a pipeline."""
        if stage != 0:
            raise ConfigurationError(
                f"{self.name}.set_stage: an operator is in the stage of its cell; set its pipeline_stage to {stage}"
            )
        return self


def _checked(operator: str, argument: str, strategy: Any) -> Strategy:
    if not isinstance(strategy, tuple) or not all(isinstance(cuts, tuple) for cuts in strategy):
        raise StrategyError(f"{operator}: {argument} {strategy!r} must be a tuple of tuples such as ((2, 1), (1, 4))")
    if any(not isinstance(cut, int) or cut < 1 for cuts in strategy for cut in cuts):
        raise StrategyError(f"{operator}: {argument} {strategy!r}: each cut must be an integer of at least 1")
    return strategy
