"""A way to train a network on its ranks: all that a user could set by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from mpiparallel.context.settings import (
    all_settings,
    get_auto_parallel_context,
    set_auto_parallel_context,
    take_strategies,
)
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import StrategyFileError
from mpiparallel.graph.operator import Strategy
from mpiparallel.nn.wrap.pipeline_cell import PipelineCell
from mpiparallel.parallel.configuration import ParallelConfiguration

_KINDS = {
    "devices": int,
    "stages": int,
    "micro_batches": int,
    "schedule": str,
    "recomputes": list,
    "shards": bool,
    "strategies": dict,
}


@dataclass(frozen=True)
class Plan:
    """How a network is trained on ``devices`` ranks.

    ``schedule`` is empty without stages, ``recomputes`` are the numbers of the layers that are recomputed, ``shards``
    says that replicas share out weights and optimizer states. ``strategies`` are those of operators, by the names of
    their nodes.
    """

    devices: int
    stages: int = 1
    micro_batches: int = 1
    schedule: str = ""
    recomputes: tuple[int, ...] = ()
    shards: bool = False
    strategies: Mapping[str, Strategy] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        stages = f"{self.stages} stages by {self.schedule}" if self.stages > 1 else "no stages"
        count = "the batch in one piece" if self.micro_batches == 1 else f"{self.micro_batches} micro-batches"
        again = len(self.recomputes)
        recomputed = f"{again} layer{'s' * (again != 1)} recomputed" if again else "nothing recomputed"
        return f"{stages}, {count}, {recomputed}, {'with' if self.shards else 'without'} optimizer shards"

    @property
    def json(self) -> dict[str, Any]:
        """The plan as JSON has it."""
        strategies = {name: list(map(list, cuts)) for name, cuts in self.strategies.items()}
        return {**vars(self), "recomputes": list(self.recomputes), "strategies": strategies}

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Plan:
        """Return the plan that JSON stands for; StrategyFileError where it stands for none.

        >>> Plan.of_json(Plan(4, 2, 8, "1f1b", (0, 2)).json) == Plan(4, 2, 8, "1f1b", (0, 2))
        True
        """
        wrong = [name for name, kind in _KINDS.items() if type(said.get(name)) is not kind]
        wrong += ["recomputes"] if any(type(one) is not int for one in said.get("recomputes") or ()) else []
        if wrong or said.keys() != _KINDS.keys():
            raise StrategyFileError(f"plan: {', '.join(wrong or said)} is not as a search writes it; search once more")
        cuts = {name: tuple(map(tuple, one)) for name, one in said["strategies"].items()}
        return cls(**{**said, "recomputes": tuple(said["recomputes"]), "strategies": cuts})

    def configured(self, configuration: ParallelConfiguration) -> ParallelConfiguration:
        """Return a configuration by which a network is trained so."""
        return replace(
            configuration,
            pipeline_stages=self.stages,
            pipeline_schedule=self.schedule if self.stages > 1 else "",
            stage_ranks=(),
            enable_parallel_optimizer=self.shards,
            loaded_strategies=tuple(sorted(self.strategies.items())),
        )

    def take(self, cell: PipelineCell | None) -> None:
        """Set all that it says in the context and in the network, as a user would."""
        if cell is not None:
            cell.take(self.micro_batches, self.recomputes)
        path = get_auto_parallel_context("strategy_ckpt_load_file")
        mode = get_auto_parallel_context("auto_parallel_search_mode")
        set_auto_parallel_context(
            pipeline_stages=self.stages,
            pipeline_config={"pipeline_scheduler": self.schedule} if self.stages > 1 else None,
            enable_parallel_optimizer=self.shards,
            auto_parallel_search_mode="recursive_programming" if mode == "everything" else mode,
        )
        given = dict(all_settings().loaded_strategies[1])
        take_strategies(path, tuple(sorted({**given, **self.strategies}.items())), self.devices)
