"""What has been moved into other layouts, so that it is moved once for all who read it there."""

from __future__ import annotations

from typing import Generic, TypeVar

from mpiparallel.graph.graph import Node, Value
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.layout.layout import Layout

Made = TypeVar("Made")


class Conversions(Generic[Made]):
    """What was made of values in layouts that are not their own, for the nodes of a graph in their order.

    What was moved under guards is there only where the same guards hold. A segment that gathers parameters once more
    reads none that was gathered outside of it.
    """

    def __init__(self) -> None:
        self._made: dict[Value, dict[tuple[Layout, tuple[Value, ...], Segment | None], Made]] = {}
        self._guards: tuple[Value, ...] = ()
        self._again: Segment | None = None

    def at(self, node: Node | None) -> None:
        """Say which node reads what is asked for next; None is for what leaves the graph."""
        self._guards, segment = (), None
        if node is not None:
            self._guards, segment = node.notes.guards, (node.notes.origin or node).notes.segment
        self._again = segment if segment is not None and segment.recomputed and segment.regathers else None

    def known(self, value: Value, wanted: Layout) -> Made | None:
        """Return what was made of a value in the layout ``wanted``; None where there is nothing."""
        made = self._made.get(value)
        if made is None:
            return None
        again = self._again if value.parameter is not None else None
        for count in range(len(self._guards) + 1):
            found = made.get((wanted.canonical, self._guards[:count], again))
            if found is not None:
                return found
        return None

    def keep(self, value: Value, wanted: Layout, made: Made) -> None:
        """Keep what was made of a value in a layout."""
        again = self._again if value.parameter is not None else None
        self._made.setdefault(value, {})[wanted.canonical, self._guards, again] = made

    def forget(self, value: Value) -> None:
        """Forget what was made of a value that has changed."""
        self._made.pop(value, None)
