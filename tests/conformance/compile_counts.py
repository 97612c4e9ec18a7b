"""How often ranks run the passes of the compiler, counted where these are called."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from mpiparallel.communication import get_rank, world
from mpiparallel.compile import compilation, rank_graph


class CompileCounts:
    """Counts the calls of the passes on each rank; ``put`` sets an attribute of a module, as ``setattr`` does."""

    def __init__(self, put: Callable[[Any, str, Any], None]) -> None:
        self.traces: Counter[int] = Counter()
        self.placements: Counter[int] = Counter()
        self.localisations: Counter[int] = Counter()
        self.schedules: Counter[int] = Counter()
        self.programs: Counter[int] = Counter()
        self._lock = threading.Lock()
        put(compilation, "trace_function", self._counted(compilation.trace_function, self.traces))
        put(compilation, "place_stages", self._counted(compilation.place_stages, self.placements))
        put(rank_graph, "localise", self._counted(rank_graph.localise, self.localisations))
        put(rank_graph, "schedule_collectives", self._counted(rank_graph.schedule_collectives, self.schedules))
        put(compilation, "bind", self._counted(compilation.bind, self.programs))

    def _counted(self, function: Callable[..., Any], counter: Counter[int]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            # That the counter looks at the world is nothing that a trace depends on.
            with self._lock, world.observed(lambda: None):
                counter[get_rank()] += 1
            return function(*arguments, **options)

        return counted
