"""A network laid out on its ranks: one graph for all of them, or one for each stage of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.parallel.pipeline.schedule import Schedule


@dataclass(frozen=True)
class StagedGraph:
    """The graph of each stage, on its own ranks, in the order of ``schedule``; of a network in one piece there is none.

    All ranks know all stages: so they agree, without a word, on what crosses from one to another.
    """

    stages: tuple[ShardedGraph, ...]
    schedule: Schedule | None = None

    def of_rank(self, rank: int) -> ShardedGraph:
        """Return the graph of the stage that a rank is in; of a rank that is in none, that of the first."""
        return next((stage for stage in self.stages if rank in stage.devices), self.stages[0])

    @property
    def rank_count(self) -> int:
        """How many ranks there are in all stages."""
        return sum(stage.devices.size for stage in self.stages)
