"""Layers that stand many times in a network: a quick search looks at a few, and takes the others to be alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Node
from mpiparallel.search.problem.choices import Choice
from mpiparallel.search.problem.likeness import Likeness

_FEWEST: Final = 8
"""Fewer layers are looked at one by one."""
_FIRST: Final = 2
"""Which of those that are alike stands for those after it: what is beside it is alike, too."""


@dataclass(frozen=True)
class Folding:
    """``stands_for`` has of each folded node the one that stands for it, ``weights`` for how many those count.

    What is folded takes the strategies, layouts and costs of the other. Near the ends of a stretch of layers that is
    not exact, so what is found must be priced unfolded. ``alike`` has equal numbers for nodes of a kind, of which
    most are folded.
    """

    stands_for: Mapping[Node, Node] = field(default_factory=dict)
    weights: Mapping[Node, int] = field(default_factory=dict)
    alike: Mapping[Node, int] = field(default_factory=dict)

    def weight(self, node: Node) -> int:
        """Return how many times a node counts: 0 for one that is folded."""
        return 0 if node in self.stands_for else self.weights.get(node, 1)


def folding_of(nodes: Iterable[Node], likeness: Likeness) -> Folding:
    """Return how nodes are folded: those that have many like them, with what is around them.

    Those at the edges of layers have a few less like them, and those that a layer has twice have more. All are folded
    that at least half of the layers have: were only some nodes of a layer, what moves between them would not count.
    """
    kinds: dict[int, list[Node]] = {}
    for node in nodes:
        kinds.setdefault(likeness.around[node], []).append(node)
    layers = Counter(len(members) for members in kinds.values() if len(members) >= _FEWEST and members[0].is_forward)
    if not layers:
        return Folding()
    fewest = max(layers, key=lambda count: (layers[count], count)) / 2
    stands_for: dict[Node, Node] = {}
    weights: dict[Node, int] = {}
    alike: dict[Node, int] = {}
    for kind, members in kinds.items():
        if len(members) >= fewest:
            first, *others = members[_FIRST:]
            stands_for.update(dict.fromkeys(others, first))
            weights[first] = 1 + len(others)
            alike.update(dict.fromkeys(members, kind))
    return Folding(stands_for, weights, alike)


def tied(choices: Sequence[Choice], folding: Folding) -> tuple[Choice, ...]:
    """Return the choices; those of nodes that are folded into one, and that have equal options, become one choice."""
    found: dict[object, list[Choice]] = {}
    for number, choice in enumerate(choices):
        kind = folding.alike.get(choice.node)
        key = number if kind is None else (kind, id(choice.options), len(choice.again))
        found.setdefault(key, []).append(choice)
    return tuple(
        replace(first, others=tuple(place for one in others for place in one.places))
        for first, *others in found.values()
    )
