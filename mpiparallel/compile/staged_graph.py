"""A network laid out on its ranks: one graph for all of them, or one for each stage of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.copies import includes, joined
from mpiparallel.layout.layout import Layout
from mpiparallel.pipeline.schedule import Schedule


@dataclass(frozen=True)
class StagedGraph:
    """The graph of each stage, on its own ranks, in the order of ``schedule``; of a network in one piece there is none.

    All ranks know all stages: so they agree, without messages, on which values cross between stages, and on which rank
    holds what. ``held`` are the layouts in which parameters were held when it was made.
    """

    stages: tuple[ShardedGraph, ...]
    schedule: Schedule | None = None
    held: Mapping[str, Layout] = field(default_factory=dict)

    def of_rank(self, rank: int) -> ShardedGraph:
        """Return the graph of the stage that a rank is in; of a rank that is in none, that of the first."""
        return next((stage for stage in self.stages if rank in stage.devices), self.stages[0])

    @property
    def rank_count(self) -> int:
        """How many ranks there are in all stages."""
        return sum(stage.devices.size for stage in self.stages)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters of all stages, by name."""
        values = {name: value for stage in self.stages for name, value in stage.graph.parameters.items()}
        return {name: value.parameter for name, value in values.items() if value.parameter is not None}

    @cached_property
    def stored(self) -> dict[str, Layout]:
        """The layout in which each parameter is kept, over the ranks of all stages that use it; no transient ones.

        Raises ConfigurationError for one that stages cut differently.
        """
        return {name: self._stored(name) for name, parameter in self.parameters.items() if not parameter.transient}

    def known_to(self, rank: int) -> dict[str, Layout]:
        """Return the layout of each parameter as a rank knows it: transient ones are each stage's own affair."""
        return {**self.of_rank(rank).stored, **self.stored}

    def _stored(self, name: str) -> Layout:
        using = [stage for stage in self.stages if name in stage.graph.parameters]
        layouts = [stage.stored[name] for stage in using]
        found = joined(layouts)
        if found is None:
            numbers = [self.stages.index(stage) for stage in using]
            raise ConfigurationError(
                f"parameter {name!r}: stages {numbers} of the pipeline use it, and cut it differently: "
                f"{'; '.join(map(str, layouts))}; give the operators on it strategies that cut it alike"
            )
        held = self.held.get(name)
        if held is None or not includes(held, found):
            return found
        # Other graphs use it in more stages, and all of them hold it.
        return held
